package files

import (
	"log/slog"
	"os"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// A compaction cuts the file of a table to nothing before it removes it: what is read of it in that moment is no damage.
func TestATableThatIsBeingRemovedIsNotDamaged(t *testing.T) {
	dir := t.TempDir()
	db, err := Lock(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Open(badger.DefaultOptions(db.path("")).WithLoggingLevel(badger.ERROR), 1, nil); err != nil {
		t.Fatal(err)
	}
	const removed = "999999.sst" // which the database does not list any more
	if err := os.WriteFile(db.path(removed), []byte("its first block"), 0o600); err != nil {
		t.Fatal(err)
	}
	db.tables.read(removed)
	if found := Damages(dir); len(found) > 0 {
		t.Errorf("it is taken for damage: %+v", found)
	}
	if err := db.Close(nil); err != nil {
		t.Fatal(err)
	}
	if err := db.Unlock(); err != nil {
		t.Fatal(err)
	}
}
