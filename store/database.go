package store

import (
	"context"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// database is the store as seen by the packages it is built on.
type database struct{ core *core }

func (d database) View(read func(tx *badger.Txn) error) error { return d.core.view(read) }

func (d database) Update(ctx context.Context, do func(kv.Txn) error) error {
	return d.core.update(ctx, func(g *commitGroup, w *commit.Op) error { return do(transaction{g, w}) })
}

func (d database) UpdateOf(ctx context.Context, account kv.AccountNumber, do func(kv.Txn) error) error {
	return d.core.updateOf(ctx, account, func(g *commitGroup, w *commit.Op) error { return do(transaction{g, w}) })
}

func (d database) Try(account kv.AccountNumber, do func(kv.Txn)) {
	s := d.core
	s.planning.RLock() // as in [core.sendOf]
	defer s.planning.RUnlock()
	if s.accounts.Has(account) {
		_, _ = s.writer.TrySend(s.step(func(g *commitGroup, w *commit.Op) error { do(transaction{g, w}); return nil }))
	}
}

// transaction is a change in progress on the writer.
type transaction struct {
	g *commitGroup
	w *commit.Op
}

func (c transaction) Get(key []byte) []byte  { return c.g.Get(key) }
func (c transaction) Has(key []byte) bool    { return c.g.Has(key) }
func (c transaction) Put(key, value []byte)  { c.g.Put(c.w, key, value) }
func (c transaction) Committed() *badger.Txn { return c.g.Committed() }
