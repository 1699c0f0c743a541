package store

import (
	"bytes"
	"errors"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// asFormat8 makes a store as format 8 had it: an answer is in parts, and its history has a note of its own.
func asFormat8(t *testing.T, s *Store) {
	t.Helper()
	err := s.db.Update(func(tx *badger.Txn) error {
		for item := range kv.Items(tx, []byte{kv.SpaceHistory}, nil) {
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			note, _ := record.ReadHistoryNote(value)
			if note.Answer == (record.HistoryHash{}) {
				continue
			}
			key := item.KeyCopy(nil)
			answer := append(bytes.Clone(key[:len(key)-len(note.Answer)]), note.Answer[:]...)
			if err := tx.Set(key, note.ID[:]); err != nil {
				return err
			}
			if err := tx.Set(answer, note.ID[:]); err != nil {
				return err
			}
		}
		for item := range kv.Items(tx, []byte{kv.SpaceExchange}, nil) {
			account, id, _ := kv.SplitExchangeKey(item.Key())
			info := new(record.ExchangeInfo)
			value, err := item.ValueCopy(nil)
			if err = errors.Join(err, record.Decode(value, info)); err != nil {
				return err
			}
			part := info.Part
			info.Part = nil
			err = errors.Join(tx.Set(item.KeyCopy(nil), record.Encode(info)), tx.Set(kv.PartKey(kv.SpaceResponse, account, id, 0), part))
			if err != nil {
				return err
			}
		}
		return tx.Set(kv.NameKey(kv.SpaceMeta, "format"), []byte{firstFormat})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAStoreOfTheFirstFormatIsReadAndGoesOn(t *testing.T) {
	opts := Options{Dir: t.TempDir(), Digest: digestTest}
	c := &talk{t, openStore(t, opts)}
	mustAccount(t, c.s, "acme")
	session := c.session(derived(say("where is the lock"), "where is the lock"), "in pkg/lock")
	asFormat8(t, c.s)
	c.reopen(opts)
	c.session(derived(say("where is the lock", "in pkg/lock", "and the key"), "where is the lock", "in pkg/lock"), "in pkg/key")
	c.session(derived(say("where is the lock", "in pkg/lock", "and the key", "in pkg/key", "thanks"), "where is the lock", "in pkg/lock"), "bye")
	want := "0 u:where is the lock a:in pkg/lock\n1 after 0 u:and the key a:in pkg/key\n2 after 1 u:thanks a:bye"
	if got := c.timeline(session); got != want {
		t.Errorf("its session goes on as\n%s\ninstead of\n%s", got, want)
	}
	report, err := c.s.Upkeep().Check(t.Context(), false, func(f Finding) { t.Errorf("%s: %s", f.Subject, f.Problem) })
	if err != nil || report.Exchanges != 3 {
		t.Errorf("%v, %v", report, err)
	}
	err = c.s.db.View(func(tx *badger.Txn) error {
		version, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, "format"))
		if !bytes.Equal(version, []byte{formatVersion}) {
			t.Errorf("the format is %v", version)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
