package redact

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
)

// MaskFresh is Mask for an event stream in which everything outside the fresh ranges repeats one of them. Fresh ranges
// are bodies of strings, numbers, and whole events; they are in order.
//
// That suffices for the built-in shapes: none of them spans two strings, except for the name before a secret. An
// operator's own patterns are matched everywhere.
func (r *Redactor) MaskFresh(text []byte, fresh []codec.Span) (found []Match) {
	if len(r.patterns) > 0 {
		return r.Mask(text)
	}
	var names plainNames
	for _, span := range fresh {
		start := span.Start
		if span.End-start < shortestSecret {
			continue
		}
		if name := names.before(text[:start]); name != nil && isPlainPiece(span.Of(text)) {
			if len(r.findValues(found[:0], text[start-len(name):span.End])) == 0 {
				continue
			}
		}
		start = beforeName(text, start)
		if announcesNothing(text, start, span.Start) {
			names.add(text[start-1 : span.Start])
		}
		if found = r.find(found[:0], text[start:span.End], inJSON); len(found) > 0 {
			return r.Mask(text) // repetitions have to be masked in every place
		}
	}
	return nil
}

// plainNames are the last names that announce no secret, with their quotes and signs. There are two of them because each
// event of a stream may have padding besides its text.
type plainNames struct {
	names [2][]byte
	next  int // the older one
}

// before returns the one at the end of text; nil if it is none of them.
func (n *plainNames) before(text []byte) []byte {
	for _, name := range n.names {
		if len(name) > 0 && bytes.HasSuffix(text, name) {
			return name
		}
	}
	return nil
}

func (n *plainNames) add(name []byte) {
	if n.before(name) == nil {
		n.names[n.next] = name
		n.next = 1 - n.next
	}
}

// shortestSecret bounds what is built in, in bytes: a password after its name, or one inside a URL.
const shortestSecret = min(shortestChosen, len("://:p@"))

// beforeName returns the start of the name before a value, with quotes and a sign between; at if there is none.
func beforeName(text []byte, at int) int {
	start := at
	for start > 0 && at-start < mostBetween && classes[text[start-1]]&classRun == 0 {
		start--
	}
	for start > 0 && at-start < longestName && classes[text[start-1]]&classRun != 0 {
		start--
	}
	return start
}

// longestPiece is how many bytes a plain piece has at most: too few for a private key with its label.
const longestPiece = pemEnough

// isPlainPiece reports whether a string after a name that announces nothing is so short and plain that nothing built in
// can match it: it has no sign after a name, no '@' of a URL, no escape, and no long run. Most pieces of a streamed text
// are like that.
func isPlainPiece(piece []byte) bool {
	if len(piece) > longestPiece {
		return false
	}
	run := 0
	for _, c := range piece {
		switch pieceBytes[c] {
		case pieceRun:
			if run++; run == runLength {
				return false
			}
		case pieceOther:
			run = 0
		default:
			return false
		}
	}
	return true
}

const (
	pieceOther = iota
	pieceRun
	pieceSign
)

var pieceBytes = func() (table [256]byte) {
	for c := range table {
		if classes[c]&classRun != 0 {
			table[c] = pieceRun
		}
	}
	for _, c := range []byte(`:=>@\`) {
		table[c] = pieceSign
	}
	return table
}()

// announcesNothing reports whether text[start:end], the name before a string as beforeName finds it, is whole, short and
// none of those that announce a secret.
func announcesNothing(text []byte, start, end int) bool {
	name := text[start:end]
	run := stretch(name, 0, len(name), classRun)
	if start == 0 || text[start-1] != '"' || run == 0 || run >= runLength || name[len(name)-1] != '"' || bytes.IndexByte(name, '@') >= 0 || bytes.IndexByte(name, '\\') >= 0 {
		return false
	}
	for i := run; i < len(name); i++ {
		switch name[i] {
		case ':', '=', '>':
			if end := nameEnd(name, i); endsKeyword(name, end) && keywordBefore(name, end) != nil {
				return false
			}
		}
	}
	return true
}
