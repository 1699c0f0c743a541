// Package transcript runs tests from files: testdata/<folder>/<name>.txt holds what goes in and what comes out, in the
// notation of the package that is tested.
package transcript

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Each runs a test for every transcript of a folder. tell gets a recorded transcript and rewrites it, from
// what goes in by the record. The test fails when the two differ; with -update the new one becomes the record.
func Each(t *testing.T, folder string, tell func(t *testing.T, recorded string) string) {
	t.Helper()
	all := All(t, folder)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			recorded := all[name]
			told := tell(t, recorded)
			if !*update {
				if diff := cmp.Diff(recorded, told); diff != "" {
					t.Errorf("(-recorded +told):\n%s", diff)
				}
				return
			}
			if err := os.WriteFile(filepath.Join("testdata", folder, name+".txt"), []byte(told), 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// All are the transcripts of a folder by their names, of which there has to be one at least.
func All(t testing.TB, folder string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts in testdata/%s: %v", folder, err)
	}
	all := make(map[string]string, len(paths))
	for _, path := range paths {
		recorded, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".txt")] = string(recorded)
	}
	return all
}

// Inputs are the lines of a transcript that begin with "> ", without that: what goes in, in most notations.
func Inputs(recorded string) []string {
	var lines []string
	for line := range strings.Lines(recorded) {
		if in, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> "); found {
			lines = append(lines, in)
		}
	}
	return lines
}
