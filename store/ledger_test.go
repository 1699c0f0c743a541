package store

import (
	"context"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/writing"
)

// settle waits until everything that was passed to the writer is committed and announced. Readers can see a commit
// before it is announced.
func settle(t testing.TB, s *Store) {
	t.Helper()
	if err := s.writer.Update(context.Background(), func(*writing.Group, *commit.Op) error { return nil }); err != nil {
		t.Fatal(err)
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
