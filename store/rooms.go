package store

import (
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/shipping"
)

// Accounts are the owners of memory, with their budgets and spending.
type Accounts struct {
	identity.Accounts
	*core
}

// Archive is what was recorded: exchanges, their sessions, and how long they stay. The error for an object that does
// not exist, or belongs to another account, is [codec.KindNotFound].
type Archive struct{ *core }

// Summaries are models' summaries of sessions, and the sessions that need one.
type Summaries struct{ *core }

// Vectors are the vectors of turns, by the generation of their embedder.
type Vectors struct{ *core }

// Notes are small values that a server keeps beside the record: reasoning state for providers, and recollections.
type Notes = notes.Notes

// Upkeep maintains the store as a whole.
type Upkeep struct{ *core }

// Accounts returns the accounts.
func (s *Store) Accounts() Accounts { return Accounts{s.accounts.Accounts(), s.core} }

// Keys returns the service keys.
func (s *Store) Keys() Keys { return s.keys.Keys() }

// Credentials returns the credentials of accounts.
func (s *Store) Credentials() *Credentials { return s.credentials }

// Roster returns the roster, for a cluster.
func (s *Store) Roster() *Roster { return s.roster }

// AuditLog returns the audit record.
func (s *Store) AuditLog() *AuditLog { return s.audit }

// Shipping is the log of the exchanges to be shipped to a centre.
type Shipping = shipping.Log

// Shipping returns the log, whether or not it is kept.
func (s *Store) Shipping() *Shipping { return s.shipping }

// Archive returns what was recorded.
func (s *Store) Archive() Archive { return Archive{s.core} }

// Summaries returns the summaries of sessions.
func (s *Store) Summaries() Summaries { return Summaries{s.core} }

// Feed returns the feed.
func (s *Store) Feed() Feed { return Feed{s.feed, s.core} }

// Vectors returns the vectors of turns.
func (s *Store) Vectors() Vectors { return Vectors{s.core} }

// Notes returns the values beside the record.
func (s *Store) Notes() *Notes { return s.notes }

// Upkeep returns the maintenance of the store.
func (s *Store) Upkeep() Upkeep { return Upkeep{s.core} }
