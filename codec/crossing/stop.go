package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// stopSequences emulates stop sequences if the target supports none, or too few, and drops those that it refuses
// (docs/wire/translation.md#2.2).
func (a *adaptation) stopSequences() error {
	kept := a.r.Stop[:0]
	for _, stop := range a.r.Stop {
		if len(stop) == 0 || !a.takes.BlankStops && scan.Blank(stop) {
			a.r.Notes.Drop(a.from.Members.Stop)
			continue
		}
		kept = append(kept, stop)
	}
	a.r.Stop = kept
	if len(kept) <= a.takes.Stops {
		return nil
	}
	for _, stop := range kept {
		a.back.stops = append(a.back.stops, scan.Escape(nil, scan.Unescape(nil, stop)))
	}
	a.r.Stop = a.r.Stop[:0]
	a.r.Notes.Emulate(a.from.Members.Stop)
	return nil
}

// stopScanner finds stop sequences in the text of an answer. It works on string bodies: the sequences are escaped in
// the shortest way, and so is text that arrives with other escapes. A possible beginning of a sequence is held back.
type stopScanner struct {
	stops [][]byte
	item  int32  // whose text was scanned last
	held  []byte // text held back: the beginning of some sequence
	plain []byte
}

// pass adds text and returns what may be sent, and the sequence that matched, if any. The result is valid until the
// next call.
func (s *stopScanner) pass(out, text []byte) (give, matched []byte) {
	if bytes.IndexByte(text, '\\') < 0 {
		s.held = append(s.held, text...)
	} else {
		s.plain = scan.Unescape(s.plain[:0], text)
		s.held = scan.Escape(s.held, s.plain)
	}
	at, match := -1, []byte(nil)
	for _, stop := range s.stops {
		if i := indexBody(s.held, stop); i >= 0 && (at < 0 || i < at) {
			at, match = i, stop
		}
	}
	if at >= 0 {
		out = append(out, s.held[:at]...)
		s.held = s.held[:0]
		return out, match
	}
	keep := 0
	for _, stop := range s.stops {
		keep = max(keep, overlap(s.held, stop))
	}
	out = append(out, s.held[:len(s.held)-keep]...)
	s.held = append(s.held[:0], s.held[len(s.held)-keep:]...)
	return out, nil
}

// indexBody returns the first place of stop in a string body that does not begin inside an escape.
func indexBody(body, stop []byte) int {
	for from := 0; ; {
		i := bytes.Index(body[from:], stop)
		if i < 0 {
			return -1
		}
		i += from
		if !insideEscape(body, i) {
			return i
		}
		from = i + 1
	}
}

// insideEscape reports whether the byte at i belongs to an escape that began before it.
func insideEscape(body []byte, i int) bool {
	for u := i - 1; u > 0 && u >= i-4; u-- {
		if body[u] == 'u' && endsInBackslash(body[:u]) {
			return true
		}
	}
	return endsInBackslash(body[:i])
}

// endsInBackslash reports whether a string body ends with a backslash that begins an escape.
func endsInBackslash(body []byte) bool {
	n := 0
	for n < len(body) && body[len(body)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// overlap returns the length of the longest suffix of body that is a prefix of stop.
func overlap(body, stop []byte) int {
	for n := min(len(stop)-1, len(body)); n > 0; n-- {
		if bytes.HasSuffix(body, stop[:n]) && !insideEscape(body, len(body)-n) {
			return n
		}
	}
	return 0
}
