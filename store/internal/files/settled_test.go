package files

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

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
	must(t, db.NoteKey(nil))
	note()
	if n, err := readStopNote(db.dir); err != nil || len(n.Settled) == 0 {
		t.Errorf("after a note on the key nothing is settled: %+v, %v", n, err)
	}
}
