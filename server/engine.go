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
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Engine is the memory that a server uses. [Over] makes one from the engine of this repository.
type Engine struct {
	Recorder    Recorder
	Keys        Keys
	Credentials Credentials
	Accounts    Accounts
	Archive     Archive
	Index       Index
	Notes       Notes
	Recall      recall.Engine

	// Elsewhere returns an exchange that this node does not have and another node of the cluster has, or why it was not found;
	// neither if this node has it. The function itself is nil if there are no other nodes.
	Elsewhere func(account, id string) (*record.Exchange, error)
}

// Over returns the Engine of an engine.
func Over(e *engine.Engine) Engine {
	return Engine{
		Recorder: e, Keys: e.Keys(), Credentials: e.Credentials(), Accounts: e.Accounts(),
		Archive: e.Archive(), Index: e.Index(), Notes: e.Notes(), Recall: recall.Over(e),
	}
}

// Recorder records exchanges.
type Recorder interface {
	// Begin does not wait for the commit of the opening.
	Begin(ctx context.Context, o *record.Opening) (store.Recording, error)
	Off() store.Recording // counts an exchange and records nothing of it
	Ready() error         // why nothing can be recorded; nil if it can
	Stats() store.Stats
}

// Keys authenticates callers.
type Keys interface {
	ui.Keys
	memory.Keys
	Origin(key string) string // the key that it goes back to by rotations
}

// Credentials are an account's credentials at providers.
type Credentials interface {
	ui.Sealer
	Get(account, provider string) (secret string, found bool, err error)
	Redactor(account string, brought ...string) *redact.Redactor // masks them; brought are the caller's own
	Guard(credentials ...string)                                 // has every redactor mask these too
}

// Accounts has the budgets and spending of accounts.
type Accounts interface {
	ui.Accounts
	Budget(account string) store.Budget
	memory.Ledger
}

// Archive reads the record.
type Archive interface {
	memory.Archive
	mcp.Archive
	Answers
}

// Answers finds an account's earlier answers.
type Answers interface {
	Exchange(account, id string) (*record.Exchange, error)
	Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error)
	AnsweredAs(account, response string) (exchange string, err error) // by the provider's id of its answer
}

// Index searches the record.
type Index interface {
	memory.Searcher
	Lag() (words, vectors uint64) // changes that are not searchable yet
}

// Notes stores small values beside the record.
type Notes interface {
	ReasoningCache
	Recollections
	Claims
}

// Claims are what accounts have made at providers with the server's credential, by the provider's ids.
type Claims interface {
	Claim(ctx context.Context, account, provider string, ids ...string) error
	Claimed(account, provider, id string) (bool, error)
	GiveUp(ctx context.Context, account, provider, id string) error
}

// ReasoningCache keeps, for some days, what a provider wants back and the client's format cannot carry.
type ReasoningCache interface {
	Recall(account, name string) (value []byte) // nil: not found
	Keep(account, name string, value []byte)
}

// Recollections stores what was recalled at a place of a conversation, so that it can be inserted there again.
type Recollections interface {
	Recollections(account string, keys []record.RecollectionKey) ([]*record.Recollection, error) // nil if nothing was decided
	Recollect(ctx context.Context, account string, keys []record.RecollectionKey, r record.Recollection) (*record.Recollection, error)
}

// Limiter enforces the limits of keys.
type Limiter interface {
	Enter(now time.Time, key string, limits store.Limits, use *store.KeyUse, tokens int64) (*quota.Pass, *quota.Refusal)
}
