package files

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openIn(t *testing.T, dir string) *Database {
	t.Helper()
	db, err := Lock(dir, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, db.Open(badger.DefaultOptions(db.path("")).WithMemTableSize(1<<20).WithValueThreshold(1<<10).WithValueLogFileSize(1<<20), 1, nil))
	return db
}

func closeAndUnlock(t *testing.T, db *Database) {
	t.Helper()
	must(t, db.Close(nil))
	must(t, db.Unlock())
}

// closedWith makes a database with a table of 3,000 entries for each prefix.
func closedWith(t *testing.T, prefixes ...string) (dir string, tables []string) {
	t.Helper()
	dir = t.TempDir()
	for _, prefix := range prefixes {
		db := openIn(t, dir)
		b := db.NewWriteBatch()
		for i := range 3000 {
			must(t, b.Set(fmt.Appendf(nil, "%s %04d", prefix, i), fmt.Appendf(nil, "%x", i*7919)))
		}
		must(t, b.Flush())
		closeAndUnlock(t, db)
	}
	tables, err := filepath.Glob(filepath.Join(dir, DatabaseDir, "*.sst"))
	must(t, err)
	if len(tables) != len(prefixes) {
		t.Fatalf("there are tables %v", tables)
	}
	return dir, tables
}

// inUse opens such a database, which notes the tables as they are an hour after they were written.
func inUse(t *testing.T, prefixes ...string) *Database {
	t.Helper()
	dir, tables := closedWith(t, prefixes...)
	for _, path := range tables {
		must(t, os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)))
	}
	db := openIn(t, dir)
	t.Cleanup(func() { closeAndUnlock(t, db) })
	return db
}

// rot changes bytes in the middle of a table like a failing volume: its time of change stays the same.
func rot(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	content, err := os.ReadFile(path)
	must(t, err)
	clear(content[len(content)/3:][:32])
	must(t, os.WriteFile(path, content, 0o600))
	must(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}
