package lexical

import (
	"context"
	"fmt"
)

// A removed document is no longer found, but its words remain in the file of its segment until that is merged, which may never
// happen to a large segment. Until [Index.Purge] has rewritten such files, the list of segments records that they exist, so that
// this survives a crash.

// Removed reports whether files of the index may contain words of removed documents.
func (ix *Index) Removed() bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.removed || ix.removals > ix.purged
}

// Purge rewrites the files that contain words of documents removed before the call, so that nothing of these is left on disk. It
// may run concurrently with searches and changes.
func (ix *Index) Purge(ctx context.Context) error {
	if !ix.Removed() {
		return nil
	}
	if err := ix.purge(ctx); err != nil {
		return fmt.Errorf("purge the lexical index: %w", err)
	}
	return nil
}

func (ix *Index) purge(ctx context.Context) error {
	ix.mu.RLock()
	until := ix.removals
	ix.mu.RUnlock()
	if err := ix.Flush(ctx); err != nil {
		return err
	}
	if err := ix.merges.Acquire(ctx, 1); err != nil {
		return err
	}
	defer ix.merges.Release(1)
	ix.mu.RLock()
	var touched []*segment
	for _, s := range ix.segments {
		if len(s.gone) > 0 {
			touched = append(touched, s)
		}
	}
	ix.mu.RUnlock()
	for _, s := range touched {
		if err := ix.rewrite(ctx, []*segment{s}); err != nil {
			return err
		}
	}
	ix.mu.Lock()
	ix.removed, ix.purged = false, until
	ix.mu.Unlock()
	return ix.note()
}
