package files

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// mostlyDead opens a database with value logs of which most values were deleted. It returns those that were not.
func mostlyDead(t *testing.T, dir string) (db *Database, values map[string][]byte) {
	t.Helper()
	values = make(map[string][]byte)
	for round := range 6 {
		db := openIn(t, dir)
		for n := range 50 {
			key := fmt.Sprintf("k %04d", round*50+n)
			value := bytes.Repeat(fmt.Appendf(nil, "value of %s. ", key), 250)
			must(t, db.Update(func(tx *badger.Txn) error { return tx.Set([]byte(key), value) }))
			values[key] = value
		}
		closeAndUnlock(t, db)
	}
	db = openIn(t, dir)
	for n := range 300 {
		if key := fmt.Sprintf("k %04d", n); n%3 > 0 {
			must(t, db.Update(func(tx *badger.Txn) error { return tx.Delete([]byte(key)) }))
			delete(values, key)
		}
	}
	closeAndUnlock(t, db)
	db = openIn(t, dir)
	must(t, db.Flatten(2))
	return db, values
}

// erasing deletes keys as the store does.
func erasing(t *testing.T, db *Database) func(keys [][]byte) error {
	return func(keys [][]byte) error {
		t.Helper()
		return db.Update(func(tx *badger.Txn) error {
			for _, key := range keys {
				if _, err := tx.Get(key); errors.Is(err, badger.ErrKeyNotFound) {
					must(t, tx.Delete(key))
				}
			}
			return nil
		})
	}
}

// killedAfterRewriting makes such a database whose value logs were rewritten, as a kill leaves it.
func killedAfterRewriting(t *testing.T) (dir string, values map[string][]byte) {
	t.Helper()
	dir = t.TempDir()
	db, values := mostlyDead(t, dir)
	rewritten := 0
	for ; ; rewritten++ {
		if err := db.RunValueLogGC(t.Context(), 0.05, erasing(t, db)); errors.Is(err, badger.ErrNoRewrite) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if rewritten < 3 {
		t.Fatalf("%d logs were rewritten", rewritten)
	}
	killed := t.TempDir()
	must(t, os.CopyFS(killed, os.DirFS(dir)))
	closeAndUnlock(t, db)
	return killed, values
}

func mustHold(t *testing.T, db *Database, values map[string][]byte) {
	t.Helper()
	must(t, db.View(func(tx *badger.Txn) error {
		for key, value := range values {
			item, err := tx.Get([]byte(key))
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if got, err := item.ValueCopy(nil); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%s is %.40q, %v", key, got, err)
			}
		}
		return nil
	}))
}

func TestAValueThatWasMovedToAnotherLogBeforeAKillIsNotCalledLost(t *testing.T) {
	dir, values := killedAfterRewriting(t)
	db := openIn(t, dir)
	defer closeAndUnlock(t, db)
	mustHold(t, db, values)
	if found := Damages(dir); len(found) > 0 {
		t.Errorf("nothing is lost, and %d damages are noted: %+v", len(found), found[0])
	}
	must(t, db.Check(t.Context(), func(d Damage) { t.Errorf("the check finds %+v", d) }))
}

// The log that the moved values are in is damaged. Each lost value is counted once, for the log that it was in last.
func TestAMovedValueThatIsLostIsNamedOnceWithItsLog(t *testing.T) {
	dir, values := killedAfterRewriting(t)
	logs, err := filepath.Glob(filepath.Join(dir, DatabaseDir, "*.vlog"))
	must(t, err)
	last := logs[len(logs)-1]
	content, err := os.ReadFile(last)
	must(t, err)
	key := "k 0003"
	at := bytes.Index(content, values[key])
	if at < 0 {
		t.Fatalf("%s was not moved to %s", key, last)
	}
	content[at+100] ^= 1
	must(t, os.WriteFile(last, content, 0o600))
	db := openIn(t, dir)
	defer closeAndUnlock(t, db)
	delete(values, key)
	mustHold(t, db, values)
	found := Damages(dir)
	if len(found) != 1 || found[0].File != filepath.Join(DatabaseDir, filepath.Base(last)) || len(found[0].Lost) != 1 {
		t.Errorf("noted are %+v", found)
	}
}

// The file of counts has room for tens of thousands of logs, of which hardly any exist.
func TestOnlyLogsThatExistAreConsideredForRewriting(t *testing.T) {
	db := openIn(t, t.TempDir())
	defer closeAndUnlock(t, db)
	if n := testing.AllocsPerRun(3, func() { db.SoundToRewrite(0.5) }); n > 100 {
		t.Errorf("%v allocations for the only value log", n)
	}
}

func TestARewrittenLogIsThereUntilWhatWasMovedIsOnDisk(t *testing.T) {
	dir := t.TempDir()
	db, values := mostlyDead(t, dir)
	defer closeAndUnlock(t, db)
	logs := func() int {
		names, err := filepath.Glob(filepath.Join(dir, DatabaseDir, "*.vlog"))
		must(t, err)
		return len(names)
	}
	before, during := logs(), 0
	must(t, db.rewriteLog(t.Context(), 0.05, erasing(t, db), func() error {
		during = logs()
		return db.Sync()
	}))
	if after := logs(); during != before || after != before-1 {
		t.Errorf("of %d logs there are %d before what was moved is synced, and %d after", before, during, after)
	}
	mustHold(t, db, values)
}

// A rewrite moves what it finds in a log, also the former value of a key that was deleted. Once the mark of the deletion is
// merged with what was there before, nothing hides what was moved.
func TestWhatWasDeletedBeforeARewriteStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	db, values := mostlyDead(t, dir)
	deleted := slices.Sorted(maps.Keys(values))[:40]
	for _, key := range deleted {
		must(t, db.Update(func(tx *badger.Txn) error { return tx.Delete([]byte(key)) }))
		delete(values, key)
	}
	closeAndUnlock(t, db) // the deletions are in a table of their own
	db = openIn(t, dir)
	for {
		if err := db.RunValueLogGC(t.Context(), 0.05, erasing(t, db)); errors.Is(err, badger.ErrNoRewrite) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	must(t, db.Flatten(2))
	defer closeAndUnlock(t, db)
	mustHold(t, db, values)
	must(t, db.View(func(tx *badger.Txn) error {
		for _, key := range deleted {
			if item, err := tx.Get([]byte(key)); !errors.Is(err, badger.ErrKeyNotFound) {
				t.Errorf("%s is back, at version %d (%v)", key, item.Version(), err)
			}
		}
		return nil
	}))
}
