// Package codectest runs the fixture tests of the formats: testdata/FOLDER/NAME.txt holds input and output, line by
// line, in one notation for all formats.
//
//	# what the fixture is about
//	# provenance: by hand after docs/wire/translation.md#p24
//	> input: a frame of a stream, a body, or an event
//	= meaning: an event as [Line] writes it, or a word about a request
//	< output
//
// A frame is written as its data; "@name" before it names its event. "EOF", "BROKEN" and "CANCELLED" end a stream; the
// rest of it follows them.
package codectest

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

var update = flag.Bool("update", false, "rewrite the fixtures in testdata")

// Each runs a test for every fixture of a folder. tell gets what was recorded and rewrites it, from what goes in by the
// record. The test fails when the two differ; with -update the new one becomes the record.
func Each(t *testing.T, folder string, tell func(t *testing.T, recorded string) string) {
	t.Helper()
	all := All(t, folder)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			recorded := all[name]
			if err := checkProvenance(recorded); err != nil {
				t.Error(err)
			}
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

// All are the fixtures of a folder by their names, of which there has to be one at least.
func All(t testing.TB, folder string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures in testdata/%s: %v", folder, err)
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

// provenance says where the input of a fixture comes from: it was observed with a client or provider of some version, is
// an example of a vendor's page, or was made after what docs/wire says, by hand or by the simulated provider.
var provenance = regexp.MustCompile(`(?m)^# provenance: (observed with \S.* \d\S*, \d{4}-\d{2}-\d{2}|documented at https://\S+, \d{4}-\d{2}-\d{2}|(?:by hand|simulated by bench/provider) after (docs/wire/[a-z-]+\.md)(?:#([a-z0-9.-]+))?)$`)

// checkProvenance refuses a fixture that does not say where it comes from, or names a page or a rule that is not there.
func checkProvenance(recorded string) error {
	said := provenance.FindStringSubmatch(recorded)
	if said == nil {
		return fmt.Errorf("no line says where this comes from: %s", `"# provenance: by hand after docs/wire/PAGE.md#RULE", "# provenance: documented at https://…, DATE" or "# provenance: observed with CLIENT VERSION, DATE"`)
	}
	page, rule := said[2], said[3]
	if page == "" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(page)))
	if err != nil {
		return err
	}
	if rule != "" && !strings.Contains(string(text), `id="`+rule+`"`) {
		return fmt.Errorf("%s has no rule %s", page, rule)
	}
	return nil
}

// Inputs are the lines of a fixture that go in.
func Inputs(recorded string) []string {
	var lines []string
	for line := range strings.Lines(recorded) {
		if in, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "> "); found {
			lines = append(lines, in)
		}
	}
	return lines
}

// Script writes a fixture.
type Script struct{ strings.Builder }

// Means writes what the input means.
func (s *Script) Means(format string, args ...any) { s.lines("= ", fmt.Sprintf(format, args...)) }

// Says writes what comes out, without its empty lines.
func (s *Script) Says(text string) { s.lines("< ", text) }

func (s *Script) lines(sign, text string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			s.WriteString(strings.TrimRight(sign+line, " ") + "\n")
		}
	}
}

// Replay rewrites a fixture: step says what each input means and what comes of it.
func Replay(recorded string, step func(in string, s *Script)) string {
	var s Script
	for line := range strings.Lines(recorded) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			s.WriteString(line + "\n")
		}
		if in, found := strings.CutPrefix(line, "> "); found {
			s.WriteString(line + "\n")
			step(in, &s)
		}
	}
	return s.String()
}

// ReplayWhole is [Replay] for an input of several lines.
func ReplayWhole(recorded string, step func(in string, s *Script)) string {
	told := Replay(recorded, func(string, *Script) {})
	var s Script
	s.WriteString(told)
	step(strings.Join(Inputs(recorded), "\n"), &s)
	return s.String()
}

// Decode returns the events of an input that is a frame, or the end of a stream.
func Decode(d codec.StreamDecoder, in string) []codec.Event {
	word, rest, _ := strings.Cut(in, " ")
	switch word {
	case "EOF":
		return d.Finish(nil, codec.EndEOF, []byte(rest))
	case "BROKEN":
		return d.Finish(nil, codec.EndBroken, []byte(rest))
	case "CANCELLED":
		return d.Finish(nil, codec.EndCancelled, []byte(rest))
	}
	if name, named := strings.CutPrefix(word, "@"); named {
		return d.Decode(nil, []byte(name), []byte(rest))
	}
	return d.Decode(nil, nil, []byte(in))
}
