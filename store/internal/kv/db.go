package kv

import (
	"context"

	"github.com/dgraph-io/badger/v4"
)

// Reader reads committed data.
type Reader interface {
	View(read func(tx *badger.Txn) error) error
}

// DB is the store as seen by the packages above: many goroutines read, one writes.
type DB interface {
	Reader

	// Update runs a change and waits until it is committed. Everything that it puts is committed atomically; a change
	// that fails has put nothing.
	Update(ctx context.Context, change func(Txn) error) error

	// UpdateOf is Update for data that an account owns. The change happens before the account is deleted or not at all,
	// so that it leaves nothing that would never be deleted.
	UpdateOf(ctx context.Context, account AccountNumber, change func(Txn) error) error

	// Try is UpdateOf without waiting: under pressure, and while the store is closing, the change is dropped. What is
	// committed later is committed with or after it.
	Try(account AccountNumber, change func(Txn))
}

// Txn gives a change access to the store, including what earlier changes have put but not committed.
type Txn interface {
	// Get returns the value of a key, which must not be modified; nil if there is none.
	Get(key []byte) []byte

	// Has reports whether Get would return a value.
	Has(key []byte) bool

	// Put sets the value of a key; nil deletes it. Neither may be modified afterwards.
	Put(key, value []byte)

	// Committed returns a view of the data committed before the change.
	Committed() *badger.Txn
}
