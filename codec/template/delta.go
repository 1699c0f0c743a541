package template

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
)

// Delta is the template of frames that continue one text: they differ from an earlier frame only in their piece of it,
// and in nothing else that a decoder reads. Everything around the piece was validated and decoded with the frame from
// which the template was learned.
//
// A template is valid as long as the same bytes have the same meaning. A decoder forgets it when they no longer do.
type Delta struct {
	template Template
	name     []byte // the event field
	text     int    // index of the slot with the piece
	event    codec.Event
	spans    []codec.Span
	fits     bool // the newest frame matches the template
	wasted   int  // templates learned since the last match
}

// maxTemplates is the number of consecutive templates without a match after which no more are learned: with some hosts,
// every frame is different.
const maxTemplates = 8

// noise lists members that differ from frame to frame without a meaning for decoders: the padding that OpenAI adds to
// hide lengths, and the number of the event.
var noise = [...]struct {
	member []byte
	digits bool
}{
	{[]byte(`"sequence_number":`), true},
	{[]byte(`"obfuscation":"`), false},
}

// Learn replaces the template by that of a frame whose only event is ev, a piece of a text.
func (d *Delta) Learn(name, data []byte, ev *codec.Event) {
	d.Forget()
	at, ok := place(data, ev.Raw)
	if d.wasted == maxTemplates || !ok {
		return
	}
	d.wasted++
	slots := appendNoise(d.template.slots[:0], data, 0, at)
	d.text = len(slots)
	slots = append(slots, slot{from: at, to: at + len(ev.Raw)})
	d.template.slots = appendNoise(slots, data, at+len(ev.Raw), len(data))
	d.template.frame = append(d.template.frame[:0], data...)
	d.name = append(d.name[:0], name...)
	d.event = *ev
	d.event.Raw = nil
	d.fits = true
}

// place returns the offset of text in data if it is a view of a string there.
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
func appendNoise(dst []slot, data []byte, from, to int) []slot {
	for _, member := range &noise {
		i := bytes.Index(data[from:to], member.member)
		if i < 0 {
			continue
		}
		s := slot{from: from + i + len(member.member), digits: member.digits}
		n := s.length(data[s.from:to])
		if n < 0 {
			continue
		}
		s.to = s.from + n
		dst, from = append(dst, s), s.to
	}
	return dst
}

// Forget makes the template match nothing.
func (d *Delta) Forget() {
	d.template.Forget()
	d.fits = false
}

// Fits reports whether the newest frame has the template: it matched, or the template was learned from it.
func (d *Delta) Fits() bool { return d.fits }

// Emptied returns a template that matches nothing and reuses the memory of this one.
func (d *Delta) Emptied() Delta {
	return Delta{template: d.template.emptied(), name: d.name[:0], spans: d.spans[:0]}
}

// Match returns the event of a frame that matches the template, or nil. It is valid until the next call; its Raw is a
// view into data.
func (d *Delta) Match(name, data []byte) *codec.Event {
	d.fits = false
	spans, n, ok := d.template.Match(d.spans[:0], data)
	d.spans = spans
	if !ok || n != len(data) || !bytes.Equal(name, d.name) {
		return nil
	}
	for i, span := range spans {
		if !d.template.slots[i].valid(span.Of(data)) {
			return nil
		}
	}
	text := spans[d.text]
	if text.Start == text.End {
		return nil
	}
	d.fits, d.wasted = true, 0
	d.event.Raw = data[text.Start:text.End:text.End]
	return &d.event
}

// valid reports whether the content of a slot is certainly JSON.
func (s *slot) valid(b []byte) bool {
	if s.digits {
		return b[0] != '0' || len(b) == 1
	}
	return plainText(b)
}

// plainText reports whether a string body is UTF-8 and has only two-character escapes.
func plainText(b []byte) bool {
	if printable(b) {
		return true
	}
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

// printable reports whether b is only ASCII without control characters and backslashes, as most pieces of text. It looks
// at eight bytes at a time; the last ones overlap.
func printable(b []byte) bool {
	n := len(b)
	switch {
	case n >= 8:
		odd := notPrintable(binary.LittleEndian.Uint64(b[n-8:]))
		for ; len(b) > 8; b = b[8:] {
			odd |= notPrintable(binary.LittleEndian.Uint64(b))
		}
		return odd == 0
	case n >= 4:
		return notPrintable(uint64(binary.LittleEndian.Uint32(b))<<32|uint64(binary.LittleEndian.Uint32(b[n-4:]))) == 0
	}
	for _, c := range b {
		if c < 0x20 || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return true
}

// notPrintable returns 0 if none of the eight bytes is a control character, a backslash or beyond ASCII.
func notPrintable(w uint64) uint64 {
	const ones, highs, slashes, floor = 0x0101010101010101, 0x8080808080808080, 0x5c5c5c5c5c5c5c5c, 0x2020202020202020
	s := w ^ slashes
	return ((s-ones)&^s | (w-floor)&^w | w) & highs
}
