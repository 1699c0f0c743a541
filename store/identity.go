package store

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The names of package identity, which keeps callers and their rights.
type (
	// Account owns exchanges, sessions, service keys and provider credentials.
	Account = identity.Account
	// Retention bounds what is kept of an account. A zero member is no bound.
	Retention = identity.Retention

	// Keys manages service keys.
	Keys = identity.Keys
	// Key describes a service key; its secret is not kept.
	Key = identity.Key
	// NewKey asks for a service key.
	NewKey = identity.NewKey
	// CreatedKey is a new service key. The secret is returned only this once; the store keeps its hash.
	CreatedKey = identity.CreatedKey
	// KeyRecall decides whether requests of a key get recalled text.
	KeyRecall = identity.KeyRecall
	// KeyUse counts the use of a key.
	KeyUse = identity.KeyUse
	// Identity is the caller that a service key identifies.
	Identity = identity.Identity
	// Scopes are what a service key may do.
	Scopes = identity.Scopes
	// Models are the names that a key may ask for.
	Models = identity.Models
	// Limits bound the use of one key.
	Limits = identity.Limits
	// Budget bounds the spending per day and per month, in UTC.
	Budget = identity.Budget

	// Credentials are the accounts' credentials at providers. They are never recorded.
	Credentials = identity.Credentials

	// Roster lists who may use a store, and on which terms.
	Roster = identity.Roster
	// RosterEntry is one account, key or credential.
	RosterEntry = identity.RosterEntry

	// AuditLog is the audit record.
	AuditLog = identity.AuditLog
	// AuditEntry is one administrative act.
	AuditEntry = identity.AuditEntry
	// AuditOutcome is the result of an act.
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

// Values of KeyRecall.
const (
	KeyRecallDefault = identity.KeyRecallDefault
	KeyRecallOn      = identity.KeyRecallOn
	KeyRecallOff     = identity.KeyRecallOff
)

// MostCreated is the largest number of keys created at once.
const MostCreated = identity.MostCreated

// LastOfRoster is the name of the last entry of a roster.
const LastOfRoster = identity.LastOfRoster

// ErrOtherMasterKey is the error for a roster whose credentials this store cannot open.
var ErrOtherMasterKey = identity.ErrOtherMasterKey

// Limits and budgets.
const (
	Unlimited = identity.Unlimited
	NoBudget  = identity.NoBudget

	FewestRepeats = identity.FewestRepeats

	MostBurstMinutes = identity.MostBurstMinutes
)

// The audit record.
const (
	Operator     = identity.Operator
	AuditBegun   = identity.AuditBegun
	AuditDone    = identity.AuditDone
	AuditRefused = identity.AuditRefused
)

// ParseScopes reads a list as [Scopes.String] writes it; spaces around commas are allowed.
func ParseScopes(text string) (Scopes, error) { return identity.ParseScopes(text) }

// ParseModels reads names separated by commas; "all" is the empty list.
func ParseModels(text string) (Models, error) { return identity.ParseModels(text) }

// LooksLikeKey reports whether text has the shape of a service key, whole or damaged, without looking it up.
func LooksLikeKey(text string) bool { return identity.LooksLikeKey(text) }

// NextMonth returns when the count of a month's tokens restarts.
func NextMonth(now time.Time) time.Time { return identity.NextMonth(now) }

// RotateMasterKey makes a new master key and seals every credential under it, while requests go on. Both keys are kept
// until every credential is sealed with the new one, so an interruption loses nothing: the rotation is completed when
// the store is next opened. A key from [Options.MasterKey] is changed there, with [Options.PreviousMasterKey].
//
// Backups are unchanged: they need the key of their time.
// The key of a shared roster is changed there in any case.
func (s Upkeep) RotateMasterKey() error {
	if s.roster.Shared() {
		return codec.Errorf(codec.KindConflict,
			"credentials are in the centre's database: set MNEME_MASTER_KEY to a new key and MNEME_PREVIOUS_MASTER_KEY to the present one on every node, and restart")
	}
	return s.master.Rotate(s.rotation())
}

// identities are the users of the store, and the key that seals their secrets.
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

// open opens everything except the master key, which is already there.
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

// rotation returns what a change of the master key needs from the store.
func (s *core) rotation() identity.Rotation {
	return identity.Rotation{DB: s.writer.DB(), Accounts: s.accounts, Sync: s.db.Sync, Note: s.db.NoteKey}
}
