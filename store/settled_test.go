package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// agedStore makes a store of several tables that was closed, or killed, some time after its tables were written.
func agedStore(t *testing.T, killed bool) (dir string, ids []string) {
	t.Helper()
	dir, ids = killedStore(t, 20)
	long := time.Now().Add(-time.Hour)
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // what the kill left in memory becomes tables, which happens behind an open store
		t.Fatal(err)
	}
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	age(t, dir, long)
	left := dir
	if killed {
		if err := s.noteSettled(); err != nil {
			t.Fatal(err)
		}
		left = filepath.Join(t.TempDir(), "killed")
		copyStore(t, dir, left)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	age(t, left, long)
	if !killed { // the note of this stop finds all files old
		if s, err = Open(Options{Dir: left}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return left, ids
}

// age makes it long since tables and value logs were written.
func age(t *testing.T, dir string, when time.Time) {
	t.Helper()
	for _, pattern := range []string{"*.sst", "*.vlog"} {
		files, err := filepath.Glob(filepath.Join(dir, databaseDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAStartReadsNoTableThatIsAsItWasLeft(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			dir, ids := agedStore(t, killed)
			found, err := examine(dir, atStart)
			if err != nil || len(found.unread) == 0 || len(found.fatal)+len(found.mendable)+len(found.named) > 0 {
				t.Fatalf("passed over %v, found %+v, %v", found.unread, found, err)
			}
			if all, err := examine(dir, whole); err != nil || len(all.unread) > 0 || all.newest != found.newest {
				t.Errorf("a whole examination passed over %v, and its newest version is %d, not %d (%v)", all.unread, all.newest, found.newest, err)
			}
			s := openStore(t, Options{Dir: dir})
			if n := readable(t, s, ids); n != len(ids) {
				t.Errorf("%d of %d exchanges can be read", n, len(ids))
			}
		})
	}
}

func TestATableWrittenToAfterTheNoteIsReadByTheStart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			dir, _ := agedStore(t, killed)
			path := filepath.Join(dir, databaseDir, "000001.sst")
			if err := patch(path, written(t, path)/3, func(b []byte) { b[0] ^= 1 }); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "000001.sst") {
				t.Errorf("the store opens with %v", err)
			}
		})
	}
}

// A value log that was cut costs values, and what they belong to is named: by tables that the start would pass over otherwise.
func TestWhereAValueLogIsNotAsItWasLeftTheStartReadsAllTables(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, 2000) },
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir, ids := agedStore(t, true)
			if err := harm(filepath.Join(dir, databaseDir, "000001.vlog")); err != nil {
				t.Fatal(err)
			}
			s := openStore(t, Options{Dir: dir})
			found := Damages(dir)
			if lost := len(ids) - readable(t, s, ids); lost == 0 || len(found) != 1 || len(found[0].Lost) == 0 {
				t.Errorf("%d exchanges cannot be read, and this was noted: %+v", lost, found)
			}
		})
	}
}

// Bits that the volume lost change no time. The tables that a start passes over are read once it serves.
func TestDamageThatAFileDoesNotShowIsFoundBehindTheStart(t *testing.T) {
	dir, _ := agedStore(t, false)
	const table = "000001.sst"
	rot(t, dir, table)
	was := summary(t, filepath.Join(dir, databaseDir, table))
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(Damages(dir)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was noted")
		}
	}
	mustKeep(t, dir, table, was)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), table) {
		t.Errorf("the next start does not read the table: %v", err)
	}
}
