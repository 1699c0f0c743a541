package template

import "github.com/mnemeproxy/mneme/codec/scan"

// Matcher is the template of the frames that make up most of a stream, found by comparing each frame with the previous
// one. It does not interpret frames: names, and the types of values, are the same in all that match.
type Matcher struct {
	Template
	wasted int // frames learned since the last match
}

// Streams in which every frame is different are no longer compared after maxWasted frames, and long frames, which are
// rare, are never kept.
const (
	maxWasted = 16
	maxSample = 4 << 10
)

// MaxSlots is the maximum number of slots of a matcher.
const MaxSlots = 16

// Emptied returns a matcher that has learned nothing and reuses the memory of this one.
func (r *Matcher) Emptied() Matcher { return Matcher{Template: r.emptied()} }

// Used notes that a frame has matched.
func (r *Matcher) Used() { r.wasted = 0 }

// worn reports whether nothing more will be learned.
func (r *Matcher) worn() bool { return r.wasted == maxWasted }

// Learn compares a frame that did not match with the one learned before, and replaces that one. It reports whether
// there is another template now.
func (r *Matcher) Learn(frame []byte) bool {
	if r.wasted == maxWasted || len(frame) > maxSample {
		return false
	}
	r.wasted++
	r.slots = differences(r.slots[:0], frame, r.frame)
	r.frame = append(r.frame[:0], frame...)
	return len(r.slots) > 0
}

// differences appends the strings and numbers of data that differ in sample, or nothing if the two differ elsewhere.
func differences(dst []slot, data, sample []byte) []slot {
	opened := -1 // start of the body of the string around i; -1 outside of strings
	i, j := 0, 0
	for i < len(data) {
		if j < len(sample) && data[i] == sample[j] {
			switch {
			case data[i] == '\\':
				i, j = i+1, j+1
				if i == len(data) || j == len(sample) || data[i] != sample[j] {
					return dst[:0] // the difference begins inside an escape; the next sample will do
				}
			case data[i] != '"':
			case opened < 0:
				opened = i + 1
			default:
				opened = -1
			}
			i, j = i+1, j+1
			continue
		}
		if opened < 0 {
			start := i // of the number, which may begin with the same digits
			for start > 0 && isDigit(data[start-1]) {
				start--
			}
			n, m := digits(data[i:]), digits(sample[j:])
			if max(n, m) == 0 || i+n == start || i+m == start { // they do not differ in a number
				return dst[:0]
			}
			dst = append(dst, slot{from: start, to: i + n, digits: true})
			i, j = i+n, j+m
			continue
		}
		n, m := stringEnd(data[i:]), stringEnd(sample[j:])
		if n < 0 || m < 0 || isName(data, i+n) {
			return dst[:0]
		}
		dst = append(dst, slot{from: opened, to: i + n})
		opened = -1
		i, j = i+n+1, j+m+1
	}
	if j != len(sample) || len(dst) > MaxSlots {
		return dst[:0]
	}
	return dst
}

// isName reports whether the string whose closing quote is at end is a member's name.
func isName(data []byte, end int) bool {
	next := scan.Space(data, end+1)
	return next < len(data) && data[next] == ':'
}
