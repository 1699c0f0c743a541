package server

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/server/mcp"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Engine is the memory that a server works with; [github.com/mnemeproxy/mneme/store/engine] is one.
type Engine interface {
	Recorder
	Identity
	Answers
	Spending
	ReasoningCache
	memory.Archive
	memory.Searcher
	mcp.Archive
	recall.Engine
	Recollections

	Lag() (words, vectors uint64) // changes that cannot be found yet
}

// Recorder puts exchanges on record.
type Recorder interface {
	// Begin does not wait for the opening to be on record.
	Begin(ctx context.Context, o *store.Opening) (store.Recording, error)
	Off() store.Recording // counts an exchange, and records nothing of it
	Ready() error         // why nothing can be put on record
	Stats() store.Stats
}

// Identity knows callers, and the credentials that providers are asked with for them.
type Identity interface {
	Authenticate(secret string) (store.Identity, error)
	CreateKey(account string, scopes store.Scopes, label string, set ...func(*store.Key)) (secret string, key store.Key, err error)
	Credential(account, provider string) (secret string, found bool, err error)
	Redactor(account string, brought ...string) *redact.Redactor // masks them; brought are the caller's own
	Guard(credentials ...string)                                 // lets every redactor mask these, too
}

// Answers finds what an account was answered before.
type Answers interface {
	Exchange(account, id string) (*store.Exchange, error)
	Exchanges(account string, q store.ExchangeQuery) (store.ExchangePage, error)
	AnsweredAs(account, response string) (exchange string, err error) // by the id that the provider gave its answer
}

// Spending knows budgets.
type Spending interface {
	BudgetOf(account string) store.Budget
	OriginOf(key string) string // the key that it was made from by rotations
	memory.Ledger
}

// ReasoningCache keeps, for some days, what a provider wants back and the client's format cannot carry.
type ReasoningCache interface {
	Recall(account, name string) (value []byte) // nil: it is not there
	Keep(account, name string, value []byte)
}

// Limiter holds callers within the limits of their keys.
type Limiter interface {
	Enter(now time.Time, key string, limits store.Limits, use *store.KeyUse, tokens int64) (*quota.Pass, *quota.Refusal)
}

// Recollections keeps what was recalled at a place of a conversation, to put it there again.
type Recollections interface {
	Recollections(account string, keys []store.RecollectionKey) ([]*store.Recollection, error) // nil where nothing was decided
	RecollectionOf(account, exchange string) (*store.Recollection, error)                      // nil: nothing was
	Recollect(ctx context.Context, account string, keys []store.RecollectionKey, r store.Recollection) (*store.Recollection, error)
}
