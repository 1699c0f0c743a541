package identity

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// mostWithdrawn is how many withdrawn tokens of one key are listed.
const mostWithdrawn = 100

// withdrawn are the tokens of a key that ended before they expired. Beyond mostWithdrawn the list is bounded by ending
// more tokens, never fewer: all that expire no later than the first one listed.
type withdrawn struct {
	Tokens map[string]time.Time `json:"tokens"`       // when they expire, by their ids
	All    time.Time            `json:"all,omitzero"` // tokens that expire no later are withdrawn, too
}

// withdrawnPrefix and the id of a key have the tokens of the key.
const withdrawnPrefix = "withdrawn-"

// WithdrawToken ends a token of a key, with its id, before it expires at the time until. It returns once that is on disk.
func (s *Credentials) WithdrawToken(key, id string, until time.Time) error {
	now := time.Now()
	lapsed, err := s.lapsed(now)
	if err == nil {
		err = s.db.Update(context.Background(), func(tx kv.Txn) error {
			for name, record := range lapsed {
				if bytes.Equal(tx.Get([]byte(name)), record) {
					tx.Put([]byte(name), nil)
				}
			}
			var w withdrawn
			at := kv.NameKey(kv.SpaceMeta, withdrawnPrefix+key)
			if record := tx.Get(at); len(record) > 0 {
				if err := kv.DecodeRecord(record, &w); err != nil {
					return err
				}
			}
			w.add(id, until, now)
			record, err := kv.EncodeRecord(w)
			tx.Put(at, record)
			return err
		})
	}
	if err != nil {
		return kv.AsStorageError(err, "the end of the session could not be stored; try again")
	}
	return nil
}

// Withdrawn reports whether a token of a key ended before it expires at the time until.
func (s *Credentials) Withdrawn(key, id string, until time.Time) (bool, error) {
	var w withdrawn
	err := s.db.View(func(tx *badger.Txn) error {
		record, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, withdrawnPrefix+key))
		if err != nil {
			return err
		}
		return kv.DecodeRecord(record, &w)
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return false, kv.AsStorageError(err, "whether the session has ended cannot be read; run mneme check")
	}
	_, listed := w.Tokens[id]
	return listed || !until.After(w.All), nil
}

// lapsed returns the records, by their names, whose tokens have all expired.
func (s *Credentials) lapsed(now time.Time) (records map[string][]byte, err error) {
	records = make(map[string][]byte)
	return records, kv.EachRecord(s.db, kv.NameKey(kv.SpaceMeta, withdrawnPrefix), func(name, record []byte) error {
		var w withdrawn
		if err := kv.DecodeRecord(record, &w); err != nil {
			return err
		}
		if w.expire(now); len(w.Tokens) == 0 && !w.All.After(now) {
			records[string(name)] = bytes.Clone(record)
		}
		return nil
	})
}

func (w *withdrawn) add(id string, until, now time.Time) {
	w.expire(now)
	if w.Tokens == nil {
		w.Tokens = make(map[string]time.Time)
	}
	w.Tokens[id] = until.UTC()
	if len(w.Tokens) <= mostWithdrawn {
		return
	}
	first := until
	for _, until := range w.Tokens {
		if until.Before(first) {
			first = until
		}
	}
	if w.All.Before(first) {
		w.All = first.UTC()
	}
	w.expire(w.All)
}

// expire removes the tokens that expire no later than a time.
func (w *withdrawn) expire(at time.Time) {
	for id, until := range w.Tokens {
		if !until.After(at) {
			delete(w.Tokens, id)
		}
	}
}
