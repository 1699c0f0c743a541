package store

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The names of package identity, which knows who calls and what they may do.
type (
	// Account owns exchanges, sessions, service keys and provider credentials.
	Account = identity.Account
	// Retention bounds what is kept of an account. Zero members do not bound.
	Retention = identity.Retention

	// Keys are the service keys that callers present.
	Keys = identity.Keys
	// Key is what is known of a service key; its secret is not kept.
	Key = identity.Key
	// NewKey asks for a service key.
	NewKey = identity.NewKey
	// CreatedKey is a new service key. The secret is given this once; the store keeps its hash.
	CreatedKey = identity.CreatedKey
	// KeyRecall says whether requests of a key are given what is recalled for them.
	KeyRecall = identity.KeyRecall
	// KeyUse is what has been done with a key.
	KeyUse = identity.KeyUse
	// Identity is who a service key speaks for.
	Identity = identity.Identity
	// Scopes are what a service key may do.
	Scopes = identity.Scopes
	// Models are the names that a key may ask for.
	Models = identity.Models
	// Limits bound what callers with one key may use.
	Limits = identity.Limits
	// Budget bounds what may be spent in a day and in a month of UTC.
	Budget = identity.Budget
	// USD is an amount of money in billionths of a US dollar.
	USD = identity.USD

	// Credentials are what accounts are known by at providers. They are never on record.
	Credentials = identity.Credentials

	// Roster is who may use a store, and on which terms.
	Roster = identity.Roster
	// RosterEntry is one account, key or credential.
	RosterEntry = identity.RosterEntry

	// AuditLog is the record of administration.
	AuditLog = identity.AuditLog
	// AuditEntry is one act of administration.
	AuditEntry = identity.AuditEntry
	// AuditOutcome says what became of an act.
	AuditOutcome = identity.AuditOutcome
	// AuditQuery asks for entries, newest first.
	AuditQuery = identity.AuditQuery
	// AuditPage is an answer to an [AuditQuery].
	AuditPage = identity.AuditPage
)

// Scopes of service keys.
const (
	ScopeWrite    = identity.ScopeWrite
	ScopeRead     = identity.ScopeRead
	ScopeErase    = identity.ScopeErase
	ScopeAdmin    = identity.ScopeAdmin
	ScopeOperator = identity.ScopeOperator
	AllScopes     = identity.AllScopes
)

// What a key says of recall.
const (
	KeyRecallDefault = identity.KeyRecallDefault
	KeyRecallOn      = identity.KeyRecallOn
	KeyRecallOff     = identity.KeyRecallOff
)

// MostCreated is how many keys are made at once at most.
const MostCreated = identity.MostCreated

// LastOfRoster is the name of the entry of a roster that stands last.
const LastOfRoster = identity.LastOfRoster

// ErrOtherMasterKey is the error of a roster whose credentials this store cannot open.
var ErrOtherMasterKey = identity.ErrOtherMasterKey

// Limits and budgets.
const (
	Unlimited = identity.Unlimited
	NoBudget  = identity.NoBudget
	Dollar    = identity.Dollar
)

// The record of administration.
const (
	Operator     = identity.Operator
	AuditBegun   = identity.AuditBegun
	AuditDone    = identity.AuditDone
	AuditRefused = identity.AuditRefused
)

// ParseScopes reads a list as [Scopes.String] writes it; spaces around commas are allowed.
func ParseScopes(text string) (Scopes, error) { return identity.ParseScopes(text) }

// ParseModels reads names with a comma between; "all" is the empty list.
func ParseModels(text string) (Models, error) { return identity.ParseModels(text) }

// ParseUSD reads a decimal number of dollars. Digits beyond a billionth of a dollar are cut off.
func ParseUSD(text string) (USD, error) { return identity.ParseUSD(text) }

// LooksLikeKey reports whether text has the shape of a service key, whole or damaged, without looking it up.
func LooksLikeKey(text string) bool { return identity.LooksLikeKey(text) }

// NextMonth is when the count of a month's tokens starts again.
func NextMonth(now time.Time) time.Time { return identity.NextMonth(now) }

// RotateMasterKey makes a new master key and seals every credential under it. Requests go on meanwhile. Until every
// credential is sealed with the new key, both keys are kept, so that whatever interrupts it, nothing is lost: it then comes to its end
// when the store is next opened. A key that was given from outside is changed from outside, with
// [Options.PreviousMasterKey].
//
// Backups are not touched: they need the key of their time.
func (s Upkeep) RotateMasterKey() error { return s.master.Rotate(s.rotation()) }

// identities are who may use the store, and the key that their secrets are sealed with.
type identities struct {
	master      *identity.MasterKey
	accounts    *identity.AccountTable
	keys        *identity.KeyTable
	credentials *identity.Credentials
	audit       *identity.AuditLog
	roster      *identity.Roster
}

func openMasterKey(opts *Options) (*identity.MasterKey, error) {
	return identity.OpenMasterKey(opts.Dir, filepath.Join(opts.Dir, files.DatabaseDir), opts.MasterKey, opts.PreviousMasterKey)
}

// open reads all but the master key, which is there already.
func (i *identities) open(db kv.DB, opts *Options) (err error) {
	if i.accounts, err = identity.LoadAccounts(db); err != nil {
		return fmt.Errorf("load the accounts: %w", err)
	}
	if i.keys, err = identity.LoadKeys(db, i.accounts, opts.Clock, opts.Log); err != nil {
		return fmt.Errorf("load the service keys: %w", err)
	}
	i.credentials = identity.NewCredentials(db, i.accounts, i.master, opts.Redact, opts.Log)
	i.audit = identity.NewAuditLog(db, opts.AuditAge, opts.Log)
	if i.roster, err = identity.LoadRoster(db, i.accounts, i.keys, i.credentials, i.master); err != nil {
		return fmt.Errorf("load what is known of the centre's accounts and keys: %w", err)
	}
	return nil
}

// rotation is what a change of the master key needs of the store.
func (s *core) rotation() identity.Rotation {
	return identity.Rotation{DB: database{s}, Accounts: s.accounts, Sync: s.db.Sync, Note: s.db.NoteKey}
}
