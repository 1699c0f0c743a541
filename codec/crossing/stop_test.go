package crossing

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// A stop sequence is found as in the whole text, however the text is escaped and cut, and nothing of it is given out.
func TestStopSequencesAreFoundAcrossDeltas(t *testing.T) {
	letters := []rune("ab\n\"\\u0é😀")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom(letters), 0, 40, -1).Draw(t, "text")
		stops := rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom(letters), 1, 4, -1), 1, 3).Draw(t, "stops")
		want, found := text, ""
		at := len(text) + 1
		for _, stop := range stops {
			if i := strings.Index(text, stop); i >= 0 && i < at {
				at, want, found = i, text[:i], stop
			}
		}
		var s stopScanner
		for _, stop := range stops {
			s.stops = append(s.stops, scan.Escape(nil, []byte(stop)))
		}
		var out, matched []byte
		for _, piece := range cuts(t, escapeAs(rapid.IntRange(0, 1).Draw(t, "style"), text)) {
			if out, matched = s.pass(out, []byte(piece)); matched != nil {
				break
			}
		}
		if matched == nil {
			out = append(out, s.held...)
		}
		got := scan.Text(out)
		// Of two sequences that end at different places the one that begins first counts; which is complete first decides
		// between those that overlap.
		if (matched != nil) != (found != "") || matched == nil && got != want || matched != nil && !strings.HasPrefix(text, got+scan.Text(matched)) {
			t.Fatalf("%q with stops %q: got %q and %q, want %q and %q", text, stops, got, matched, want, found)
		}
		if len(stops) == 1 && got != want {
			t.Fatalf("%q with stop %q: got %q, want %q", text, stops, got, want)
		}
	})
}

func TestAStopSequenceIsNotFoundInsideAnEscape(t *testing.T) {
	s := stopScanner{stops: [][]byte{[]byte("n0"), []byte("001")}}
	out, matched := s.pass(nil, []byte(`a\n0\u0001`))
	if matched != nil {
		t.Errorf("found %q, gave %q", matched, out)
	}
}
