package template

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

// someFrame draws frames that are often alike.
func someFrame(t *rapid.T) []byte {
	text := rapid.SampledFrom([]string{``, `a`, `b c`, `\"`, `\\`, `\n`, `\u00e9`, `a long text`, `日`, `\`, "\n"})
	number := rapid.SampledFrom([]string{`0`, `1`, `19`, `20`, `200`, `-1`, `1.5`, `null`, ``})
	return []byte(rapid.SampledFrom([]string{"data: ", "data: ", "event: x\ndata: "}).Draw(t, "start") +
		`{"sequence_number":` + number.Draw(t, "number") + `,"delta":"` + text.Draw(t, "text") + `","obfuscation":"` + text.Draw(t, "padding") + `"}` + "\n\n")
}

// A frame that matches a template differs from the one that it was learned from only in the slots.
func TestMatchingFramesDifferOnlyInTheSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Matcher
		var learned []byte
		for _, frame := range rapid.SliceOfN(rapid.Custom(someFrame), 2, 16).Draw(t, "frames") {
			behind := rapid.SampledFrom([]string{"", "data: next"}).Draw(t, "behind")
			slots, n, ok := r.Match(nil, append(bytes.Clone(frame), behind...))
			if !ok {
				r.Learn(frame)
				learned = frame
				continue
			}
			r.Used()
			if n != len(frame) {
				t.Fatalf("%d bytes match of %q", n, frame)
			}
			var joined []byte
			from := 0
			for i, slot := range r.appendSlots(nil) {
				joined = append(append(joined, learned[from:slot.Start]...), slots[i].Of(frame)...)
				from = slot.End
			}
			if joined = append(joined, learned[from:]...); !bytes.Equal(joined, frame) {
				t.Fatalf("%q became %q", frame, joined)
			}
		}
	})
}

func TestFramesThatRepeatAreRecognized(t *testing.T) {
	var r Matcher
	matched := 0
	for i := range 100 {
		data := fmt.Appendf(nil, `{"id":"c","number":%d,"delta":{"content":"word %d"},"obfuscation":"%s"}`, i, i*i, strings.Repeat("x", i%7))
		if _, n, ok := r.Match(nil, data); ok && n == len(data) {
			matched++
			r.Used()
		} else {
			r.Learn(data)
		}
	}
	if matched < 95 {
		t.Errorf("%d of 100 frames of one template were recognized", matched)
	}
}

func TestLearningStopsIfNoTwoFramesAreAlike(t *testing.T) {
	var r Matcher
	learned := 0
	for i := range 100 {
		data := fmt.Appendf(nil, `{"name %d":1}`, i)
		if r.Learn(data); bytes.Equal(r.frame, data) {
			learned++
		}
	}
	if learned > maxWasted {
		t.Errorf("%d frames were kept", learned)
	}
}

// A delta's template matches frames that differ only in text, number and padding.
func TestDeltasAreRecognizedWhateverTheirNoise(t *testing.T) {
	frame := func(number int, text, padding string) []byte {
		return fmt.Appendf(nil, `{"type":"delta","sequence_number":%d,"item_id":"m","delta":"%s","obfuscation":"%s"}`, number, text, padding)
	}
	first := frame(9, "once", "x")
	at := bytes.Index(first, []byte("once"))
	var d Delta
	d.Learn([]byte("delta"), first, &codec.Event{Kind: codec.EventReasoning, Item: 3, Sub: 1, Summary: true, Raw: first[at : at+4]})
	next := frame(10, `upon a \"time`, "pad")
	ev := d.Match([]byte("delta"), next)
	if ev == nil || string(ev.Raw) != `upon a \"time` || ev.Kind != codec.EventReasoning || ev.Item != 3 || ev.Sub != 1 || !ev.Summary {
		t.Fatalf("%+v", ev)
	}
	for _, other := range [][]byte{
		frame(10, "", "pad"), frame(10, `\u00e9`, ""), frame(10, "\xff", ""), frame(10, "a\x01", ""), frame(10, "a", `\x`),
		[]byte(strings.Replace(string(next), "10", "010", 1)), []byte(strings.Replace(string(next), `"m"`, `"n"`, 1)), next[:len(next)-1],
	} {
		if d.Match([]byte("delta"), other) != nil {
			t.Errorf("%s matched the template", other)
		}
	}
	if d.Match([]byte("another"), next) != nil {
		t.Error("an event with another name matched the template")
	}
	d.Forget()
	if d.Match([]byte("delta"), next) != nil {
		t.Error("a forgotten template matched")
	}
}

// Text is judged eight bytes at a time as it is byte by byte.
func TestPrintableTextIsPlainWhereverItIsCut(t *testing.T) {
	char := rapid.OneOf(rapid.SampledFrom([]byte("aZ ~!")), rapid.SampledFrom([]byte("aZ ~!")), rapid.SampledFrom([]byte("aZ ~!")), rapid.SampledFrom([]byte("\\\x00\x1f\x20\x7f\x80\xff[]")))
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(char, 0, 40).Draw(t, "text")
		want := bytes.IndexFunc(text, func(r rune) bool { return r < 0x20 || r == '\\' || r >= 0x80 }) < 0
		if got := printable(text); got != want {
			t.Fatalf("%q is printable: %v", text, got)
		}
	})
}

// Short strings are looked at eight bytes at a time, long ones and those with escapes by their quotes.
func TestAStringEndsWhereItsQuoteIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SampledFrom([]string{"a", "word ", "日", `\"`, `\\`, `\n`, strings.Repeat("x", 8), strings.Repeat("y", 61)})
		body := strings.Join(rapid.SliceOfN(pieces, 0, 12).Draw(t, "body"), "")
		behind := rapid.SampledFrom([]string{"", `,"more":"x"`, strings.Repeat(" ", 9)}).Draw(t, "behind")
		s := new(slot)
		if n := s.length([]byte(body + `"` + behind)); n != len(body) {
			t.Errorf("%q is said to have %d bytes", body, n)
		}
		if n := s.length([]byte(body + "\n" + behind + `"`)); n != -1 {
			t.Errorf("a line that ends after %q is said to be a string of %d bytes", body, n)
		}
	})
}
