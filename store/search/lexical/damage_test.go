package lexical

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The list of segments is read with the directories of those that have removed documents. Whatever bit of a directory is
// wrong, the segment is named, not the list.
func TestADamagedDirectoryOfASegmentIsNamed(t *testing.T) {
	dir := t.TempDir()
	ix := openIndex(t, dir)
	documents := make([]Document, 3)
	for i := range documents {
		documents[i] = Document{Account: 1, ID: fmt.Sprintf("d%d", i), Text: "where is the lock", Group: "g"}
	}
	applyToDisk(t, ix, documents)
	applyToDisk(t, ix, nil, Key{1, "d1"})
	ix.Close()
	list, err := os.ReadFile(filepath.Join(dir, listFile))
	if err != nil || !bytes.Contains(list, []byte("\ngone 1 ")) {
		t.Fatalf("no document is listed as removed: %q, %v", list, err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"+segmentExtension))
	if err != nil || len(paths) != 1 {
		t.Fatalf("there are segments %q, %v", paths, err)
	}
	whole, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := len(whole) - footerSize - recordSize; at < len(whole); at++ {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[at] ^= 1 << bit
			if err := os.WriteFile(paths[0], damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			var found []Damage
			if err := Examine(t.Context(), dir, func(d Damage) { found = append(found, d) }); err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].File != paths[0] {
				t.Errorf("with another bit %d of byte %d of %d examining finds %v", bit, at, len(whole), found)
			}
		}
	}
}
