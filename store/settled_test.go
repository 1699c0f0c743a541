package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/files"
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
		if err := s.db.NoteSettled(); err != nil {
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
		found, err := filepath.Glob(filepath.Join(dir, files.DatabaseDir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestATableWrittenToAfterTheNoteIsReadByTheStart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			dir, _ := agedStore(t, killed)
			spoil(t, filepath.Join(dir, files.DatabaseDir, "000001.sst"))
			if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "000001.sst") {
				t.Errorf("the store opens with %v", err)
			}
		})
	}
}

// A value log that was cut costs values, and what they belong to is named: by tables that the start would pass over otherwise.
func TestTheStartReadsAllTablesIfAValueLogHasChanged(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, 2000) },
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir, ids := agedStore(t, true)
			if err := harm(filepath.Join(dir, files.DatabaseDir, "000001.vlog")); err != nil {
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

// A start reads no table that is as it was left. Bits that the volume lost change no time: those tables are read once it serves.
func TestHiddenDamageIsFoundAfterTheStart(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			dir, _ := agedStore(t, killed)
			const table = "000001.sst"
			rot(t, dir, table)
			was := summary(t, filepath.Join(dir, files.DatabaseDir, table))
			if found, err := Examine(dir); err != nil || len(found) == 0 || !strings.HasSuffix(found[0].File, table) {
				t.Errorf("an examination of all files finds %v, %v", found, err)
			}
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
		})
	}
}
