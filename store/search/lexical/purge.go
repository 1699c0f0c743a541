package lexical

import (
	"context"
	"errors"
	"fmt"

	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
)

// A document that is taken out is no longer found, but its words stay in the file of its segment until that is merged,
// which for a large segment may be never. A shard notes that it has such files in the same batch, so that a crash does
// not forget it, until [Index.Purge] has written them anew.

var (
	removedKey = []byte("removed") // internal key: there while files hold what was taken out
	present    = []byte{1}
)

// Removed reports whether files of the index may hold what was taken out of it.
func (ix *Index) Removed() (bool, error) {
	for _, shard := range ix.shards {
		if removed, err := isRemoved(shard); err != nil || removed {
			return removed, err
		}
	}
	return false, nil
}

func isRemoved(shard *scorch.Scorch) (bool, error) {
	reader, err := shard.Reader()
	if err != nil {
		return false, err
	}
	mark, err := reader.GetInternal(removedKey)
	return mark != nil, errors.Join(err, reader.Close())
}

// Purge writes files anew that hold what was taken out of the index before the call, so that nothing of it is left on
// disk. It may run beside searches and changes; it takes as long as writing the accounts' whole shards.
func (ix *Index) Purge(ctx context.Context) error {
	for i := range ix.shards {
		removed, err := isRemoved(ix.shards[i])
		if err == nil && removed {
			err = ix.purge(ctx, i)
		}
		if err != nil {
			return fmt.Errorf("purge the lexical index: %w", err)
		}
	}
	return nil
}

// mergesOfPurge is how often a shard is merged until the segments that hold removed documents are gone. One plan covers
// all of them; a merge of bleve's own that is under way can be in its place the first time.
const mergesOfPurge = 5

func (ix *Index) purge(ctx context.Context, i int) error {
	shard := ix.shards[i]
	ix.changing.Lock()
	until := ix.removals[i]
	ix.changing.Unlock()
	if err := ix.write(ctx, i, index.NewBatch()); err != nil { // only what is on disk is merged
		return err
	}
	segments, err := withRemoved(shard)
	for merges := 0; err == nil && len(segments) > 0; merges++ {
		if merges == mergesOfPurge {
			return errors.New("segments do not merge")
		}
		if err = ix.addSegment(ctx, i); err != nil {
			break
		}
		if err = ix.forceMerge(ctx, i); err != nil {
			break
		}
		if err = ctx.Err(); err != nil {
			break
		}
		var left map[uint64]bool
		left, err = withRemoved(shard)
		for id := range segments {
			if !left[id] {
				delete(segments, id)
			}
		}
	}
	if err != nil {
		return err
	}
	ix.lists.forget(i)
	ix.table.forget(i)
	last := index.NewBatch()
	ix.changing.Lock()
	if ix.removals[i] == until { // what was taken out meanwhile is for the next time
		last.DeleteInternal(removedKey)
		last.Delete(fillerID)
	}
	written, err := introduce(shard, last)
	ix.changing.Unlock()
	if err != nil {
		return err
	}
	return ix.await(ctx, i, written)
}

// withRemoved names the segments that hold documents that were taken out.
func withRemoved(shard *scorch.Scorch) (map[uint64]bool, error) {
	reader, err := shard.Reader()
	if err != nil {
		return nil, err
	}
	ids := make(map[uint64]bool)
	if snapshot, ok := reader.(*scorch.IndexSnapshot); ok {
		for _, s := range snapshot.Segments() {
			if s.LiveSize() < s.FullSize() {
				ids[s.Id()] = true
			}
		}
	}
	return ids, reader.Close()
}

// fillerID is a document of no account and without a term.
const fillerID = "filler"

// addSegment makes sure that there are two segments: a single one is never merged.
func (ix *Index) addSegment(ctx context.Context, i int) error {
	batch := index.NewBatch()
	batch.Update(document.NewDocument(fillerID))
	return ix.write(ctx, i, batch)
}
