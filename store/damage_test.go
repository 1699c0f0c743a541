package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

// FuzzDamagedRecord puts any value in the place of any record, as a broken disk or a foreign hand might. Whatever is read
// then is given, or refused as damaged; nothing else fails, and what cannot be read any more is found by a check.
func FuzzDamagedRecord(f *testing.F) {
	s := openStore(f, Options{Digest: digestTest})
	mustAccount(f, s, "acme")
	c := &conversation{f, s}
	long := strings.Repeat("a text that is long enough to be kept apart. ", 100)
	first, session := c.exchange(say(long), OutcomeComplete, "answer "+long)
	second, _ := c.exchange(say(long, "answer "+long, "and then?"), OutcomeComplete, "the end")
	c.exchange(say("say it in pieces"), OutcomeComplete, string(repeatingStream(20)))
	s.Keep("acme", "call_1", []byte("signature"))
	if _, err := s.Erase(f.Context(), "acme", Selection{Exchanges: []string{second}}, true); err != nil {
		f.Fatal(err)
	}

	var keys, values [][]byte
	if err := s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if item.Key()[0] == spaceMeta || item.Key()[0] == spaceAccount || item.Key()[0] == spaceChange {
				continue // read when the store is opened, or without a value
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			keys, values = append(keys, item.KeyCopy(nil)), append(values, value)
		}
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	if !slices.ContainsFunc(values, func(value []byte) bool { return len(value) > 0 && value[0] == encodingFrames }) {
		f.Fatal("no answer is kept by the form of its events")
	}
	for i, value := range values {
		f.Add(uint16(i), value)
		if len(value) > 0 {
			f.Add(uint16(i), value[:len(value)/2])
			f.Add(uint16(i), append([]byte{value[0] + 1}, value[1:]...))
		}
	}
	set := func(t testing.TB, key, value []byte) {
		if err := s.db.Update(func(tx *badger.Txn) error { return tx.Set(key, bytes.Clone(value)) }); err != nil {
			t.Fatal(err)
		}
	}

	f.Fuzz(func(t *testing.T, which uint16, value []byte) {
		i := int(which) % len(keys)
		if len(value) > 1<<16 {
			t.Skip()
		}
		set(t, keys[i], value)
		defer set(t, keys[i], values[i])

		damaged := false
		read := func(what string, err error) {
			var known *codec.Error
			switch {
			case err == nil:
			case !errors.As(err, &known):
				t.Errorf("key %q, value %q: %s: %v", keys[i], value, what, err)
			case known.Kind == codec.KindStorage || known.Kind == codec.KindNotFound:
				damaged = true
			default:
				t.Errorf("key %q, value %q: %s: %s %v", keys[i], value, what, known.Kind, err)
			}
		}
		for _, id := range []string{first, second} {
			x, err := s.Exchange("acme", id)
			read("exchange", err)
			if err == nil {
				_, err = json.Marshal(x.ExchangeInfo)
				read("JSON", err)
			}
		}
		_, err := s.Exchanges("acme", ExchangeQuery{})
		read("exchanges", err)
		_, err = s.Sessions("acme", SessionQuery{})
		read("sessions", err)
		_, err = s.Timeline("acme", session, TimelineQuery{})
		read("timeline", err)
		for _, err := range s.Export(context.Background(), "acme", Selection{All: true}) {
			read("export", err)
		}
		_, err = s.Usage(context.Background(), "acme")
		read("usage", err)
		s.Recall("acme", "call_1")

		report, err := s.Check(context.Background(), false, func(Finding) {})
		if err != nil {
			t.Errorf("key %q, value %q: the check fails: %v", keys[i], value, err)
		}
		if damaged && report.Findings == 0 {
			t.Errorf("key %q, value %q: not to be read, and the check finds nothing", keys[i], value)
		}
	})
}

func TestATurnThatCannotBeReadIsDigestedAgain(t *testing.T) {
	c := newConversation(t)
	id, session := c.exchange(say("where is the lock taken?"), OutcomeComplete, "in pkg/lock")
	exchange, _ := parseExchangeID(id)
	number, err := c.s.numberOf("acme")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.s.db.Update(func(tx *badger.Txn) error {
		return tx.Set(exchangeKey(spaceTurn, number, exchange), []byte("damaged"))
	}); err != nil {
		t.Fatal(err)
	}
	check := func(repair bool) CheckReport {
		report, err := c.s.Check(t.Context(), repair, func(f Finding) {
			if f.Subject != id || f.Repaired != repair {
				t.Errorf("%+v", f)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if found := check(true).Repaired; found != 1 {
		t.Fatalf("%d repaired", found)
	}
	c.settle()
	if left := check(false).Findings; left != 0 {
		t.Errorf("%d left", left)
	}
	page, err := c.s.Timeline("acme", session, TimelineQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Turn == nil || page.Data[0].Turn.Answer[0].Parts[0].Text != "in pkg/lock" {
		t.Errorf("%+v, %v", page.Data, err)
	}
}
