package identity

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Authority is a database that several stores share, and that has the truth about their roster and its audit record. A store follows
// it, and makes its own changes there.
type Authority interface {
	// Commit makes changes durable, all of them or none. The error is [ErrStale] if an entry is not what a change was made from.
	Commit(ctx context.Context, changes []RosterChange) error

	// Refresh has the store take over what was committed before the call.
	Refresh(ctx context.Context) error

	// PutAudit adds an entry of the audit record, or replaces the one with its id. Ids ascend with time.
	PutAudit(ctx context.Context, id, account string, entry []byte) error

	// Audits returns at most most entries before the one with an id, newest first. "" is any account, and no id.
	Audits(ctx context.Context, account, before string, most int) (entries [][]byte, err error)

	// ExpireAudits deletes entries before the one with an id, and the oldest of more than most.
	ExpireAudits(ctx context.Context, before string, most int) error
}

// RosterChange is an entry as it becomes.
type RosterChange struct {
	RosterEntry
	Account string   // whose it is
	Before  [16]byte // [EntryHash] of the entry that the change was made from
	Blind   bool     // whatever the entry was before
}

// SharedEntry is an entry of a shared roster.
type SharedEntry struct {
	RosterEntry
	Deleted time.Time // an account: when the last one of this name was deleted; zero: none was
}

// ErrStale is the error of a change that was made from an outdated entry.
var ErrStale = errors.New("the entry has changed since")

// SharedKey leads to a note that the roster of the store is shared.
var SharedKey = kv.NameKey(kv.SpaceMeta, "shared")

// errShared is the error of a change to a store that is not connected to the database it shares.
var errShared = codec.Errorf(codec.KindConflict,
	"the accounts, keys and credentials of this data directory are in its centre's database: start the centre, and repeat this")

// EntryHash identifies the value of an entry; all zeroes if there is none.
func EntryHash(value []byte) (hash [16]byte) {
	if value != nil {
		sum := blake3.Sum256(value)
		copy(hash[:], sum[:])
	}
	return hash
}

// sharing makes changes of a shared roster.
type sharing struct {
	Authority
	db kv.DB
}

// Share has the store follow a roster that it may change. nil: it may not until the next call.
func (r *Roster) Share(a Authority) {
	terms := &r.accounts.terms
	terms.offline.Store(a == nil)
	if a == nil {
		terms.shared.Store(nil)
	} else {
		terms.shared.Store(&sharing{a, r.db})
	}
	r.Begin()
}

// Shared reports whether the roster is shared.
func (r *Roster) Shared() bool {
	return r.accounts.terms.shared.Load() != nil || r.accounts.terms.offline.Load()
}

// mostStale bounds how often a change is made again because others were first.
const mostStale = 20

// change commits what make returns, which makes it from the roster as it is here. Others may have changed that: then make is called
// again.
func (s *sharing) change(ctx context.Context, make func() ([]RosterChange, error)) error {
	for range mostStale {
		changes, err := make()
		if err != nil {
			return err
		}
		err = s.Commit(ctx, changes)
		if err == nil {
			_ = s.Refresh(ctx) // it is committed; if this fails, the store follows a little later
			return nil
		}
		if errors.Is(err, ErrStale) {
			err = s.Refresh(ctx)
		}
		if err != nil {
			return asShared(err)
		}
	}
	return codec.Errorf(codec.KindConflict, "another centre changes the same at the same time; repeat this")
}

// asShared wraps an error of the database.
func asShared(err error) error {
	return kv.AsStorageError(err, "accounts, keys and credentials cannot be changed while the database in centre.postgres is unreachable")
}

// entry returns the change of an entry to a value, from what the store has followed.
func (s *sharing) entry(name, account string, value []byte) (c RosterChange, err error) {
	c = RosterChange{RosterEntry: RosterEntry{name, value}, Account: account}
	err = s.db.View(func(tx *badger.Txn) error {
		noted, err := kv.Get(tx, givenKey(name))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		copy(c.Before[:], noted)
		return err
	})
	if err != nil {
		return c, kv.StorageError(err, "accounts and keys cannot be read; run mneme check")
	}
	return c, nil
}

// account returns the change to the record of an account.
func (s *sharing) account(a AccountRecord) (RosterChange, error) {
	a.Number = 0 // each store has its own
	value, err := kv.EncodeRecord(a)
	if err != nil {
		return RosterChange{}, err
	}
	return s.entry(rosterAccount+a.Name, a.Name, value)
}

func (s *sharing) keys(records []keyRecord) (changes []RosterChange, err error) {
	for _, k := range records {
		value, err := kv.EncodeRecord(k)
		if err != nil {
			return nil, err
		}
		c, err := s.entry(rosterKey+k.ID, k.Account, value)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// credential returns the change of a credential; nil removes it. A store may have sealed it with another master key since, so that
// there is nothing to compare.
func (s *sharing) credential(account, provider string, sealed []byte) []RosterChange {
	return []RosterChange{{RosterEntry: RosterEntry{rosterCredential + account + "/" + provider, sealed}, Account: account, Blind: true}}
}

// AccountOf returns the account that an entry is the record of; "" if it is of another kind.
func (e *RosterEntry) AccountOf() string {
	name, is := strings.CutPrefix(e.Name, rosterAccount)
	if !is {
		return ""
	}
	return name
}

// Owner returns the account that an entry belongs to; "" for none.
func (e *RosterEntry) Owner() string {
	if place, is := strings.CutPrefix(e.Name, rosterCredential); is {
		account, _, _ := strings.Cut(place, "/")
		return account
	}
	var k keyRecord
	if !strings.HasPrefix(e.Name, rosterKey) || kv.DecodeRecord(e.Value, &k) != nil {
		return e.AccountOf()
	}
	return k.Account
}

// Followed reports whether an account was ever taken over from the roster that is followed.
func (r *Roster) Followed(account string) (followed bool, err error) {
	err = r.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, givenKey(rosterAccount+account))
		followed = len(value) == givenAccount
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, kv.StorageError(err, "accounts and keys cannot be read; run mneme check")
	}
	return followed, nil
}

// Opens reports whether this store can open what belongs to the proof of a master key: with the present one, or with the one before.
func (r *Roster) Opens(proof []byte) (now, before bool) {
	r.master.mu.RLock()
	defer r.master.mu.RUnlock()
	present := &sealer{aead: r.master.seal.aead}
	if _, err := present.open(proof, masterKeyProof); err == nil {
		return true, true
	}
	present.previous = r.master.before
	_, err := present.open(proof, masterKeyProof)
	return false, err == nil
}

// Reseal seals under the present master key what the one before has sealed, and returns the entries that differ, the proof included.
func (r *Roster) Reseal(entries []RosterEntry) (fresh []RosterEntry, err error) {
	r.master.mu.RLock()
	defer r.master.mu.RUnlock()
	both := &sealer{aead: r.master.seal.aead, previous: r.master.before}
	for _, e := range entries {
		place, sealed := masterKeyProof, e.Name == rosterMaster
		if name, ok := strings.CutPrefix(e.Name, rosterCredential); ok {
			place, sealed = strings.Replace(name, "/", "\x00", 1), true
		}
		if !sealed || e.Value == nil {
			continue
		}
		value, err := both.reseal(e.Value, place)
		if err != nil {
			return nil, kv.StorageError(err, "%s cannot be opened with the master key, nor with the one before", e.Name)
		}
		if value != nil {
			fresh = append(fresh, RosterEntry{e.Name, value})
		}
	}
	return fresh, nil
}
