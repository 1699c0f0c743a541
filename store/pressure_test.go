package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mnemeproxy/mneme/codec"
)

func TestASecondProcessIsToldThatTheStoreIsInUse(t *testing.T) {
	dir := t.TempDir()
	openStore(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second open gives %v", err)
	}
}

func TestAStoreOfANewerVersionIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	tx := s.db.NewTransaction(true)
	if err := tx.Set(nameKey(spaceMeta, "format"), []byte{formatVersion + 1}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("open gives %v", err)
	}
}

// stall keeps the writer busy until the returned function is called.
func stall(t *testing.T, s *Store) (release func()) {
	t.Helper()
	busy, gate := make(chan struct{}), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.update(context.Background(), func(*gathering, *write) error { close(busy); <-gate; return nil })
	}()
	<-busy
	return func() { close(gate); <-ended }
}

func TestUnderPressureRequestsWaitOrPassUnrecorded(t *testing.T) {
	const queue = 64 << 10
	opening := &Opening{Account: "acme", Surface: codec.Chat, Body: []byte(strings.Repeat("x", 20_000))}

	t.Run("wait", func(t *testing.T) {
		s := openStore(t, Options{QueueBytes: queue})
		mustAccount(t, s, "acme")
		release := stall(t, s)
		begun := fill(t, s, opening)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		_, err := s.Begin(ctx, opening)
		wantKind(t, err, codec.KindStorage)
		release()
		for _, c := range begun {
			if err := c.Finish(context.Background(), &Closing{Outcome: OutcomeComplete}); err != nil {
				t.Error(err)
			}
		}
		if st := s.Stats(); st.Captured != int64(len(begun)) || st.Refused != 1 {
			t.Errorf("stats are %+v after %d exchanges", st, len(begun))
		}
	})
	t.Run("shed", func(t *testing.T) {
		s := openStore(t, Options{QueueBytes: queue, OnPressure: Shed})
		mustAccount(t, s, "acme")
		release := stall(t, s)
		var begun, shed int64
		for range 10 {
			c, err := s.Begin(context.Background(), opening)
			if err != nil {
				t.Fatal(err)
			}
			if begun++; c.Shed() {
				shed++
				begun--
				if err := c.Finish(context.Background(), &Closing{Outcome: OutcomeComplete}); err != nil {
					t.Error(err)
				}
			}
		}
		release()
		s.Off()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); shed == 0 || st.Shed != shed || st.Captured != begun || st.Off != 1 {
			t.Errorf("stats are %+v, %d begun, %d shed", st, begun, shed)
		}
	})
}

// fill begins exchanges until the queue takes no more.
func fill(t *testing.T, s *Store, opening *Opening) (begun []*Capture) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		if !s.queueBytes.TryAcquire(21_000) {
			cancel()
			return begun
		}
		s.queueBytes.Release(21_000)
		c, err := s.Begin(ctx, opening)
		cancel()
		if err != nil {
			return begun
		}
		begun = append(begun, c)
	}
}

// TestAnOpeningThatCannotBeCommittedLeavesNothingBehind lets the volume become full between Begin and the commit.
func TestAnOpeningThatCannotBeCommittedLeavesNothingBehind(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	ctx := context.Background()
	before, err := s.Begin(ctx, &Opening{Account: "acme", Surface: codec.Chat, Body: []byte("before")})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Recorded(ctx); err != nil {
		t.Fatal(err)
	}
	release := stall(t, s)
	during, err := s.Begin(ctx, &Opening{Account: "acme", Surface: codec.Chat, Body: []byte("during")})
	if err != nil {
		t.Fatal(err)
	}
	mark := s.disk.mark
	s.disk.mark = 1 << 62
	release()
	wantKind(t, during.Recorded(ctx), codec.KindStorage)
	if _, err := before.Write(make([]byte, 2*responsePart)); err != nil {
		t.Fatal(err)
	}
	_ = s.update(ctx, func(*gathering, *write) error { return nil }) // what was written has been tried by now
	s.disk.mark = mark
	release = stall(t, s) // one group of an exchange that is well and parts of one that is not
	after, err := s.Begin(ctx, &Opening{Account: "acme", Surface: codec.Chat, Body: make([]byte, 1000)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := during.Write(make([]byte, 2*responsePart)); err != nil {
		t.Fatal(err)
	}
	release()
	if err := after.Finish(ctx, &Closing{Outcome: OutcomeComplete}); err != nil {
		t.Error(err)
	}
	wantKind(t, during.Finish(ctx, &Closing{Outcome: OutcomeComplete}), codec.KindStorage)
	wantKind(t, before.Finish(ctx, &Closing{Outcome: OutcomeComplete}), codec.KindStorage)
	mustBeSound(t, s)
	page, err := s.Exchanges("acme", ExchangeQuery{})
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != after.ID() || page.Data[1].Outcome != OutcomeInterrupted {
		t.Errorf("the store lists %+v (%v)", page.Data, err)
	}
	if st := s.Stats(); st.Captured != 2 || st.Failed != 1 {
		t.Errorf("stats are %+v", st)
	}
}

func TestAClosedStoreTakesNothing(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	open, err := s.Begin(context.Background(), &Opening{Account: "acme", Surface: codec.Chat})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = s.Begin(context.Background(), &Opening{Account: "acme", Surface: codec.Chat})
	wantKind(t, err, codec.KindStorage)
	wantKind(t, open.Finish(context.Background(), &Closing{Outcome: OutcomeComplete}), codec.KindStorage)
}

// TestAFullVolumeStopsNewExchangesAndHarmsNothing fills a real small volume.
func TestAFullVolumeStopsNewExchangesAndHarmsNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=200m"); err != nil {
		t.Skipf("no volume can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	s := openStore(t, Options{Dir: filepath.Join(dir, "store")})
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "before", "answer")
	open, err := s.Begin(context.Background(), &Opening{Account: "acme", Surface: codec.Chat, Body: []byte("open while it fills")})
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	free := s.disk.mark - 4<<20
	writeFiller(t, dir, filler, free)

	_, err = s.Begin(context.Background(), &Opening{Account: "acme", Surface: codec.Chat})
	wantKind(t, err, codec.KindStorage)
	if !strings.Contains(err.Error(), "free some space") {
		t.Errorf("a full volume is told as %q", err)
	}
	if err := open.Finish(context.Background(), &Closing{Outcome: OutcomeComplete}); err != nil {
		t.Errorf("what was under way could not end: %v", err)
	}
	if x, err := s.Exchange("acme", id); err != nil || string(x.RawResponse) != "answer" {
		t.Errorf("what was there cannot be read: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	capture(t, s, "acme", "after", "answer")
}

// writeFiller writes a file that leaves so many bytes free.
func writeFiller(t *testing.T, dir, path string, leave int64) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, int64(fs.Bavail)*fs.Bsize-leave), 0o600); err != nil {
		t.Fatal(err)
	}
}
