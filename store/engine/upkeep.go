package engine

import (
	"context"
	"errors"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Upkeep maintains the store, and its index if there is one.
type Upkeep struct {
	store.Upkeep
	engine *Engine
}

// RebuildWords begins to build the index of words again.
func (u Upkeep) RebuildWords(ctx context.Context) error {
	if u.engine.index == nil {
		return errNoIndex
	}
	return u.engine.index.Rebuild(ctx)
}

// RebuildVectors begins to make all vectors again, unless those of the embedder are being made already.
func (u Upkeep) RebuildVectors(ctx context.Context) error {
	if u.engine.index == nil {
		return errNoIndex
	}
	for {
		v := u.engine.index.Vectors()
		switch {
		case v == nil:
			return codec.Errorf(codec.KindConflict, "no embedder is configured; there are no vectors to build")
		case v.Generation > 0 && v.Building:
			return nil
		case v.Generation > 0:
			return u.engine.index.RebuildVectors(ctx)
		}
		select { // the vectors are being opened
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Compact frees the space of what was erased, in the store and in the index.
func (u Upkeep) Compact(ctx context.Context) error {
	err := u.Upkeep.Compact(ctx)
	if u.engine.index != nil {
		err = errors.Join(err, u.engine.index.Purge(ctx))
	}
	return err
}

// Check verifies the files of the index, then the store, see [store.Upkeep.Check].
func (u Upkeep) Check(ctx context.Context, repair bool, tell func(store.Finding)) (store.CheckReport, error) {
	var findings, repaired int64
	if u.engine.index != nil {
		if err := u.engine.index.Verify(ctx, func(f store.Finding) {
			findings++
			if f.Repaired {
				repaired++
			}
			tell(f)
		}); err != nil {
			return store.CheckReport{}, &codec.Error{Kind: codec.KindStorage, Message: "the files of the search index could not be checked", Cause: err}
		}
	}
	report, err := u.Upkeep.Check(ctx, repair, tell)
	report.Findings += findings
	report.Repaired += repaired
	return report, err
}
