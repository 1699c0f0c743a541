package admin

import (
	"context"
	"io"
	"time"

	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
)

// Engine is a memory as an operator manages it.
type Engine interface {
	memory.Archive
	memory.Searcher
	memory.Ledger
	Accounts
	Keys
	Upkeep
	recall.Engine
	Close() error
}

// Accounts are who owns memory.
type Accounts interface {
	Accounts() []store.Account
	CreateAccount(name string) (store.Account, error)
	DeleteAccount(ctx context.Context, name string, dryRun bool) (store.AccountDeletion, error)
	Credentials(account string) (providers []string, err error)
	SetCredential(account, provider, secret string) error
	RemoveCredential(account, provider string) error
	SetBudget(ctx context.Context, account string, set func(*store.Budget)) (store.Account, error)
	SetRetention(ctx context.Context, account string, r *store.Retention) error
}

// Keys are what callers present.
type Keys interface {
	Authenticate(secret string) (store.Identity, error)
	Keys(account string) []store.Key // "" for all accounts
	CreateKey(account string, scopes store.Scopes, label string, set ...func(*store.Key)) (secret string, key store.Key, err error)
	UpdateKey(id string, set func(*store.Key)) (store.Key, error)
	RotateKey(id string, overlap time.Duration) (secret string, fresh store.Key, err error)
	RevokeKey(id string) error
	HoldKey(id string) (release func(), err error)
	Audit(q store.AuditQuery) (store.AuditPage, error)
}

// Upkeep looks after all accounts together.
type Upkeep interface {
	Check(ctx context.Context, repair bool, tell func(store.Finding)) (store.CheckReport, error)
	Compact(ctx context.Context) error
	Backup(ctx context.Context, w io.Writer, since uint64) (mark uint64, err error)
	RotateMasterKey() error
	RebuildWords(ctx context.Context) error
	RebuildVectors(ctx context.Context) error
}
