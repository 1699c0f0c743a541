package notes

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/kv/kvtest"
)

func openNotes(t *testing.T, accounts ...string) *Notes {
	t.Helper()
	dir := t.TempDir()
	database := filepath.Join(dir, "badger")
	master, err := identity.OpenMasterKey(dir, database, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	db := kvtest.Open(t, database)
	table, err := identity.LoadAccounts(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range accounts {
		if _, err := table.Accounts().Create(name); err != nil {
			t.Fatal(err)
		}
	}
	return New(db, table, identity.NewCredentials(db, table, master, nil, slog.New(slog.DiscardHandler)))
}

func TestTheLedgerReturnsWhatAnAccountStored(t *testing.T) {
	n := openNotes(t, "acme", "other")
	long := bytes.Repeat([]byte("thought "), 4000)
	n.Keep("acme", "google call c1", []byte("Q2lF"))
	n.Keep("acme", "other reasoning c1", long)
	n.Keep("acme", "google call c1", []byte("newer"))
	n.Keep("acme", "too large", make([]byte, ledgerValue+1))
	n.Keep("nobody", "google call c1", []byte("x"))
	for _, want := range []struct{ account, name, value string }{
		{"acme", "google call c1", "newer"},
		{"acme", "other reasoning c1", string(long)},
		{"acme", "google call c2", ""},
		{"acme", "too large", ""},
		{"other", "google call c1", ""},
		{"nobody", "google call c1", ""},
	} {
		if got := n.Recall(want.account, want.name); string(got) != want.value {
			t.Errorf("%s, %s: %.40q, want %.40q", want.account, want.name, got, want.value)
		}
	}
}

func TestTheLedgerForgetsOldState(t *testing.T) {
	n := openNotes(t, "acme")
	for i := range 10 {
		n.Keep("acme", fmt.Sprint("call ", i), []byte("state"))
	}
	account, _ := n.accounts.Find("acme")
	count := func() (many int) {
		err := n.db.View(func(tx *badger.Txn) error {
			return kv.EachItem(context.Background(), tx, kv.SpaceKeyOf(kv.SpaceLedger, account), func(*badger.Item) error { many++; return nil })
		})
		if err != nil {
			t.Fatal(err)
		}
		return many
	}
	if err := n.Expire(context.Background(), account, time.Now().Add(ledgerAge-time.Hour)); err != nil || count() != 10 {
		t.Errorf("before its time: %v, %d left", err, count())
	}
	if err := n.Expire(context.Background(), account, time.Now().Add(ledgerAge+time.Hour)); err != nil || count() != 0 {
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
