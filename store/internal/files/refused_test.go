package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// closedThrice makes a closed database whose value logs have records, except for the last one. It returns the values.
func closedThrice(t *testing.T) (dir string, values map[string][]byte) {
	t.Helper()
	dir = t.TempDir()
	values = make(map[string][]byte)
	for round := range 3 {
		db := openIn(t, dir)
		for n := range 5 * (2 - round) {
			key, value := fmt.Sprintf("%d %d", round, n), make([]byte, 2<<10)
			value[n] = byte(1 + round)
			must(t, db.Update(func(tx *badger.Txn) error { return tx.Set([]byte(key), value) }))
			values[key] = value
		}
		closeAndUnlock(t, db)
	}
	return dir, values
}

// A program that does not know the format opens the database before it refuses the store, and closes it or is killed.
func TestTracesOfAProgramThatRefusedTheStoreAreNoDamage(t *testing.T) {
	refused := func(t *testing.T, dir string) {
		t.Helper()
		db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, DatabaseDir)).WithLogger(nil).WithValueLogFileSize(2 << 20))
		must(t, err)
		must(t, db.Close())
	}
	for name, leave := range map[string]func(t *testing.T, dir string){
		"opened once":  refused,
		"opened often": func(t *testing.T, dir string) { refused(t, dir); refused(t, dir); refused(t, dir) },
		"killed": func(t *testing.T, dir string) {
			other := t.TempDir()
			must(t, os.CopyFS(other, os.DirFS(dir)))
			db, err := badger.Open(badger.DefaultOptions(filepath.Join(other, DatabaseDir)).WithLogger(nil).WithMemTableSize(1 << 20).WithValueThreshold(1 << 10).WithValueLogFileSize(2 << 20))
			must(t, err)
			must(t, os.RemoveAll(filepath.Join(dir, DatabaseDir)))
			must(t, os.CopyFS(filepath.Join(dir, DatabaseDir), os.DirFS(filepath.Join(other, DatabaseDir))))
			must(t, db.Close())
		},
		"a log with a header added": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, DatabaseDir, "000009.vlog"), make([]byte, salvage.HeaderSize), 0o600))
		},
		"the log with a header removed": func(t *testing.T, dir string) {
			must(t, os.Remove(filepath.Join(dir, DatabaseDir, "000003.vlog")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, values := closedThrice(t)
			if info, err := os.Stat(filepath.Join(dir, DatabaseDir, "000003.vlog")); err != nil || info.Size() != salvage.HeaderSize {
				t.Fatalf("the last log is %v, %v", info, err)
			}
			leave(t, dir)
			db := openIn(t, dir)
			defer closeAndUnlock(t, db)
			mustHold(t, db, values)
			must(t, db.Check(t.Context(), func(d Damage) { t.Errorf("the check finds %+v", d) }))
		})
	}
}

func TestALogWithDataThatComesOrGoesIsRefused(t *testing.T) {
	for name, harm := range map[string]func(dir string) error{
		"added": func(dir string) error {
			return copyFile(filepath.Join(dir, "000001.vlog"), filepath.Join(dir, "000009.vlog"))
		},
		"removed": func(dir string) error { return os.Remove(filepath.Join(dir, "000001.vlog")) },
		"foreign": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "000009.vlog"), append(make([]byte, salvage.HeaderSize), "foreign bytes, more than a record"...), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := closedThrice(t)
			must(t, harm(filepath.Join(dir, DatabaseDir)))
			if s, err := examine(dir, atStart); err != nil || len(s.Fatal) == 0 {
				t.Errorf("it is not refused: %v", err)
			}
		})
	}
}

func TestTheFormatIsNotedWhileTheStoreIsOpenAndOnceItIsClosed(t *testing.T) {
	dir, _ := closedWith(t, "a")
	if f := NotedFormat(dir); f != 1 {
		t.Errorf("a closed store has format %d", f)
	}
	db := openIn(t, dir)
	defer closeAndUnlock(t, db)
	must(t, db.NoteKey(nil))
	must(t, db.NoteSettled())
	if f := NotedFormat(dir); f != 1 {
		t.Errorf("a store in use has format %d", f)
	}
	if f := NotedFormat(t.TempDir()); f != 0 {
		t.Errorf("a directory without a store has format %d", f)
	}
}
