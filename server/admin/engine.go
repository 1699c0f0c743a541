package admin

import (
	"context"
	"io"
	"time"

	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
)

// Engine is a memory as an operator manages it. [Over] makes one from the engine of this repository.
type Engine struct {
	Archive     memory.Archive
	Searcher    memory.Searcher
	Accounts    Accounts
	Keys        Keys
	Credentials Credentials
	AuditLog    AuditLog
	Upkeep      Upkeep
	Recaller    memory.Recaller
	Prices      promptcache.Prices // nil: unknown
	Close       func() error
}

// Over returns the Engine of an engine.
func Over(e *engine.Engine) Engine {
	return Engine{
		Archive: e.Archive(), Searcher: e.Index(), Accounts: e.Accounts(), Keys: e.Keys(), Credentials: e.Credentials(),
		AuditLog: e.AuditLog(), Upkeep: e.Upkeep(), Recaller: recall.New(recall.Over(e), recall.Options{}), Close: e.Close,
	}
}

// Accounts manages the owners of memory.
type Accounts interface {
	List() []store.Account
	Create(name string) (store.Account, error)
	Delete(ctx context.Context, name string, dryRun bool) (store.AccountDeletion, error)
	SetBudget(ctx context.Context, account string, set func(*store.Budget)) (store.Account, error)
	SetRetention(ctx context.Context, account string, r *store.Retention) error
	memory.Ledger
}

// Credentials manages the accounts' credentials at providers.
type Credentials interface {
	List(account string) (providers []string, err error)
	Set(account, provider, secret string) error
	Remove(account, provider string) error
}

// Keys manages service keys.
type Keys interface {
	Authenticate(secret string) (store.Identity, error)
	List(account string) []store.Key // "" for all accounts
	CreateAll(asked []store.NewKey) ([]store.CreatedKey, error)
	Update(id string, set func(*store.Key)) (store.Key, error)
	Rotate(id string, overlap time.Duration) (secret string, fresh store.Key, err error)
	Revoke(id string) error
	Hold(id string) (release func(), err error)
}

// AuditLog is the audit record.
type AuditLog interface {
	Audit(q store.AuditQuery) (store.AuditPage, error)
	Audited(e store.AuditEntry, act func(*store.AuditEntry) error) error // records act and its result
}

// Upkeep maintains the store of all accounts.
type Upkeep interface {
	Check(ctx context.Context, repair bool, tell func(store.Finding)) (store.CheckReport, error)
	Compact(ctx context.Context) error
	Backup(ctx context.Context, w io.Writer, since uint64) (mark uint64, err error)
	RotateMasterKey() error
	RebuildWords(ctx context.Context) error
	RebuildVectors(ctx context.Context) error
}
