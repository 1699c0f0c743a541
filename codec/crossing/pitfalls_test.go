package crossing_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// pitfallEntry is how an entry of the list of pitfalls begins (docs/wire/translation.md#6).
var pitfallEntry = regexp.MustCompile(`(?m)^- <a id="p([0-9]+)"></a>`)

// heldElsewhere are those whose tests do not bear the number, and where they are.
var heldElsewhere = map[int]string{
	104: "server: a client that leaves ends the provider's call in every phase",
}

var pitfallName = regexp.MustCompile(`\bP([0-9]{1,3})\b`)

// TestEveryPitfallIsNamed looks for the number of each pitfall in the tests of the whole tree: in their code, and in the
// stories beside it.
func TestEveryPitfallIsNamed(t *testing.T) {
	root := filepath.Join("..", "..")
	named := make(map[int]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "data") {
				return fs.SkipDir
			}
			return nil
		}
		story := strings.Contains(path, "testdata") && strings.HasPrefix(filepath.Ext(path), ".txt")
		if !strings.HasSuffix(path, "_test.go") && !story || strings.HasSuffix(path, "pitfalls_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, match := range pitfallName.FindAllSubmatch(text, -1) {
			number, _ := strconv.Atoi(string(match[1]))
			named[number] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "wire", "translation.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range pitfallEntry.FindAllSubmatch(page, -1) {
		number, _ := strconv.Atoi(string(entry[1]))
		switch where, elsewhere := heldElsewhere[number]; {
		case elsewhere && named[number]:
			t.Errorf("P%d is named by a test now; take it from the list", number)
		case elsewhere:
			t.Logf("P%d: %s", number, where)
		case !named[number]:
			t.Errorf("no test names P%d", number)
		}
	}
}
