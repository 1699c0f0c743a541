package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// putLog puts an empty log of a memory table into a store, of so many bytes.
func putLog(t *testing.T, dir string, number int, size int64) {
	t.Helper()
	putEmpty(t, dir, fmt.Sprintf("%05d.mem", number), size)
}

// putEmpty puts a file of so many zeros into a store, which take no disk.
func putEmpty(t *testing.T, dir, name string, size int64) {
	t.Helper()
	path := filepath.Join(dir, files.DatabaseDir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// A memory table of an earlier version, whose log a kill left behind, does not fit into one of today's.
func TestAStoreOpensThatWasKilledWithTheMemoryTablesOfAnEarlierVersion(t *testing.T) {
	dir, _ := killedStore(t, 1)
	putLog(t, dir, 99, 2*formerMemTableSize)
	s := openStore(t, Options{Dir: dir})
	if size := s.db.Opts().MemTableSize; size != formerMemTableSize {
		t.Fatalf("with a log that an earlier version left, memory tables have %d bytes", size)
	}
	const records, value = 4 * memTableSize / 3 / valueThreshold, valueThreshold - 1
	for from := 0; from < records; from += 1000 {
		err := s.update(t.Context(), func(g *commitGroup, w *operation) error {
			for n := from; n < min(from+1000, records); n++ {
				g.put(w, kv.NameKey(kv.SpaceMeta, fmt.Sprintf("test-%08d", n)), make([]byte, value))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	killed := filepath.Join(t.TempDir(), "killed")
	copyStore(t, dir, killed)
	opened := openStore(t, Options{Dir: killed})
	found := 0
	err := kv.EachRecord(opened.db, kv.NameKey(kv.SpaceMeta, "test-"), func([]byte, []byte) error { found++; return nil })
	if err != nil || found != records {
		t.Errorf("%d records of %d are there, %v", found, records, err)
	}
}

func TestMemoryTablesAreAsLargeAsTheLogsThatAreLeft(t *testing.T) {
	for _, of := range []struct {
		logs []int64
		want int64
	}{
		{nil, memTableSize},
		{[]int64{2 * memTableSize, 2 * memTableSize}, memTableSize},
		{[]int64{2 * memTableSize, 2 * formerMemTableSize}, formerMemTableSize},
		{[]int64{8 << 20}, formerMemTableSize},   // of an earlier version on a small volume
		{[]int64{3_000_000}, formerMemTableSize}, // cut by a start that was killed, too
	} {
		dir := t.TempDir()
		for i, size := range of.logs {
			putLog(t, dir, i+1, size)
		}
		if size := memoryTableSize(dir); size != of.want {
			t.Errorf("with logs of %d bytes, memory tables have %d", of.logs, size)
		}
	}
}

// The number of maps of a process is limited, and each table is one.
func TestALargeTreeGetsLargerTables(t *testing.T) {
	const gigabyte = 1 << 30
	for _, of := range []struct{ tree, want int64 }{
		{0, 1 << 20},
		{16 * gigabyte, 1 << 20},
		{17 * gigabyte, 2 << 20},
		{60 * gigabyte, 4 << 20},
		{500 * gigabyte, 32 << 20},
	} {
		dir := t.TempDir()
		for i := range 4 {
			putEmpty(t, dir, fmt.Sprintf("%06d.sst", i+1), of.tree/4)
		}
		if size := tableSize(dir); size != of.want {
			t.Errorf("in a tree of %d bytes tables have %d, want %d", of.tree, size, of.want)
		}
	}
}
