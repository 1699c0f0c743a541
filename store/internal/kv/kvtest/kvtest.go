// Package kvtest provides a database for the tests of packages built on kv.
package kvtest

import (
	"context"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// DB is a database on disk that is written like the store's: one change after the other, each durable when it returns.
type DB struct {
	*badger.DB
	writing sync.Mutex
}

// Open opens the database in dir until the test ends.
func Open(t testing.TB, dir string) *DB {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).WithMemTableSize(4 << 20).WithValueThreshold(256))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &DB{DB: db}
}

// Update runs a change and commits it.
func (d *DB) Update(_ context.Context, change func(kv.Txn) error) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	return d.DB.Update(func(tx *badger.Txn) error { return change(txn{tx}) })
}

// UpdateOf is Update: no account is deleted.
func (d *DB) UpdateOf(ctx context.Context, _ kv.AccountNumber, change func(kv.Txn) error) error {
	return d.Update(ctx, change)
}

// Try is Update.
func (d *DB) Try(_ kv.AccountNumber, change func(kv.Txn)) {
	_ = d.Update(context.Background(), func(tx kv.Txn) error { change(tx); return nil })
}

type txn struct{ tx *badger.Txn }

func (x txn) Get(key []byte) []byte {
	value, err := kv.Get(x.tx, key)
	if err != nil {
		return nil
	}
	return value
}

func (x txn) Has(key []byte) bool {
	_, err := x.tx.Get(key)
	return err == nil
}

func (x txn) Put(key, value []byte) {
	if value == nil {
		_ = x.tx.Delete(key)
	} else {
		_ = x.tx.Set(key, value)
	}
}

func (x txn) Committed() *badger.Txn { return x.tx }
