package store

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
)

// The note of the last stop has the format, so an older program refuses the store before its database leaves anything behind.
func TestAStoreOfANewerFormatIsRefusedUnchanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	capture(t, s, "acme", "question", "answer")
	var backup bytes.Buffer
	if _, err := s.Upkeep().Backup(t.Context(), &backup, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "stop.json")
	note, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := bytes.Cut(note, []byte("\n"))
	text = bytes.Replace(text, fmt.Appendf(nil, `"format":%d`, formatVersion), fmt.Appendf(nil, `"format":%d`, formatVersion+1), 1)
	sum := blake3.Sum256(text)
	if err := os.WriteFile(path, fmt.Appendf(text, "\n%s\n", hex.EncodeToString(sum[:16])), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	want := fmt.Sprintf("newer version of mneme (format %d, this one reads up to %d): upgrade", formatVersion+1, formatVersion)
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the store opens with %v", err)
	}
	if _, err := Restore(t.Context(), Options{Dir: dir}, &backup, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a backup is restored into it with %v", err)
	}
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("the store was refused, and has changed")
	}
}
