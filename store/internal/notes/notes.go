// Package notes keeps small values beside the record: reasoning state for providers, what was recalled at each place of a
// conversation, and which account owns an object that a provider keeps.
package notes

import (
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Notes are the values beside the record.
type Notes struct {
	db          kv.DB
	accounts    *identity.AccountTable
	credentials *identity.Credentials // must not be in what is kept for a model
	recollected recollected
}

// New returns the notes of a store.
func New(db kv.DB, accounts *identity.AccountTable, credentials *identity.Credentials) *Notes {
	return &Notes{db: db, accounts: accounts, credentials: credentials, recollected: newRecollected()}
}

// Forget makes readers forget what they have read, because something was erased.
func (n *Notes) Forget() { n.recollected.forget() }
