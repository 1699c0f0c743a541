package lexical

import (
	"context"
	"errors"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	"github.com/blevesearch/bleve/v2/index/scorch/mergeplan"
	index "github.com/blevesearch/bleve_index_api"
	"golang.org/x/sync/errgroup"
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
	return onDisk, Contain(func() error { return shard.Batch(batch) })
}

// mergeNothing allows no segment to be merged, because of its size. What is left of such a merge is that it wakes whoever
// lets batches gather.
var mergeNothing = mergeplan.MergePlanOptions{MaxSegmentSize: 0}

// wake ends the gathering of a shard's batches, unless a forced merge is under way, which does so, too.
func (ix *Index) wake(i int) {
	if ix.forcing[i].TryLock() {
		ix.waking.Go(func() { // as long as a merge that is under way; it ends with the shard
			defer ix.forcing[i].Unlock()
			_ = ix.shards[i].ForceMerge(context.Background(), &mergeNothing)
		})
	}
}

// forceMerge merges the segments of a shard into one. It returns when ctx is done, also while it waits for a merge that is
// under way, which scorch does not end for it.
func (ix *Index) forceMerge(ctx context.Context, i int) error {
	merged := make(chan error, 1)
	ix.waking.Go(func() {
		ix.forcing[i].Lock()
		defer ix.forcing[i].Unlock()
		if err := ctx.Err(); err != nil {
			merged <- err
			return
		}
		merged <- ix.shards[i].ForceMerge(ctx, nil)
	})
	select {
	case err := <-merged:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wakeAgain is how soon a shard is woken again, for the gathering may begin just behind the first time.
const wakeAgain = 20 * time.Millisecond

// await has what was introduced written without delay, and waits for it.
func (ix *Index) await(ctx context.Context, i int, written <-chan struct{}) error {
	for {
		ix.wake(i)
		select {
		case <-written:
			return nil
		case <-time.After(wakeAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write applies a batch to a shard and waits until it is on disk.
func (ix *Index) write(ctx context.Context, i int, batch *index.Batch) error {
	written, err := introduce(ix.shards[i], batch)
	if err != nil {
		return err
	}
	return ix.await(ctx, i, written)
}

// Flush writes what is in memory to disk. Large batches are best written at once, each as a segment of its own: those that
// gather are merged first.
func (ix *Index) Flush(ctx context.Context) error {
	shards, ctx := errgroup.WithContext(ctx)
	for i := range ix.shards {
		if ix.inMemory[i].Load() > 0 {
			shards.Go(func() error { return ix.write(ctx, i, index.NewBatch()) })
		}
	}
	return shards.Wait()
}

// closePatience is how long a disk may take for what is in memory when the index is closed.
const closePatience = 5 * time.Second

// Close writes what is in memory to disk, as far as that can be done soon, and ends the index.
func (ix *Index) Close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	_ = ix.Flush(ctx) // what cannot be written was not confirmed
	ix.closing.Store(true)
	whole := true
	for i, shard := range ix.shards {
		if shard == nil {
			whole = false
			continue
		}
		err = errors.Join(err, shard.Close())
		owners.Delete(shard)
		owners.Delete(shardDir(ix.dir, i))
	}
	ix.waking.Wait()
	ix.queue.Close()
	if err == nil && whole {
		writeSums(ix.dir)
	}
	return err
}
