package files

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	must(t, db.Open(badger.DefaultOptions(db.path("")).WithMemTableSize(1<<20).WithValueThreshold(1<<10).WithValueLogFileSize(1<<20), nil))
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
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(make([]byte, 32), info.Size()/3); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// A process that is killed while it merges tables leaves some that the manifest does not list, and all that is in them is in
// listed ones. A start looks there alone: damage in other tables, which it trusts, is found once it serves.
func TestAStartReadsOnlyTheBlocksThatCanHoldWhatUnlistedTablesHold(t *testing.T) {
	const unlisted = "000999.sst"
	for _, harm := range []struct {
		name    string
		rotten  []string
		foreign bool // the unlisted table is of another database
		refuses string
	}{
		{name: "damage elsewhere", rotten: []string{"000001.sst", "000003.sst"}},
		{name: "damage where it looks", rotten: []string{"000002.sst"}, refuses: "000002.sst"},
		{name: "data that is nowhere else", foreign: true, refuses: unlisted + ", which holds data that is nowhere else"},
	} {
		t.Run(harm.name, func(t *testing.T) {
			db := inUse(t, "a", "b", "c")
			from := db.path("000002.sst")
			if harm.foreign {
				from = inUse(t, "b1").path("000001.sst")
			}
			if err := copyFile(from, db.path(unlisted)); err != nil {
				t.Fatal(err)
			}
			for _, name := range harm.rotten {
				rot(t, db.path(name))
			}
			s, err := examine(db.dir, atStart)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.Leftover, []string{unlisted}) || len(s.unread) != 3 {
				t.Errorf("left over are %v, and to be read once it serves %v", s.Leftover, s.unread)
			}
			if found := fmt.Sprint(s.Fatal); !strings.Contains(found, harm.refuses) || (len(s.Fatal) == 0) != (harm.refuses == "") {
				t.Errorf("it finds %v, want %q", found, harm.refuses)
			}
		})
	}
}

// The time of a table that was written just before the store was closed says nothing, but the note has its sum. The last
// table is written while the store is closed.
func TestATableWrittenJustBeforeTheStoreWasClosedIsNotReadByTheStart(t *testing.T) {
	dir, tables := closedWith(t, "a", "b")
	s, err := examine(dir, atStart)
	if err != nil || len(s.Fatal) > 0 || !slices.Equal(s.unread, []string{filepath.Base(tables[0])}) {
		t.Fatalf("of the tables %v are to be read once it serves; %v, %v", s.unread, s.Fatal, err)
	}
	rot(t, tables[0])
	s, err = examine(dir, atStart)
	if err != nil || len(s.Fatal) == 0 || !strings.HasSuffix(s.Fatal[0].File, filepath.Base(tables[0])) {
		t.Errorf("a start finds %v in a table that was changed, %v", s.Fatal, err)
	}
	if s, err = examine(dir, whole); err != nil || len(s.unread) > 0 {
		t.Errorf("an examination of all files leaves out %v, %v", s.unread, err)
	}
}

func TestFilesAreNotedAgainOnlyIfTheyHaveChanged(t *testing.T) {
	db := inUse(t, "a")
	note := func() os.FileInfo { // each note is another file
		t.Helper()
		must(t, db.NoteSettled())
		info, err := os.Stat(filepath.Join(db.dir, stopNoteFile))
		must(t, err)
		return info
	}
	first := note()
	if !os.SameFile(note(), first) {
		t.Error("a note that says the same was written again")
	}
	must(t, os.Chtimes(db.path("000001.sst"), time.Time{}, time.Now().Add(-time.Minute)))
	if os.SameFile(note(), first) {
		t.Error("a changed file was not noted")
	}
	if err := db.NoteKey(nil); err != nil {
		t.Fatal(err)
	}
	note()
	if n, err := readStopNote(db.dir); err != nil || len(n.Settled) == 0 {
		t.Errorf("after a note on the key nothing is settled: %+v, %v", n, err)
	}
}
