package kv

import (
	"context"

	"github.com/dgraph-io/badger/v4"
)

// Reader reads what is committed.
type Reader interface {
	View(read func(tx *badger.Txn) error) error
}

// DB is the store as a floor above works with it: many read, one goroutine writes.
type DB interface {
	Reader

	// Update runs a change and waits until it is committed. What it puts is committed together; it puts nothing before it fails.
	Update(ctx context.Context, change func(Txn) error) error

	// UpdateOf is Update for what an account owns: it is done before the account is deleted, or not at all, so that nothing
	// is left of it that nobody would ever delete.
	UpdateOf(ctx context.Context, account AccountNumber, change func(Txn) error) error
}

// Txn is what a change sees and puts. It sees what the changes before it have put, committed or not.
type Txn interface {
	// Get gives the value under a key, which must not be changed; nil if there is none.
	Get(key []byte) []byte

	// Has reports whether Get would give anything.
	Has(key []byte) bool

	// Put puts a value under a key; nil deletes. Neither may be changed afterwards.
	Put(key, value []byte)

	// Committed is a view of what was committed before the change.
	Committed() *badger.Txn
}
