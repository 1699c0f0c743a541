// Package engine combines the store and the search index that follows it. It opens and closes them in order, and
// answers requests that need both. Consumers use it through interfaces of their own; any implementation that passes
// package storetest can replace it.
package engine

import (
	"context"
	"errors"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
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
func (e *Engine) Begin(ctx context.Context, o *record.Opening) (store.Recording, error) {
	capture, err := e.Store.Begin(ctx, o)
	if err != nil {
		return nil, err // not a nil *store.Capture in an interface
	}
	return capture, nil
}

// Off returns a recording of nothing.
func (e *Engine) Off() store.Recording { return e.Store.Off() }

// Archive returns the recorded exchanges and sessions, and the audit record.
func (e *Engine) Archive() Archive { return Archive{e.Store.Archive(), e.AuditLog(), e.Store} }

// Summaries returns the summaries of sessions.
func (e *Engine) Summaries() Summaries { return Summaries{e.Store.Summaries(), e.Store} }

// Index returns the search index.
func (e *Engine) Index() Index { return Index{e} }

// Upkeep returns the maintenance of the store and the index.
func (e *Engine) Upkeep() Upkeep { return Upkeep{e.Store.Upkeep(), e} }
