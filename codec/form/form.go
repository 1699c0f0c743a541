// Package form recognises the frames that a stream is made of: those that differ from a frame before them in a few
// strings or numbers and nowhere else. What was learnt about one of them then holds for all, and only what differs
// is read, in a tenth of the time.
package form

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
)

// Form is a frame with holes. The zero value matches nothing.
type Form struct {
	frame []byte
	holes []hole // in order; without any, nothing matches
}

// A hole is a stretch of the frame that others have something else in.
type hole struct {
	from, to int
	digits   bool // digits, at least one; else the body of a string, without its quotes
}

// Match reports whether data begins with a frame of this form, and how long that is. It appends where the holes are in data.
func (f *Form) Match(dst []codec.Span, data []byte) (holes []codec.Span, n int, ok bool) {
	if len(f.holes) == 0 {
		return dst, 0, false
	}
	from, at, known := 0, 0, len(dst)
	for i := range f.holes {
		h := &f.holes[i]
		between := f.frame[from:h.from]
		if !bytes.HasPrefix(data[at:], between) {
			return dst[:known], 0, false
		}
		at += len(between)
		n := h.length(data[at:])
		if n < 0 {
			return dst[:known], 0, false
		}
		dst = append(dst, codec.Span{Start: at, End: at + n})
		at, from = at+n, h.to
	}
	rest := f.frame[from:]
	if !bytes.HasPrefix(data[at:], rest) {
		return dst[:known], 0, false
	}
	return dst, at + len(rest), true
}

// maxHole is the longest string that a hole has, in bytes: where a quote is missing, the way to the next is not searched
// again and again.
const maxHole = 16 << 10

// length is how much of b fills the hole, -1 if nothing can.
func (h *hole) length(b []byte) int {
	if h.digits {
		if n := digits(b); n > 0 {
			return n
		}
		return -1
	}
	n := stringEnd(b[:min(len(b), maxHole)])
	if n > 0 && bytes.IndexByte(b[:n], '\n') >= 0 {
		return -1 // where the line ends, the string was cut
	}
	return n
}

// appendHoles appends where the holes are in the frame that the form was learned from.
func (f *Form) appendHoles(dst []codec.Span) []codec.Span {
	for _, h := range f.holes {
		dst = append(dst, codec.Span{Start: h.from, End: h.to})
	}
	return dst
}

// Forget leaves a form that matches nothing.
func (f *Form) Forget() { f.holes = f.holes[:0] }

// emptied is a form that matches nothing, with the memory of this one.
func (f *Form) emptied() Form { return Form{frame: f.frame[:0], holes: f.holes[:0]} }

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
