package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
)

// Shared is the store of a centre whose accounts, keys, credentials and audit record are in a database, beside other centres. The
// store mirrors the database, and serves from its copy while the database is unreachable.
type Shared struct{ *core }

// Shared returns the part that follows a database.
func (s *Store) Shared() Shared { return Shared{s.core} }

// The names of package identity for a shared roster.
type (
	// Authority is a database that several stores share.
	Authority = identity.Authority
	// RosterChange is an entry as it becomes.
	RosterChange = identity.RosterChange
)

var centreKey = kv.NameKey(kv.SpaceMeta, "centre")

// ErrOtherCentre is the error of a store that belongs to another centre than the database.
var ErrOtherCentre = errors.New("the data directory and the database in centre.postgres belong to different centres: use the matching directory, or an empty one")

// NewCentreID returns an id for [Shared.Join].
func NewCentreID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(id[:])
}

// Centre returns the id of the centre that the store belongs to; "" if it belongs to none yet.
func (s Shared) Centre() (id string, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, centreKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		id = hex.EncodeToString(value)
		return err
	})
	if err != nil {
		return "", kv.StorageError(err, "the id of the centre cannot be read; run mneme check")
	}
	return id, nil
}

// Join makes the store belong to a centre for good, if it belongs to none, and notes that its roster is shared.
func (s Shared) Join(ctx context.Context, centre string) error {
	id, err := hex.DecodeString(centre)
	if err != nil {
		return err
	}
	err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
		if known := g.Get(centreKey); known != nil && !bytes.Equal(known, id) {
			return ErrOtherCentre
		}
		g.Put(w, centreKey, id)
		g.Put(w, identity.SharedKey, []byte{1})
		return nil
	})
	if errors.Is(err, ErrOtherCentre) {
		return err
	}
	if err != nil {
		return kv.AsStorageError(err, "the id of the centre could not be stored")
	}
	s.roster.Share(nil)
	return nil
}

// Joined reports whether the store is the data directory of a centre.
func (s Shared) Joined() bool { return s.roster.Shared() }

// Connect has changes made, and acts recorded, in the database from then on. nil: there are no changes.
func (s Shared) Connect(a Authority) {
	s.roster.Share(a)
	s.audit.Share(a)
}

// Entries returns the roster as the store has followed it, and the proof of its master key.
func (s Shared) Entries() ([]RosterEntry, error) { return s.roster.Entries() }

// Opens reports whether this store can open what belongs to the proof of a master key: with the present one, or with the one before.
func (s Shared) Opens(proof []byte) (now, before bool) { return s.roster.Opens(proof) }

// Reseal seals under the present master key what the one before has sealed, and returns the entries that differ.
func (s Shared) Reseal(entries []RosterEntry) ([]RosterEntry, error) { return s.roster.Reseal(entries) }

// Expire sets when keys of the roster become invalid; zero: never.
func (s Shared) Expire(at time.Time) { s.roster.Expire(at) }

// Follow takes over entries as [Roster.Follow] does, and deletes accounts that were deleted in the database, with what this store has
// of them.
func (s Shared) Follow(ctx context.Context, entries []identity.SharedEntry, whole bool) error {
	plain := make([]RosterEntry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.Value != nil || !whole {
			plain = append(plain, e.RosterEntry)
		}
		if err := s.deleteFormer(ctx, e); err != nil {
			return err
		}
	}
	return s.roster.Follow(ctx, plain, whole)
}

// deleteFormer deletes the account of an entry's name if it is not that of the entry.
func (s Shared) deleteFormer(ctx context.Context, e *identity.SharedEntry) error {
	name := e.AccountOf()
	here, known := s.accounts.Get(name)
	if !known || e.Deleted.IsZero() {
		return nil
	}
	if followed, err := s.roster.Followed(name); !followed {
		return err // it was made here
	}
	if e.Value != nil {
		var now identity.AccountRecord
		if err := kv.DecodeRecord(e.Value, &now); err != nil || now.Created.Equal(here.Created) {
			return err
		}
	}
	gone := []RosterEntry{{Name: e.Name}}
	if err := s.roster.Follow(ctx, gone, false); err != nil {
		return err
	}
	_, err := Accounts{s.accounts.Accounts(), s.core}.Delete(ctx, name, false)
	return err
}
