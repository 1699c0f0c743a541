// Package templatetest checks that a decoder that uses templates returns the same events as one that does not.
package templatetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
)

// SameWithout tests that what was learned from one event never changes how another is read: of any sequence of events a
// decoder that forgets its template before each sees the same as one that keeps it. fresh makes a decoder, and gives the template
// that it keeps.
func SameWithout(t *testing.T, event *rapid.Generator[string], fresh func() (codec.StreamDecoder, *template.Delta)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		for range sequences {
			knowing, _ := fresh()
			plain, known := fresh()
			for _, data := range rapid.SliceOfN(event, 2, 40).Draw(t, "events") {
				known.Forget()
				want := lines(plain.Decode(nil, nil, []byte(data)))
				if diff := cmp.Diff(want, lines(knowing.Decode(nil, nil, []byte(data)))); diff != "" {
					t.Fatalf("%s\n(-without a template +with one):\n%s", data, diff)
				}
			}
		}
	})
}

// sequences is how many are tried at a time: few of the events come after one that they nearly fit, and a decoder that
// finds no such learns no further template.
const sequences = 100

// lines are events as text: those of two decoders are views into different memory.
func lines(events []codec.Event) (lines []string) {
	for i := range events {
		ev := &events[i]
		lines = append(lines, fmt.Sprintf("%d %d %d.%d %q %q %q %v %v %v", ev.Kind, ev.Type, ev.Item, ev.Sub, ev.Raw, ev.CallID, ev.Name, ev.Whole, ev.Summary, ev.Err))
	}
	return lines
}
