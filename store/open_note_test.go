package store

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// beginTogether begins exchanges whose openings are committed together.
func beginTogether(t *testing.T, s *Store, accounts ...string) (begun []*Capture) {
	t.Helper()
	release := stall(t, s)
	for _, account := range accounts {
		c, err := s.Begin(t.Context(), &record.Opening{Account: account, Surface: codec.Chat, Format: codec.Chat, Body: []byte("q"), ChatKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, c)
	}
	release()
	for _, c := range begun {
		if err := c.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return begun
}

// idOf returns the id of a capture's exchange.
func idOf(c *Capture) kv.ExchangeID {
	id, _ := kv.ParseExchangeID(c.ID())
	return id
}

// openNotesOf returns the exchanges in each note of open exchanges.
func openNotesOf(t *testing.T, s *Store) (notes [][]kv.ExchangeID) {
	t.Helper()
	err := kv.EachRecord(s.db, []byte{kv.SpaceOpen}, func(key, value []byte) error {
		_, ids, err := journal.ReadOpenNote(key, value)
		notes = append(notes, ids)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

func finish(t *testing.T, c *Capture) {
	t.Helper()
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Fatal(err)
	}
}

func wantOutcome(t *testing.T, s *Store, c *Capture, want record.Outcome) {
	t.Helper()
	if x, err := s.Archive().Exchange("", c.ID()); err != nil || x.Outcome != want {
		t.Errorf("an exchange is %+v, %v; want it %s", x, err, want)
	}
}

// Exchanges that began together are noted together, separately for each account. Those still open when the process ends
// are marked as interrupted; ended ones stay unchanged.
func TestOpenExchangesThatBeganTogetherAreInterrupted(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	begun := beginTogether(t, s, "acme", "other", "acme", "acme")
	want := [][]kv.ExchangeID{{idOf(begun[0]), idOf(begun[2]), idOf(begun[3])}, {idOf(begun[1])}}
	if notes := openNotesOf(t, s); !slices.EqualFunc(notes, want, slices.Equal[[]kv.ExchangeID]) {
		t.Fatalf("noted are %v, want %v", notes, want)
	}
	finish(t, begun[0])
	finish(t, begun[3])
	mustBeSound(t, s)
	if e := erase(t, s, "acme", record.Selection{Exchanges: []string{begun[3].ID()}}); e.Exchanges != 1 {
		t.Errorf("an exchange that has ended is not erased: %+v", e)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir, Digest: digestTest})
	mustBeSound(t, s)
	for i, want := range map[int]record.Outcome{0: record.OutcomeComplete, 1: record.OutcomeInterrupted, 2: record.OutcomeInterrupted} {
		wantOutcome(t, s, begun[i], want)
	}
	if notes := openNotesOf(t, s); len(notes) > 0 {
		t.Errorf("%v are still noted", notes)
	}
}

func TestTheNoteOfOpenExchangesIsRemovedWithTheLast(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	begun := beginTogether(t, s, "acme", "acme")
	finish(t, begun[0])
	if notes := openNotesOf(t, s); len(notes) != 1 {
		t.Errorf("with one exchange open noted are %v", notes)
	}
	finish(t, begun[1])
	if notes := openNotesOf(t, s); len(notes) > 0 {
		t.Errorf("%v are still noted", notes)
	}
	mustBeSound(t, s)
}

// An exchange whose end could not be committed is open in the store, however the others that began with it end.
func TestAnExchangeWhoseEndCannotBeCommittedStaysNoted(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	begun := beginTogether(t, s, "acme", "acme")
	release := stall(t, s)
	ended := make(chan error)
	go func() { ended <- begun[0].Finish(&record.Closing{Outcome: record.OutcomeComplete}) }()
	for deadline := time.Now().Add(timeout); s.Stats().Queued == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the end does not reach the writer")
		}
	}
	refused := s.writer.Change(func(g *writing.Group, w *commit.Op) error {
		g.Put(w, []byte("!badger!"), []byte("a key that the database keeps to itself"))
		return nil
	})
	if err := s.writer.Send(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	release()
	<-refused.Done
	wantKind(t, refused.Err, codec.KindStorage)
	wantKind(t, <-ended, codec.KindStorage)
	finish(t, begun[1])
	mustBeSound(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	wantOutcome(t, s, begun[0], record.OutcomeInterrupted)
	wantOutcome(t, s, begun[1], record.OutcomeComplete)
	mustBeSound(t, s)
}

func TestACheckFindsWrongNotesOfOpenExchanges(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	begun := beginTogether(t, s, "acme", "acme")
	problems := func() (found []string) {
		_, err := s.Upkeep().Check(t.Context(), true, func(f Finding) { found = append(found, f.Subject+" "+f.Problem) })
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	account, _ := s.accounts.Find("acme")
	note := kv.ExchangeKey(kv.SpaceOpen, account, idOf(begun[0])) // the first of them
	damage(t, s, note, []byte{})                                  // it names only the first of them
	want := []string{begun[1].ID() + " it is open, and it is not among the open exchanges"}
	if got := problems(); !slices.Equal(got, want) {
		t.Errorf("found is %q, want %q", got, want)
	}
	finish(t, begun[0])
	finish(t, begun[1])
	last := idOf(begun[1])
	damage(t, s, note, last[:])
	want = []string{begun[0].ID() + " it is noted among the open exchanges, and neither it nor those noted with it are"}
	if got := problems(); !slices.Equal(got, want) {
		t.Errorf("found is %q, want %q", got, want)
	}
	mustBeSound(t, s)
	err := s.db.View(func(tx *badger.Txn) error { _, err := tx.Get(note); return err })
	if !errors.Is(err, badger.ErrKeyNotFound) {
		t.Errorf("the note that was wrong is still there: %v", err)
	}
}
