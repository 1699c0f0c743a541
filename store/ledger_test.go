package store

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// settle waits until everything that was passed to the writer is committed and announced. Readers can see a commit
// before it is announced.
func settle(t testing.TB, s *Store) {
	t.Helper()
	if err := s.update(context.Background(), func(*commitGroup, *commit.Op) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestTheLedgerReturnsWhatAnAccountStored(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	long := bytes.Repeat([]byte("thought "), 4000)
	s.Notes().Keep("acme", "google call c1", []byte("Q2lF"))
	s.Notes().Keep("acme", "other reasoning c1", long)
	s.Notes().Keep("acme", "google call c1", []byte("newer"))
	s.Notes().Keep("acme", "too large", make([]byte, ledgerValue+1))
	s.Notes().Keep("nobody", "google call c1", []byte("x"))
	settle(t, s)
	for _, want := range []struct{ account, name, value string }{
		{"acme", "google call c1", "newer"},
		{"acme", "other reasoning c1", string(long)},
		{"acme", "google call c2", ""},
		{"acme", "too large", ""},
		{"other", "google call c1", ""},
		{"nobody", "google call c1", ""},
	} {
		if got := s.Notes().Recall(want.account, want.name); string(got) != want.value {
			t.Errorf("%s, %s: %.40q, want %.40q", want.account, want.name, got, want.value)
		}
	}
}

func TestTheLedgerIsOnDiskWhenTheNextExchangeIs(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	s.Notes().Keep("acme", "call", []byte("state"))
	capture(t, s, "acme", "{}", "{}")
	if got := s.Notes().Recall("acme", "call"); string(got) != "state" {
		t.Errorf("when the exchange is acknowledged, the ledger gives %q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.Notes().Keep("acme", "late", []byte("state")) // is let go
	again := openStore(t, Options{Dir: dir})
	if got := again.Notes().Recall("acme", "call"); string(got) != "state" {
		t.Errorf("after a restart the ledger gives %q", got)
	}
}

func TestTheLedgerForgetsOldState(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	for i := range 10 {
		s.Notes().Keep("acme", fmt.Sprint("call ", i), []byte("state"))
	}
	settle(t, s)
	account, _ := s.accounts.Find("acme")
	count := func() (n int) {
		err := s.view(func(tx *badger.Txn) error {
			return kv.EachItem(context.Background(), tx, kv.SpaceKeyOf(kv.SpaceLedger, account), func(*badger.Item) error { n++; return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := s.expireLedger(context.Background(), account, time.Now().Add(ledgerAge-time.Hour)); err != nil || count() != 10 {
		t.Errorf("before its time: %v, %d left", err, count())
	}
	if err := s.expireLedger(context.Background(), account, time.Now().Add(ledgerAge+time.Hour)); err != nil || count() != 0 {
		t.Errorf("after its time: %v, %d left", err, count())
	}
}

// The number of slots is fixed, however many names an account uses.
func TestTheLedgerIsBounded(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 4 * ledgerSlots {
		seen[string(ledgerKey(1, ledgerHash(fmt.Sprint(i))))] = true
	}
	if len(seen) > ledgerSlots || len(seen) < ledgerSlots/2 {
		t.Errorf("%d keys of %d slots are in use", len(seen), ledgerSlots)
	}
}
