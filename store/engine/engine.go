// Package engine is a memory as a whole: the store, and the search index that follows it. It opens both in order, closes
// them in the reverse, and answers what needs the two of them. What records and reads takes it through interfaces of its
// own; another engine is whatever passes package storetest.
package engine

import (
	"context"
	"errors"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

// Engine is an open memory. All methods may be called from any goroutine, once [Engine.Follow] has returned.
type Engine struct {
	*store.Store
	index *search.Index // nil: there is none
}

// Open opens the store in opts.Dir, and its index with these options; nil leaves the index to [Engine.Follow], which may
// never be called. The errors are those of [store.Open].
func Open(opts store.Options, index *search.Options) (*Engine, error) {
	opts.Indexed = true
	st, err := store.Open(opts)
	if err != nil {
		return nil, err
	}
	e := &Engine{Store: st}
	if index != nil {
		e.Follow(*index)
	}
	return e, nil
}

// Follow starts the index, once, before anything else uses it.
func (e *Engine) Follow(index search.Options) { e.index = search.Open(e.Store, index) }

// Close ends the index first, which writes to the store, then the store.
func (e *Engine) Close() (err error) {
	if e.index != nil {
		err = e.index.Close()
	}
	return errors.Join(err, e.Store.Close())
}

// Begin begins the record of an exchange.
func (e *Engine) Begin(ctx context.Context, o *store.Opening) (store.Recording, error) {
	capture, err := e.Store.Begin(ctx, o)
	if err != nil {
		return nil, err // not a nil *store.Capture in an interface
	}
	return capture, nil
}

// Off gives a recording of nothing.
func (e *Engine) Off() store.Recording { return e.Store.Off() }

// errNoIndex is the error of what needs an index.
var errNoIndex = codec.Errorf(codec.KindNotFound, "This memory is kept without an index; there is no search.")

// Search finds turns and sessions of an account.
func (e *Engine) Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error) {
	if e.index == nil {
		return nil, errNoIndex
	}
	return e.index.Search(ctx, account, r)
}

// Beside runs work in a goroutine that Close waits for, see [search.Index.Beside]; false without an index.
func (e *Engine) Beside(work func(ctx context.Context)) bool {
	return e.index != nil && e.index.Beside(work)
}

// Wait returns when the exchanges of an account that have ended by now can be found.
func (e *Engine) Wait(ctx context.Context, account string) error {
	if e.index == nil {
		return nil
	}
	return e.index.Wait(ctx, account)
}

// WaitVectors returns when the turns of an account that have ended by now have vectors.
func (e *Engine) WaitVectors(ctx context.Context, account string) error {
	if e.index == nil {
		return nil
	}
	return e.index.WaitVectors(ctx, account)
}

// Status is how far the index of an account is; nil where there is no index.
func (e *Engine) Status(ctx context.Context, account string) (*search.Status, error) {
	if e.index == nil {
		return nil, nil //nolint:nilnil // there is no index
	}
	status, err := e.index.Status(ctx, account)
	return &status, err
}

// Lag is how many changes the words and the vectors of the index are late; 0 without an index.
func (e *Engine) Lag() (words, vectors uint64) {
	if e.index == nil {
		return 0, 0
	}
	return e.index.Lag()
}

// RebuildWords begins to build the index of words again.
func (e *Engine) RebuildWords(ctx context.Context) error {
	if e.index == nil {
		return errNoIndex
	}
	return e.index.Rebuild(ctx)
}

// RebuildVectors begins to make all vectors again, unless those of the embedder are being made already.
func (e *Engine) RebuildVectors(ctx context.Context) error {
	if e.index == nil {
		return errNoIndex
	}
	for {
		v := e.index.Vectors()
		switch {
		case v == nil:
			return codec.Errorf(codec.KindConflict, "no embedder is configured; there are no vectors to build")
		case v.Generation > 0 && v.Building:
			return nil
		case v.Generation > 0:
			return e.index.RebuildVectors(ctx)
		}
		select { // the vectors are being opened
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Compact frees the space of what was erased, in the store and in the index.
func (e *Engine) Compact(ctx context.Context) error {
	err := e.Store.Compact(ctx)
	if e.index != nil {
		err = errors.Join(err, e.index.Purge(ctx))
	}
	return err
}

// Check verifies the files of the index, then the store, see [store.Store.Check].
func (e *Engine) Check(ctx context.Context, repair bool, tell func(store.Finding)) (store.CheckReport, error) {
	var findings, repaired int64
	if e.index != nil {
		if err := e.index.Verify(ctx, func(f store.Finding) {
			findings++
			if f.Repaired {
				repaired++
			}
			tell(f)
		}); err != nil {
			return store.CheckReport{}, &codec.Error{Kind: codec.KindStorage, Message: "the files of the search index could not be checked", Cause: err}
		}
	}
	report, err := e.Store.Check(ctx, repair, tell)
	report.Findings += findings
	report.Repaired += repaired
	return report, err
}

// Turn is an exchange and what it added to its session.
func (e *Engine) Turn(account, exchange string) (store.TimelineEntry, error) {
	number, err := e.NumberOf(account)
	if err != nil {
		return store.TimelineEntry{}, err
	}
	return e.TurnAt(number, exchange)
}

// Material is what there is to write the summary of a session from; nil when it is gone, or nothing was said in it.
func (e *Engine) Material(account store.AccountNumber, session string) (*search.Material, error) {
	return search.ReadMaterial(e.Store, account, session)
}
