// Package template recognizes stream frames that differ from an earlier frame only in a few strings or numbers. What
// was learned about the earlier frame holds for all of them, so only the differences are read, in a tenth of the time.
package template

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/mnemeproxy/mneme/codec"
)

// Template is a frame with slots: ranges in which other frames differ. The zero value matches nothing.
type Template struct {
	frame []byte
	slots []slot // in order; without any, nothing matches
}

// slot is a range of the frame in which other frames differ.
type slot struct {
	from, to int
	digits   bool // one or more digits; otherwise the body of a string, without its quotes
}

// Match reports whether data begins with a frame of this template, and its length. It appends the positions of the
// slots in data.
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

// maxSlot is the longest string in a slot, in bytes. It prevents searching the same long way to the next quote again
// and again if one is missing.
const maxSlot = 16 << 10

// length returns how many bytes of b belong to the slot, -1 if b does not fit it.
func (s *slot) length(b []byte) int {
	if s.digits {
		if n := digits(b); n > 0 {
			return n
		}
		return -1
	}
	for at := 0; at+8 <= min(len(b), shortSlot); at += 8 {
		if ends := endings(binary.LittleEndian.Uint64(b[at:])); ends != 0 {
			if at += bits.TrailingZeros64(ends) / 8; b[at] == '"' {
				return at
			}
			break
		}
	}
	n := stringEnd(b[:min(len(b), maxSlot)])
	if n > 0 && bytes.IndexByte(b[:n], '\n') >= 0 {
		return -1 // the line ends inside the string
	}
	return n
}

// shortSlot is how many bytes of a string are looked at eight at a time. Most pieces of a stream are shorter and have no
// escapes.
const shortSlot = 64

// endings returns the highest bit of the first byte of w that is a quote, a backslash or a line feed; 0 if there is none.
// Bytes after it may have bits too.
func endings(w uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash, line := w^'"'*ones, w^'\\'*ones, w^'\n'*ones
	return ((quote-ones)&^quote | (slash-ones)&^slash | (line-ones)&^line) & highs
}

// appendSlots appends the positions of the slots in the frame from which the template was learned.
func (t *Template) appendSlots(dst []codec.Span) []codec.Span {
	for _, s := range t.slots {
		dst = append(dst, codec.Span{Start: s.from, End: s.to})
	}
	return dst
}

// Forget makes the template match nothing.
func (t *Template) Forget() { t.slots = t.slots[:0] }

// emptied returns a template that matches nothing and reuses the memory of this one.
func (t *Template) emptied() Template { return Template{frame: t.frame[:0], slots: t.slots[:0]} }

// stringEnd returns the offset of the closing quote of the string body at the start of b, or -1.
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

// digits returns the number of digits at the start of b.
func digits(b []byte) (n int) {
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

func isDigit(c byte) bool { return c-'0' <= 9 }
