package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// routine recognises the chunk that a stream is made of: the one that differs from the chunk before it inside of
// strings that are values, and nowhere else. What was looked up in one such chunk by the names and kinds of its members holds for all of
// them. A match takes a tenth of the time of looking it up again.
type routine struct {
	sample []byte // the newest chunk that was looked at
	holes  []hole // strings of sample that differ from chunk to chunk, in order; without any, nothing matches
	wasted int    // samples learned since the last match
}

// A hole is the body of a string in the sample, without its quotes.
type hole struct{ from, to int }

// Streams whose every chunk looks different are not compared any more after maxWasted samples, and long chunks, which
// are rare, are never kept.
const (
	maxWasted = 16
	maxSample = 4 << 10
)

func (r *routine) emptied() routine { return routine{sample: r.sample[:0], holes: r.holes[:0]} }

// match tells whether data differs from the sample in its holes only.
func (r *routine) match(data []byte) bool {
	if len(r.holes) == 0 {
		return false
	}
	from := 0
	for _, h := range r.holes {
		if !bytes.HasPrefix(data, r.sample[from:h.from]) {
			return false
		}
		data = data[h.from-from:]
		n := stringEnd(data)
		if n < 0 {
			return false
		}
		data, from = data[n:], h.to
	}
	if !bytes.Equal(data, r.sample[from:]) {
		return false
	}
	r.wasted = 0
	return true
}

// learn compares data, which did not match, with the sample, and takes its place.
func (r *routine) learn(data []byte) {
	if r.wasted == maxWasted || len(data) > maxSample {
		return
	}
	r.wasted++
	r.holes = differences(r.holes[:0], data, r.sample)
	r.sample = append(r.sample[:0], data...)
}

// differences appends the strings of data that are others in sample, or nothing when the two differ elsewhere.
func differences(dst []hole, data, sample []byte) []hole {
	opened := -1 // where the body of the string around i begins; -1 outside of strings
	j := 0
	for i := 0; i < len(data); i, j = i+1, j+1 {
		if j < len(sample) && data[i] == sample[j] {
			switch {
			case data[i] == '\\':
				i, j = i+1, j+1
				if i == len(data) || j == len(sample) || data[i] != sample[j] {
					return dst[:0] // begins to differ inside an escape; the next sample will do
				}
			case data[i] != '"':
			case opened < 0:
				opened = i + 1
			default:
				opened = -1
			}
			continue
		}
		if opened < 0 || j > len(sample) {
			return dst[:0]
		}
		n, m := stringEnd(data[i:]), stringEnd(sample[j:])
		if n < 0 || m < 0 || isName(data, i+n) {
			return dst[:0]
		}
		dst = append(dst, hole{opened, i + n})
		opened = -1
		i, j = i+n, j+m
	}
	if j != len(sample) {
		return dst[:0]
	}
	return dst
}

// isName tells whether the string whose closing quote stands at end is a member's name.
func isName(data []byte, end int) bool {
	next := scan.Space(data, end+1)
	return next < len(data) && data[next] == ':'
}

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
