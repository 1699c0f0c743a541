// Package templatetest checks that a decoder that uses templates returns the same events as one that does not.
package templatetest

import (
	"bytes"
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
		var want, got []byte
		for range sequences {
			knowing, _ := fresh()
			plain, known := fresh()
			for _, data := range rapid.SliceOfN(event, 2, 40).Draw(t, "events") {
				known.Forget()
				want = appendLines(want[:0], plain.Decode(nil, nil, []byte(data)))
				got = appendLines(got[:0], knowing.Decode(nil, nil, []byte(data)))
				if !bytes.Equal(want, got) { // a difference is looked for only if there is one
					t.Fatalf("%s\n(-without a template +with one):\n%s", data, cmp.Diff(string(want), string(got)))
				}
			}
		}
	})
}

// sequences is how many are tried at a time: few of the events come after one that they nearly fit, and a decoder that
// finds no such learns no further template.
const sequences = 100

// appendLines appends events as text: those of two decoders are views into different memory.
func appendLines(to []byte, events []codec.Event) []byte {
	for i := range events {
		ev := &events[i]
		to = fmt.Appendf(to, "%d %d %d.%d %q %q %q %v %v\n", ev.Kind, ev.Type, ev.Item, ev.Sub, ev.Raw, ev.CallID, ev.Name, ev.Whole, ev.Summary)
		if ev.Err != nil { // package fmt recovers from a panic to print a nil one
			to = fmt.Appendln(to, ev.Err)
		}
	}
	return to
}
