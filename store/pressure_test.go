package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/volume"
)

func TestASecondProcessIsToldThatTheStoreIsInUse(t *testing.T) {
	dir := t.TempDir()
	openStore(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second open gives %v", err)
	}
}

func TestAStoreOfAnotherVersionIsNotTouched(t *testing.T) {
	const older = "was begun by an older version of mneme: export it with that version (mneme export), and import it with this one"
	for name, c := range map[string]struct {
		key   string
		value []byte
		want  string
	}{
		"newer":                    {"format", []byte{formatVersion + 1}, fmt.Sprintf("newer version of mneme (format %d, this one reads up to %d): upgrade", formatVersion+1, formatVersion)},
		"older":                    {"format", []byte{firstFormat - 1}, older},
		"older, and converted":     {"rollups", []byte{0, 0, 0, 0, 0, 0, 0, 1}, older},
		"a version of no one byte": {"format", nil, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, Options{Dir: dir})
			tx := s.db.NewTransaction(true)
			if err := tx.Set(kv.NameKey(kv.SpaceMeta, c.key), c.value); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first one changes nothing
				if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("open gives %v", err)
				}
			}
		})
	}
}

// stall keeps the writer busy until the returned function is called, or the test ends.
func stall(t *testing.T, s *Store) (release func()) { return stallWith(t, s, 0) }

func stallWith(t *testing.T, s *Store, weight int64) (release func()) {
	t.Helper()
	busy, gate := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	var refused error
	go func() {
		defer close(ended)
		step := s.writer.Change(func(*writing.Group, *commit.Op) error { close(busy); <-gate; return nil })
		step.Weight = weight
		refused = s.writer.Do(context.Background(), step)
	}()
	select {
	case <-busy:
	case <-ended:
		t.Fatalf("the writer takes nothing: %v", refused)
	}
	release = sync.OnceFunc(func() { close(gate); <-ended })
	t.Cleanup(release)
	return release
}

// fillQueue fills the queue, like operations that wait for a writer that cannot keep up.
func fillQueue(t *testing.T, s *Store) (release func()) {
	t.Helper()
	return stallWith(t, s, 1<<60)
}

func TestUnderPressureRequestsWaitOrPassUnrecorded(t *testing.T) {
	opening := &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte(strings.Repeat("x", 20_000))}
	ctx := context.Background()

	t.Run("wait", func(t *testing.T) {
		s := openStore(t, Options{})
		mustAccount(t, s, "acme")
		release := fillQueue(t, s)
		short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		_, err := s.Begin(short, opening)
		wantKind(t, err, codec.KindStorage)
		begun := make(chan error)
		go func() {
			c, err := s.Begin(ctx, opening)
			if err == nil {
				err = c.Finish(&record.Closing{Outcome: record.OutcomeComplete})
			}
			begun <- err
		}()
		release()
		if err := <-begun; err != nil {
			t.Errorf("a request that waited got %v", err)
		}
		if st := s.Stats(); st.Captured != 1 || st.Refused != 0 { // who left was not turned away
			t.Errorf("stats are %+v", st)
		}
	})
	t.Run("shed", func(t *testing.T) {
		s := openStore(t, Options{OnPressure: Shed})
		mustAccount(t, s, "acme")
		release := fillQueue(t, s)
		c, err := s.Begin(ctx, opening)
		if err != nil || !c.Shed() || c.SessionID() != "" {
			t.Fatalf("under pressure Begin gives %+v (%v)", c, err)
		}
		_, _ = c.Write([]byte("answer"))
		if err := errors.Join(c.Recorded(ctx), c.Finish(&record.Closing{Outcome: record.OutcomeComplete})); err != nil {
			t.Errorf("what is not recorded fails: %v", err)
		}
		release()
		if c, err := s.Begin(ctx, opening); err != nil || c.Shed() {
			t.Errorf("after the pressure Begin gives %+v (%v)", c, err)
		} else if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Error(err)
		}
		s.Off()
		if st := s.Stats(); st.Captured != 1 || st.Shed != 1 || st.Off != 1 {
			t.Errorf("stats are %+v", st)
		}
		if page, err := s.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) != 1 {
			t.Errorf("%d exchanges are on record (%v), want the one that was captured", len(page.Data), err)
		}
	})
}

