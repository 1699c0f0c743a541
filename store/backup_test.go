package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// snapshot returns every key and value.
func snapshot(t *testing.T, s *Store) map[string]string {
	t.Helper()
	if err := s.writer.Update(context.Background(), writing.StoreAll); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	if err := kv.EachRecord(s.db, nil, func(key, value []byte) error { all[string(key)] = string(value); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func sameSnapshot(t *testing.T, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if have, there := got[key]; !there || have != value {
			t.Errorf("key %q is missing or differs", key)
		}
	}
	for key := range got {
		if _, there := want[key]; !there {
			t.Errorf("key %q should be gone", key)
		}
	}
}

// copyMasterKey puts the master key of one store beside another.
func copyMasterKey(t *testing.T, from, to string) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(from, identity.MasterKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, identity.MasterKeyFile), key, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAFullAndAnIncrementalBackupRestoreTheStore(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	mustAccount(t, s, "acme")
	c := &talk{t, s}
	a := newAgent(1)
	var ids []string
	turn := func() {
		ids = append(ids, captureBody(t, s, "acme", a.request(), []byte("answer")))
		a.turn()
	}
	turn()
	turn()
	c.settle()
	var full, more bytes.Buffer
	mark, err := s.Upkeep().Backup(ctx, &full, 0)
	if err != nil {
		t.Fatal(err)
	}
	turn()
	erase(t, s, "acme", record.Selection{Exchanges: ids[:1]})
	c.settle()
	if _, err := s.Upkeep().Backup(ctx, &more, mark); err != nil {
		t.Fatal(err)
	}
	if more.Len() >= full.Len() {
		t.Errorf("the incremental backup has %d bytes, the full one %d", more.Len(), full.Len())
	}
	want := snapshot(t, s)

	target := t.TempDir()
	if _, err := Restore(ctx, Options{Dir: target}, bytes.NewReader(more.Bytes()), nil); err == nil {
		t.Error("an incremental backup was restored without the full one")
	}
	target = t.TempDir()
	for _, file := range [][]byte{full.Bytes(), more.Bytes()} {
		if _, err := Restore(ctx, Options{Dir: target}, bytes.NewReader(file), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(Options{Dir: target}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("without the master key the restored store opens with %v", err)
	}
	copyMasterKey(t, dir, target)
	restored := openStore(t, Options{Dir: target})
	sameSnapshot(t, snapshot(t, restored), want)
	mustBeSound(t, restored)
	if err := restored.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, Options{Dir: target}, bytes.NewReader(more.Bytes()), nil); err == nil {
		t.Error("an incremental backup was restored onto a store that has been in use")
	}
	if _, err := Restore(ctx, Options{Dir: target}, bytes.NewReader(full.Bytes()), nil); err == nil {
		t.Error("a full backup was restored over a store")
	}
}

func TestABackupUnderLoadIsASnapshot(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	stop := make(chan struct{})
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			a := newAgent(uint64(worker))
			for {
				select {
				case <-stop:
					return
				default:
					captureBody(t, s, "acme", a.request(), []byte("answer"))
					a.turn()
				}
			}
		})
	}
	var backups []*bytes.Buffer
	mark := uint64(0)
	for range 5 {
		b := new(bytes.Buffer)
		var err error
		if mark, err = s.Upkeep().Backup(ctx, b, mark); err != nil {
			t.Error(err)
		}
		backups = append(backups, b)
	}
	close(stop)
	group.Wait()
	target := t.TempDir()
	for _, b := range backups {
		if _, err := Restore(ctx, Options{Dir: target}, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	copyMasterKey(t, dir, target)
	mustBeSound(t, openStore(t, Options{Dir: target}))
}

func TestADamagedBackupIsNotTakenForAStore(t *testing.T) {
	ctx := context.Background()
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	captureBody(t, s, "acme", newAgent(1).request(), []byte("answer"))
	var full bytes.Buffer
	if _, err := s.Upkeep().Backup(ctx, &full, 0); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(full.Bytes())
	flipped[len(flipped)/2] ^= 1
	for name, file := range map[string][]byte{
		"cut short":    full.Bytes()[:full.Len()-20],
		"flipped":      flipped,
		"no backup":    []byte("hello\n"),
		"empty":        nil,
		"newer":        []byte(`{"format":"mneme backup","version":9}` + "\n"),
		"two in one":   append(bytes.Clone(full.Bytes()), full.Bytes()...),
		"more behind":  append(bytes.Clone(full.Bytes()), "more"...),
		"a line more":  append(bytes.Clone(full.Bytes()), '\n'),
		"header alone": full.Bytes()[:bytes.IndexByte(full.Bytes(), '\n')+1],
	} {
		dir := t.TempDir()
		if _, err := Restore(ctx, Options{Dir: dir}, bytes.NewReader(file), nil); err == nil {
			t.Errorf("%s: restored", name)
		}
		if entries, err := os.ReadDir(filepath.Join(dir, "badger")); errors.Is(err, os.ErrNotExist) || len(entries) == 0 {
			continue // nothing was begun
		}
		if _, err := Open(Options{Dir: dir, MasterKey: make([]byte, 32)}); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("%s: what is left opens with %v", name, err)
		}
	}
}
