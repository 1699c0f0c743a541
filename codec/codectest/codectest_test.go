package codectest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every fixture of every format says where it comes from, also one that no test plays yet.
func TestEveryFixtureHasAProvenance(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "*", "testdata", "*", "*.txt"))
	if err != nil || len(paths) < 100 {
		t.Fatalf("%d fixtures, %v", len(paths), err)
	}
	for _, path := range paths {
		recorded, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkProvenance(string(recorded)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAProvenanceNamesItsSource(t *testing.T) {
	for line, sound := range map[string]bool{
		"by hand after docs/wire/translation.md#p24":                   true,
		"by hand after docs/wire/messages.md":                          true,
		"simulated by bench/provider after docs/wire/translation.md":   true,
		"observed with Claude Code 2.1.197, 2026-10-01":                true,
		"documented at https://example.com/docs/streaming, 2026-10-01": true,
		"by hand": false,
		"by hand after docs/" + "wire/nowhere.md":     false,
		"by hand after docs/" + "wire/messages.md#p0": false,
		"observed with a client":                      false,
		"documented at https://example.com/docs/":     false,
	} {
		if err := checkProvenance("# a story\n# provenance: " + line + "\n> {}\n"); (err == nil) != sound {
			t.Errorf("%q: %v", line, err)
		}
	}
	if checkProvenance("# a story\n> {}\n") == nil {
		t.Error("no provenance at all is taken")
	}
}

// Events are written so that they can be read again.
func TestALineReadsAsItsEvent(t *testing.T) {
	for _, line := range []string{
		"start id=a model=m created=5 in=1 read=2 write=3 out=4 think=5", "open 0 call id=c name=f", "text 0 a b", "summary 1/2 s", "reasoning 1/0 r",
		"signature 0 c2ln", "arguments! 0 {}", "close 0", `close 0 chat {"a":1}`, "finish stop END", "usage in=1 read=0 write=0 out=2 think=0", "ping", "end eof",
	} {
		ev, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if got := Line(&ev); got != line && got != strings.Replace(line, " created=5", "", 1) {
			t.Errorf("%q is written as %q", line, got)
		}
	}
}