// TestAnOpeningThatCannotBeCommittedLeavesNothingBehind lets the volume become full between Begin and the commit.
func TestAnOpeningThatCannotBeCommittedLeavesNothingBehind(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	ctx := context.Background()
	before, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte("before")})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Recorded(ctx); err != nil {
		t.Fatal(err)
	}
	release := stall(t, s)
	during, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte("during")})
	if err != nil {
		t.Fatal(err)
	}
	mark := s.writer.Gate.Reserve
	s.writer.Gate.Reserve = 1 << 62
	release()
	wantKind(t, during.Recorded(ctx), codec.KindStorage)
	if _, err := before.Write(make([]byte, 2*recording.PartSize)); err != nil {
		t.Fatal(err)
	}
	_ = s.writer.Update(ctx, func(*writing.Group, *commit.Op) error { return nil }) // what was written has been tried by now
	s.writer.Gate.Reserve = mark
	release = stall(t, s) // one group of an exchange that is well and parts of one that is not
	after, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: make([]byte, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := during.Write(make([]byte, 2*recording.PartSize)); err != nil {
		t.Fatal(err)
	}
	release()
	if err := after.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Error(err)
	}
	wantKind(t, during.Finish(&record.Closing{Outcome: record.OutcomeComplete}), codec.KindStorage)
	wantKind(t, before.Finish(&record.Closing{Outcome: record.OutcomeComplete}), codec.KindStorage)
	mustBeSound(t, s)
	page, err := s.Archive().Exchanges("acme", record.ExchangeQuery{})
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != after.ID() || page.Data[1].Outcome != record.OutcomeInterrupted {
		t.Errorf("the store lists %+v (%v)", page.Data, err)
	}
	if st := s.Stats(); st.Captured != 2 || st.Failed != 1 {
		t.Errorf("stats are %+v", st)
	}
}

func TestAClosedStoreAcceptsNothing(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	open, err := s.Begin(context.Background(), &record.Opening{Account: "acme", Surface: codec.Chat})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Begin(context.Background(), &record.Opening{Account: "acme", Surface: codec.Chat})
	wantKind(t, err, codec.KindStorage)
	wantKind(t, open.Finish(&record.Closing{Outcome: record.OutcomeComplete}), codec.KindStorage)
}

// When the volume is too full for exchanges, space can still be freed.
func TestOperationsThatFreeSpaceUseTheReserve(t *testing.T) {
	s := openStore(t, Options{MinFreeDisk: -1})
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "question", "answer")
	space, err := volume.SpaceOf(s.opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	s.writer.Gate.Reserve = space.Free * 3
	_, err = s.Begin(t.Context(), &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte("more")})
	wantKind(t, err, codec.KindStorage)
	wantKind(t, s.Ready(), codec.KindStorage)
	wantKind(t, s.writer.Update(t.Context(), func(*writing.Group, *commit.Op) error { return nil }), codec.KindStorage)
	e, err := s.Archive().Erase(t.Context(), "acme", record.Selection{Exchanges: []string{id}}, false)
	for err == nil && e.State != record.ErasureDone {
		runtime.Gosched()
		e, err = s.Archive().Erasure("acme", e.ID)
	}
	if err != nil || e.Exchanges != 1 {
		t.Errorf("the receipt is %+v, %v", e, err)
	}
	if err := s.Upkeep().Compact(t.Context()); err != nil {
		t.Error(err)
	}
	s.writer.Gate.Reserve = space.Free * 8
	_, err = s.Archive().Erase(t.Context(), "acme", record.Selection{All: true}, false)
	wantKind(t, err, codec.KindStorage)
}
