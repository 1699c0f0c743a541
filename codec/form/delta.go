package form

import (
	"bytes"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
)

// Delta is the form of the frames that go on with one text: they differ from a frame before them in their piece of it and
// in nothing else that a decoder reads. What stands around the piece was validated and read with the frame the form was
// learned from.
//
// A form holds as long as the same bytes mean the same. A decoder forgets it when they no longer do.
type Delta struct {
	form   Form
	name   []byte // the event field
	text   int    // which hole has the piece
	event  codec.Event
	spans  []codec.Span
	fits   bool // the newest frame has the form
	wasted int  // forms learned since the last frame that had one
}

// maxForms is after how many forms in a row that fitted no frame no further one is learned: some hosts put something
// else into every one.
const maxForms = 8

// noise are members that differ from frame to frame and say nothing: the padding that OpenAI adds to hide lengths, and
// the number of the event.
var noise = [...]struct {
	member []byte
	digits bool
}{
	{[]byte(`"sequence_number":`), true},
	{[]byte(`"obfuscation":"`), false},
}

// Learn takes the form of a frame whose only event, a piece of a text, is ev, in place of the form known before.
func (d *Delta) Learn(name, data []byte, ev *codec.Event) {
	d.Forget()
	at, ok := place(data, ev.Raw)
	if d.wasted == maxForms || !ok {
		return
	}
	d.wasted++
	holes := appendNoise(d.form.holes[:0], data, 0, at)
	d.text = len(holes)
	holes = append(holes, hole{from: at, to: at + len(ev.Raw)})
	d.form.holes = appendNoise(holes, data, at+len(ev.Raw), len(data))
	d.form.frame = append(d.form.frame[:0], data...)
	d.name = append(d.name[:0], name...)
	d.event = *ev
	d.event.Raw = nil
	d.fits = true
}

// place is where text stands in data between quotes, if it is a view of it.
func place(data, text []byte) (int, bool) {
	if len(text) == 0 {
		return 0, false
	}
	for at := 1; ; at++ {
		i := bytes.Index(data[at:], text)
		if i < 0 {
			return 0, false
		}
		at += i
		if &data[at] == &text[0] {
			end := at + len(text)
			return at, data[at-1] == '"' && end < len(data) && data[end] == '"'
		}
	}
}

// appendNoise appends the noise in data[from:to], where the members come in the order of the list in every known stream.
func appendNoise(dst []hole, data []byte, from, to int) []hole {
	for _, member := range &noise {
		i := bytes.Index(data[from:to], member.member)
		if i < 0 {
			continue
		}
		h := hole{from: from + i + len(member.member), digits: member.digits}
		n := h.length(data[h.from:to])
		if n < 0 {
			continue
		}
		h.to = h.from + n
		dst, from = append(dst, h), h.to
	}
	return dst
}

// Forget leaves a form that matches nothing.
func (d *Delta) Forget() {
	d.form.Forget()
	d.fits = false
}

// Fits reports whether the newest frame has the form: it matched, or the form was learned from it.
func (d *Delta) Fits() bool { return d.fits }

// Emptied is a form that matches nothing, with the memory of this one.
func (d *Delta) Emptied() Delta {
	return Delta{form: d.form.emptied(), name: d.name[:0], spans: d.spans[:0]}
}

// Match gives the event of a frame that has the form. Its Raw is a view into data.
func (d *Delta) Match(name, data []byte) (codec.Event, bool) {
	d.fits = false
	spans, n, ok := d.form.Match(d.spans[:0], data)
	d.spans = spans
	if !ok || n != len(data) || !bytes.Equal(name, d.name) {
		return codec.Event{}, false
	}
	for i, span := range spans {
		if !d.form.holes[i].valid(span.Of(data)) {
			return codec.Event{}, false
		}
	}
	text := spans[d.text]
	if text.Start == text.End {
		return codec.Event{}, false
	}
	d.fits, d.wasted = true, 0
	ev := d.event
	ev.Raw = data[text.Start:text.End:text.End]
	return ev, true
}

// valid reports whether what fills a hole is surely JSON.
func (h *hole) valid(b []byte) bool {
	if h.digits {
		return b[0] != '0' || len(b) == 1
	}
	return plainText(b)
}

// plainText reports whether a string body is UTF-8 and has no escapes but those of two letters.
func plainText(b []byte) bool {
	ascii := true
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c < 0x20:
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			i++
			if i == len(b) {
				return false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return false
			}
		}
	}
	return ascii || utf8.Valid(b)
}
