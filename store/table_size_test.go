package store

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/files"
)

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
