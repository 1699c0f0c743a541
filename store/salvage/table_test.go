package salvage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// newTable writes a table with so many entries, and returns its path.
func newTable(t *testing.T, entries int, compression options.CompressionType) string {
	t.Helper()
	dir := t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithCompression(compression).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewWriteBatch()
	for i := range entries {
		if err := b.Set(fmt.Appendf(nil, "key %06d", i), fmt.Appendf(nil, "value %d of a table, %x", i*i, i*7919)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("there are tables %v (%v)", tables, err)
	}
	return tables[0]
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[(at+len(data))%len(data)] ^= 0x10
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestBlocksAreReadWithoutAnIndex(t *testing.T) {
	const entries = 3000
	for _, compression := range []options.CompressionType{options.None, options.Snappy} {
		path := newTable(t, entries, compression)
		read := func() Table {
			table, err := ReadTable(path, func(*Entry) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			return table
		}
		whole := read()
		if !whole.Whole() || whole.Entries != entries || whole.Blocks < 10 {
			t.Fatalf("compression %d: the table is %+v", compression, whole)
		}
		flip(t, path, -20) // in the index, or its checksum
		if found := read(); found.Index == nil || found.Entries != entries {
			t.Errorf("compression %d: without its index the table is %+v", compression, found)
		}
		flip(t, path, 5000)
		if found := read(); found.Blocks != whole.Blocks-1 {
			t.Errorf("compression %d: %d of %d blocks can be read, and one is damaged", compression, found.Blocks, whole.Blocks)
		}
	}
}

func TestOnlyWantedBlocksAreRead(t *testing.T) {
	const entries = 3000
	path := newTable(t, entries, options.Snappy)
	read := func(from, to string) (keys []string, whole bool) {
		t.Helper()
		whole, err := ReadBlocks(path, func(first, next []byte) bool {
			return string(first) <= to && (next == nil || string(next) >= from)
		}, func(e *Entry) error {
			keys = append(keys, string(e.Key))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return keys, whole
	}
	keys, whole := read("key 001500", "key 001509")
	if !whole || len(keys) > entries/10 || !slices.Contains(keys, "key 001500") || !slices.Contains(keys, "key 001509") {
		t.Errorf("for ten of %d entries %d were read (%v)", entries, len(keys), whole)
	}
	if keys, whole := read("", "z"); !whole || len(keys) != entries {
		t.Errorf("%d of %d entries were read (%v)", len(keys), entries, whole)
	}
	flip(t, path, 100)
	if _, whole := read("", "key 000000"); whole {
		t.Error("a damaged block is taken for a whole one")
	}
	if keys, whole := read("key 002999", "z"); !whole || !slices.Contains(keys, "key 002999") {
		t.Errorf("damage of another block matters: %d entries were read (%v)", len(keys), whole)
	}
	flip(t, path, -20) // in the index, or its checksum
	if _, whole := read("key 002999", "z"); whole {
		t.Error("a damaged index is taken for a whole one")
	}
}
