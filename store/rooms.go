package store

import "github.com/mnemeproxy/mneme/store/internal/identity"

// Accounts are who owns memory, what they may spend and what they have spent.
type Accounts struct {
	identity.Accounts
	*core
}

// Archive is what was recorded: exchanges, the sessions that they make, and how long they stay. What is of another account,
// or not there, is [codec.KindNotFound].
type Archive struct{ *core }

// Summaries are what models wrote about sessions, and what there is to write about.
type Summaries struct{ *core }

// Vectors are those of turns, by the generation of the embedder that made them.
type Vectors struct{ *core }

// Notes are small values that a server keeps beside the record: what a provider wants back, and what was recalled.
type Notes struct{ *core }

// Upkeep looks after the store as a whole.
type Upkeep struct{ *core }

// Accounts gives the accounts.
func (s *Store) Accounts() Accounts { return Accounts{s.accounts.Accounts(), s.core} }

// Keys gives the service keys.
func (s *Store) Keys() Keys { return s.keys.Keys() }

// Credentials gives the credentials of accounts.
func (s *Store) Credentials() *Credentials { return s.credentials }

// Roster gives who may use the store, for a cluster.
func (s *Store) Roster() *Roster { return s.roster }

// AuditLog gives the record of administration.
func (s *Store) AuditLog() *AuditLog { return s.audit }

// Archive gives what was recorded.
func (s *Store) Archive() Archive { return Archive{s.core} }

// Summaries gives the summaries of sessions.
func (s *Store) Summaries() Summaries { return Summaries{s.core} }

// Feed gives the feed.
func (s *Store) Feed() Feed { return Feed{s.core} }

// Vectors gives the vectors of turns.
func (s *Store) Vectors() Vectors { return Vectors{s.core} }

// Notes gives the values beside the record.
func (s *Store) Notes() Notes { return Notes{s.core} }

// Upkeep gives what looks after the store.
func (s *Store) Upkeep() Upkeep { return Upkeep{s.core} }
