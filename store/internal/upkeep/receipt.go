package upkeep

import (
	"bytes"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Ref identifies an erasure of an account.
type Ref struct {
	Account kv.AccountNumber
	ID      kv.TimeID
}

func (r Ref) key() []byte { return append(kv.SpaceKeyOf(kv.SpaceErasure, r.Account), r.ID[:]...) }

func putReceipt(g *writing.Group, w *commit.Op, ref Ref, e *record.Erasure) error {
	value, err := kv.EncodeRecord(e)
	if err == nil {
		g.Put(w, ref.key(), value)
	}
	return err
}

func receipt(db *files.Database, ref Ref) (*record.Erasure, error) {
	e := new(record.Erasure)
	err := db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, ref.key())
		if err != nil {
			return err
		}
		return record.Decode(value, e)
	})
	return e, err
}

// Receipt returns the receipt of an erasure of the account.
func (s *Erasures) Receipt(account kv.AccountNumber, id string) (*record.Erasure, error) {
	key, ok := kv.ParseID(record.ErasurePrefix, id)
	if !ok {
		return nil, NoErasure(id)
	}
	e, err := receipt(s.db, Ref{account, key})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, NoErasure(id)
	}
	if err != nil {
		return nil, kv.StorageError(err, "erasure %s cannot be read; run mneme check", id)
	}
	return e, nil
}

// NoErasure is the error for an erasure that an account does not have.
func NoErasure(id string) error { return codec.Errorf(codec.KindNotFound, "no erasure %q", id) }

// erasing returns the first of the sessions that an erasure by request which is not done names.
func erasing(g *writing.Group, account kv.AccountNumber, sessions ...kv.SessionID) (id kv.SessionID, found bool) {
	options := badger.IteratorOptions{Reverse: true, Prefix: kv.SpaceKeyOf(kv.SpaceErasure, account)}
	last := kv.TimeID(bytes.Repeat([]byte{0xff}, len(kv.TimeID{})))
	for item := range kv.Scan(g.Committed(), options, Ref{account, last}.key()) {
		var e record.Erasure
		if err := item.Value(func(value []byte) error { return record.Decode(value, &e) }); err != nil || e.Reason != record.ErasedByRequest {
			continue // by retention, or a check finds it
		}
		at := slices.IndexFunc(sessions, func(id kv.SessionID) bool { return slices.Contains(e.Selection.Sessions, id.String()) })
		if at >= 0 && e.State != record.ErasureDone {
			return sessions[at], true
		}
	}
	return id, false
}

// unfinished finds the erasures that an earlier process did not finish.
func (s *Erasures) unfinished() (refs []Ref) {
	err := kv.EachRecord(s.db, []byte{kv.SpaceErasure}, func(key, value []byte) error {
		var e record.Erasure
		account, id, ok := kv.SplitExchangeKey(key)
		if err := record.Decode(value, &e); err != nil {
			s.log.Error("the receipt of an erasure cannot be read", "error", err)
			return nil
		}
		if ok && e.State != record.ErasureDone {
			refs = append(refs, Ref{account, kv.TimeID(id)})
		}
		return nil
	})
	if err != nil {
		s.log.Error("the erasures cannot be read", "error", err)
	}
	return refs
}
