// Package template recognises stream frames that differ from an earlier frame only in a few strings or numbers. What
// was learnt about the earlier frame holds for all of them, so only the differences are read, in a tenth of the time.
package template

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
)

// Template is a frame with slots: stretches in which other frames have something else. The zero value matches nothing.
type Template struct {
	frame []byte
	slots []slot // in order; without any, nothing matches
}

// A slot is a stretch of the frame that others have something else in.
type slot struct {
	from, to int
	digits   bool // digits, at least one; else the body of a string, without its quotes
}

// Match reports whether data begins with a frame of this template, and how long that is. It appends where the slots are in data.
func (t *Template) Match(dst []codec.Span, data []byte) (slots []codec.Span, n int, ok bool) {
	if len(t.slots) == 0 {
		return dst, 0, false
	}
	from, at, known := 0, 0, len(dst)
	for i := range t.slots {
		s := &t.slots[i]
		between := t.frame[from:s.from]
		if !bytes.HasPrefix(data[at:], between) {
			return dst[:known], 0, false
		}
		at += len(between)
		n := s.length(data[at:])
		if n < 0 {
			return dst[:known], 0, false
		}
		dst = append(dst, codec.Span{Start: at, End: at + n})
		at, from = at+n, s.to
	}
	rest := t.frame[from:]
	if !bytes.HasPrefix(data[at:], rest) {
		return dst[:known], 0, false
	}
	return dst, at + len(rest), true
}

// maxSlot is the longest string that a slot has, in bytes: where a quote is missing, the way to the next is not searched
// again and again.
const maxSlot = 16 << 10

// length is how much of b fills the slot, -1 if nothing can.
func (s *slot) length(b []byte) int {
	if s.digits {
		if n := digits(b); n > 0 {
			return n
		}
		return -1
	}
	n := stringEnd(b[:min(len(b), maxSlot)])
	if n > 0 && bytes.IndexByte(b[:n], '\n') >= 0 {
		return -1 // where the line ends, the string was cut
	}
	return n
}

// appendSlots appends where the slots are in the frame that the template was learned from.
func (t *Template) appendSlots(dst []codec.Span) []codec.Span {
	for _, s := range t.slots {
		dst = append(dst, codec.Span{Start: s.from, End: s.to})
	}
	return dst
}

// Forget leaves a template that matches nothing.
func (t *Template) Forget() { t.slots = t.slots[:0] }

// emptied is a template that matches nothing, with the memory of this one.
func (t *Template) emptied() Template { return Template{frame: t.frame[:0], slots: t.slots[:0]} }

// stringEnd is where the string body that b begins with has its closing quote, or -1.
func stringEnd(b []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return -1
		}
		end := from + i
		slashes := 0
		for slashes < end && b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end
		}
		from = end + 1
	}
}

// digits is how many digits b begins with.
func digits(b []byte) (n int) {
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c-'0' <= 9 }
