package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/files"
)

// openAlone opens a store without its maintenance goroutines.
func openAlone(t *testing.T, opts Options) *core {
	t.Helper()
	s, err := prepare(opts)
	if err == nil {
		err = s.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.release(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// rot changes bytes of a table like a failing volume: the file's modification time stays the same.
func rot(t *testing.T, dir, table string) {
	t.Helper()
	path := filepath.Join(dir, files.DatabaseDir, table)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, path)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// spoil overwrites bytes of a table. A single flipped bit may leave the content of a compressed block as it was.
func spoil(t *testing.T, path string) {
	t.Helper()
	err := patch(path, written(t, path)/3, func(b []byte) {
		for i := range b[:32] {
			b[i] ^= 0xff
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// merge makes the database merge its newest tables, which it does to drop a key.
func merge(t *testing.T, s *core) {
	t.Helper()
	key := []byte("!dropped")
	err := s.db.Update(func(tx *badger.Txn) error { return tx.Set(key, nil) })
	if err == nil {
		err = s.db.DropPrefix(key)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readTables reads the tables that have yet to be read.
func readTables(db *files.Database) {
	for db.ReadNext() {
	}
}

func hasTable(db *files.Database, name string) bool {
	return slices.ContainsFunc(db.Tables(), func(t badger.TableInfo) bool { return fmt.Sprintf("%06d.sst", t.ID) == name })
}

// mustKeep fails the test unless the damage of one table was noted, and the table is kept as it was.
func mustKeep(t *testing.T, dir, table, was string) {
	t.Helper()
	found := Damages(dir)
	if len(found) != 1 || !strings.HasSuffix(found[0].File, table) || !strings.Contains(found[0].Problem, "mneme recover") {
		t.Fatalf("this was noted: %+v", found)
	}
	if summary(t, filepath.Join(dir, found[0].Kept)) != was {
		t.Error("the table is not kept as it was found")
	}
}

// The start skips a table, and the database wants to merge it before it has been read.
func TestNoTableIsMergedUnread(t *testing.T) {
	dir, _ := agedStore(t, false)
	const table = "000001.sst"
	rot(t, dir, table)
	was := summary(t, filepath.Join(dir, files.DatabaseDir, table))
	s := openAlone(t, Options{Dir: dir})
	merge(t, s)
	if hasTable(s.db, table) {
		t.Fatal("the table was not merged")
	}
	mustKeep(t, dir, table, was)
}

func TestATableDamagedWhileTheStoreIsOpenIsFoundWithinADay(t *testing.T) {
	dir, _ := agedStore(t, false)
	const table = "000001.sst"
	s := openAlone(t, Options{Dir: dir})
	readTables(s.db)
	rot(t, dir, table)
	was := summary(t, filepath.Join(dir, files.DatabaseDir, table))
	s.db.QueueDaily(time.Now())
	readTables(s.db)
	if found := Damages(dir); len(found) > 0 {
		t.Fatalf("all tables are read again at once: %+v", found)
	}
	s.db.QueueDaily(time.Now().Add(24 * time.Hour))
	merge(t, s)
	mustKeep(t, dir, table, was)
}

func TestADamagedTableIsNotCompactedOnDemand(t *testing.T) {
	dir, ids := agedStore(t, false)
	const table = "000001.sst"
	rot(t, dir, table) // before the database has any of it in memory
	s := openStore(t, Options{Dir: dir})
	before := readable(t, s, ids)
	if err := s.Upkeep().Compact(t.Context()); err == nil || !strings.Contains(err.Error(), table) {
		t.Errorf("it was compacted: %v", err)
	}
	if !hasTable(s.db, table) {
		t.Error("the table is gone")
	}
	if after := readable(t, s, ids); after != before {
		t.Errorf("%d of %d exchanges can still be read", after, before)
	}
}
