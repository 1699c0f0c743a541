package server

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/server/mcp"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Engine is the memory that a server works with. [Over] makes one of the engine of this repository.
type Engine struct {
	Recorder    Recorder
	Keys        Keys
	Credentials Credentials
	Accounts    Accounts
	Archive     Archive
	Index       Index
	Notes       Notes
	Recall      recall.Engine

	// Elsewhere gives an exchange that another node of the cluster has, and this one has not; nil: none has. It is nil itself
	// where there are no other nodes.
	Elsewhere func(account, id string) *store.Exchange
}

// Over lets a server work with an engine.
func Over(e *engine.Engine) Engine {
	return Engine{
		Recorder: e, Keys: e.Keys(), Credentials: e.Credentials(), Accounts: e.Accounts(),
		Archive: e.Archive(), Index: e.Index(), Notes: e.Notes(), Recall: recall.Over(e),
	}
}

// Recorder puts exchanges on record.
type Recorder interface {
	// Begin does not wait for the opening to be on record.
	Begin(ctx context.Context, o *store.Opening) (store.Recording, error)
	Off() store.Recording // counts an exchange, and records nothing of it
	Ready() error         // why nothing can be put on record
	Stats() store.Stats
}

// Keys know callers.
type Keys interface {
	ui.Keys
	Origin(key string) string // the key that it was made from by rotations
}

// Credentials are what providers are asked with for an account.
type Credentials interface {
	ui.Sealer
	Get(account, provider string) (secret string, found bool, err error)
	Redactor(account string, brought ...string) *redact.Redactor // masks them; brought are the caller's own
	Guard(credentials ...string)                                 // lets every redactor mask these, too
}

// Accounts know what may be spent, and what was.
type Accounts interface {
	ui.Accounts
	Budget(account string) store.Budget
	memory.Ledger
}

// Archive is what was recorded.
type Archive interface {
	memory.Archive
	mcp.Archive
	Answers
}

// Answers finds what an account was answered before.
type Answers interface {
	Exchange(account, id string) (*store.Exchange, error)
	Exchanges(account string, q store.ExchangeQuery) (store.ExchangePage, error)
	AnsweredAs(account, response string) (exchange string, err error) // by the id that the provider gave its answer
}

// Index finds what was recorded.
type Index interface {
	memory.Searcher
	Lag() (words, vectors uint64) // changes that cannot be found yet
}

// Notes keep small values beside the record.
type Notes interface {
	ReasoningCache
	Recollections
}

// ReasoningCache keeps, for some days, what a provider wants back and the client's format cannot carry.
type ReasoningCache interface {
	Recall(account, name string) (value []byte) // nil: it is not there
	Keep(account, name string, value []byte)
}

// Recollections keeps what was recalled at a place of a conversation, to put it there again.
type Recollections interface {
	Recollections(account string, keys []store.RecollectionKey) ([]*store.Recollection, error) // nil where nothing was decided
	RecollectionOf(account, exchange string) (*store.Recollection, error)                      // nil: nothing was
	Recollect(ctx context.Context, account string, keys []store.RecollectionKey, r store.Recollection) (*store.Recollection, error)
}

// Limiter holds callers within the limits of their keys.
type Limiter interface {
	Enter(now time.Time, key string, limits store.Limits, use *store.KeyUse, tokens int64) (*quota.Pass, *quota.Refusal)
}
