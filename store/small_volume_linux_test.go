package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/volume"
)

// TestAFullVolumeStopsNewExchangesAndHarmsNothing fills a real small volume.
func TestAFullVolumeStopsNewExchangesAndHarmsNothing(t *testing.T) {
	dir := mountVolume(t)
	s := openStore(t, Options{Dir: filepath.Join(dir, "store")})
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "before", "answer")
	open, err := s.Begin(context.Background(), &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte("open while it fills")})
	if err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	free := s.writer.Gate.Reserve - 4<<20
	writeFiller(t, dir, filler, free)
	s.writer.Gate.Look() // the filler may be written before it is time for another look

	_, err = s.Begin(context.Background(), &record.Opening{Account: "acme", Surface: codec.Chat})
	wantKind(t, err, codec.KindStorage)
	if !strings.Contains(err.Error(), "free some space") {
		t.Errorf("a full volume is told as %q", err)
	}
	if err := open.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Errorf("what was under way could not end: %v", err)
	}
	if x, err := s.Archive().Exchange("acme", id); err != nil || string(x.RawResponse) != "answer" {
		t.Errorf("what was there cannot be read: %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	capture(t, s, "acme", "after", "answer")
}

// mountVolume returns the directory of a volume of 200 MiB for this test only.
func mountVolume(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=200m"); err != nil {
		t.Skipf("no volume can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// A store that was killed on a large volume, where value logs are large, opens on a small one too.
func TestAKilledStoreOpensOnASmallVolume(t *testing.T) {
	small := filepath.Join(mountVolume(t), "store")
	dir := filepath.Join(t.TempDir(), "store")
	s := openStore(t, Options{Dir: dir})
	const records, value = 2000, 16 << 10 // more than a small value log takes
	for from := 0; from < records; from += 1000 {
		err := s.writer.Update(t.Context(), func(g *writing.Group, w *commit.Op) error {
			for n := from; n < from+1000; n++ {
				g.Put(w, kv.NameKey(kv.SpaceMeta, fmt.Sprintf("test-%08d", n)), make([]byte, value))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("cp", "-a", "--sparse=always", dir, small).CombinedOutput(); err != nil { // as a kill leaves it
		t.Skipf("the store cannot be copied: %s", out)
	}
	moved := openStore(t, Options{Dir: small, MinFreeDisk: -1})
	found := 0
	err := kv.EachRecord(moved.db, kv.NameKey(kv.SpaceMeta, "test-"), func([]byte, []byte) error { found++; return nil })
	if err != nil || found != records {
		t.Errorf("%d records of %d are there, %v", found, records, err)
	}
}

// While a volume fills under load, exchanges that cannot be stored are refused, acknowledged ones survive, also a
// restart, and new ones are accepted as soon as there is space.
func TestAVolumeThatFillsUnderLoadLosesNothing(t *testing.T) {
	dir := mountVolume(t)
	opts := Options{Dir: filepath.Join(dir, "store")}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	filler := filepath.Join(dir, "filler")
	writeFiller(t, dir, filler, s.writer.Gate.Reserve+4<<20)

	var (
		mu   sync.Mutex
		kept = make(map[string][]byte)
		load sync.WaitGroup
	)
	for seed := range uint64(4) {
		load.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for full := false; !full; {
				body := make([]byte, 64<<10) // nothing that could be packed
				for i := range body {
					body[i] = byte(random.Uint32())
				}
				full = !recordOne(t, s, body, func(id string) {
					mu.Lock()
					kept[id] = body
					mu.Unlock()
				})
			}
		})
	}
	load.Wait()
	if len(kept) == 0 {
		t.Fatal("nothing was taken before the volume was full")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, opts)
	for id, body := range kept {
		if x, err := s.Archive().Exchange("acme", id); err != nil || !bytes.Equal(x.RawRequest, body) || !bytes.Equal(x.RawResponse, body) {
			t.Errorf("%s was acknowledged and is not as it was: %v", id, err)
		}
	}
	mustBeSound(t, s)
	capture(t, s, "acme", "after", "answer")
}

// recordOne captures an exchange, and reports it once its end is acknowledged. It returns false if the store refuses
// one.
func recordOne(t *testing.T, s *Store, body []byte, acknowledged func(id string)) bool {
	ctx := t.Context()
	c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: body})
	if err != nil {
		return false
	}
	_, _ = c.Write(body)
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		return false
	}
	acknowledged(c.ID())
	return true
}

func TestAStoreThatCannotBeWrittenReportsIt(t *testing.T) {
	dir := mountVolume(t)
	opts := Options{Dir: filepath.Join(dir, "store")}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "before", "answer")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Skipf("the volume cannot be made read-only here: %v", err)
		}
	}
	remount(unix.MS_RDONLY)
	if s, err := Open(opts); err == nil {
		_ = s.Close()
		t.Error("a store on a read-only volume opens")
	} else if !errors.Is(err, unix.EROFS) {
		t.Errorf("a read-only volume is told as %q", err)
	}
	remount(0)
	s = openStore(t, opts)
	if x, err := s.Archive().Exchange("acme", id); err != nil || string(x.RawResponse) != "answer" {
		t.Errorf("what was there cannot be read: %v", err)
	}
}

// writeFiller writes a file that leaves so many bytes free.
func writeFiller(t *testing.T, dir, path string, leave int64) {
	t.Helper()
	space, err := volume.SpaceOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, space.Free-leave), 0o600); err != nil {
		t.Fatal(err)
	}
}
