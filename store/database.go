package store

import (
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// database is the store as seen by the packages it is built on.
type database struct{ core *core }

func (d database) View(read func(tx *badger.Txn) error) error { return d.core.view(read) }

func (d database) Update(ctx context.Context, do func(kv.Txn) error) error {
	return d.core.update(ctx, func(g *commitGroup, w *operation) error { return do(changing{g, w}) })
}

func (d database) UpdateOf(ctx context.Context, account kv.AccountNumber, do func(kv.Txn) error) error {
	return d.core.updateOf(ctx, account, func(g *commitGroup, w *operation) error { return do(changing{g, w}) })
}

// changing is a change in progress on the writer.
type changing struct {
	g *commitGroup
	w *operation
}

func (c changing) Get(key []byte) []byte  { return c.g.get(key) }
func (c changing) Has(key []byte) bool    { return c.g.has(key) }
func (c changing) Put(key, value []byte)  { c.g.put(c.w, key, value) }
func (c changing) Committed() *badger.Txn { return c.g.read() }
