package lexical

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
	index "github.com/blevesearch/bleve_index_api"
)

// A batch is in memory at first, where searches find it, and is written to disk with those that came together with it. A
// segment and the note of it take five to seven syncs, for which threads of the proxy's requests wait as well, so that one
// segment a second is much better than ten.

// writing says for how many milliseconds batches gather before they are written.
var writing = map[string]any{"PersisterNapTimeMSec": 1000}

// introduce applies a batch; written is closed when it is on disk, with all that was applied before.
func introduce(shard *scorch.Scorch, batch *index.Batch) (written <-chan struct{}, err error) {
	onDisk := make(chan struct{})
	batch.SetPersistedCallback(func(error) { close(onDisk) })
	return onDisk, shard.Batch(batch)
}

// mergeNothing allows no segment to be merged, because of its size. What is left of such a merge is that it wakes whoever
// lets batches gather.
var mergeNothing = mergeplan.MergePlanOptions{MaxSegmentSize: 0}

// wakeAgain is how soon that is repeated, for it may come just before the gathering begins.
const wakeAgain = 20 * time.Millisecond

// await has what was introduced written without delay, and waits for it.
func await(ctx context.Context, shard *scorch.Scorch, written <-chan struct{}) error {
	for {
		if err := shard.ForceMerge(ctx, &mergeNothing); err != nil {
			return err
		}
		select {
		case <-written:
			return nil
		case <-time.After(wakeAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write applies a batch and waits until it is on disk.
func write(ctx context.Context, shard *scorch.Scorch, batch *index.Batch) error {
	written, err := introduce(shard, batch)
	if err != nil {
		return err
	}
	return await(ctx, shard, written)
}

// closePatience is how long a disk may take for what is in memory when the index is closed.
const closePatience = 5 * time.Second

// Close writes what is in memory to disk, as far as that can be done soon, and ends the index.
func (ix *Index) Close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var writers sync.WaitGroup
	for i, shard := range ix.shards {
		if shard != nil && ix.inMemory[i].Load() > 0 {
			writers.Go(func() { _ = write(ctx, shard, index.NewBatch()) }) // what cannot be written was not confirmed
		}
	}
	written := make(chan struct{})
	go func() { defer close(written); writers.Wait() }()
	select {
	case <-written:
	case <-ctx.Done():
	}
	for _, shard := range ix.shards {
		if shard != nil {
			err = errors.Join(err, shard.Close())
		}
	}
	<-written // closed shards let go of those who wait
	ix.queue.Close()
	return err
}
