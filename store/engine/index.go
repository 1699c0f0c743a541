package engine

import (
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/search"
)

// Index finds turns and sessions. Without an index there is nothing to wait for, and a search is an error.
type Index struct{ engine *Engine }

// errNoIndex is the error of what needs an index.
var errNoIndex = codec.Errorf(codec.KindNotFound, "This memory is kept without an index; there is no search.")

// Search finds turns and sessions of an account.
func (i Index) Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error) {
	if i.engine.index == nil {
		return nil, errNoIndex
	}
	return i.engine.index.Search(ctx, account, r)
}

// Beside runs work in a goroutine that Close waits for, see [search.Index.Beside]; false without an index.
func (i Index) Beside(work func(ctx context.Context)) bool {
	return i.engine.index != nil && i.engine.index.Beside(work)
}

// Wait returns when the exchanges of an account that have ended by now can be found.
func (i Index) Wait(ctx context.Context, account string) error {
	if i.engine.index == nil {
		return nil
	}
	return i.engine.index.Wait(ctx, account)
}

// WaitVectors returns when the turns of an account that have ended by now have vectors.
func (i Index) WaitVectors(ctx context.Context, account string) error {
	if i.engine.index == nil {
		return nil
	}
	return i.engine.index.WaitVectors(ctx, account)
}

// Status is how far the index of an account is; nil where there is no index.
func (i Index) Status(ctx context.Context, account string) (*search.Status, error) {
	if i.engine.index == nil {
		return nil, nil //nolint:nilnil // there is no index
	}
	status, err := i.engine.index.Status(ctx, account)
	return &status, err
}

// Lag is how many changes the words and the vectors of the index are late; 0 without an index.
func (i Index) Lag() (words, vectors uint64) {
	if i.engine.index == nil {
		return 0, 0
	}
	return i.engine.index.Lag()
}
