package redact

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
)

// MaskFresh is Mask for an event stream that has been separated into frames. Only what does not repeat is searched:
// what is between the runs, and the contents of the slots, which are bodies of strings and numbers.
//
// That suffices for the built-in shapes: none of them spans two strings, except for the name before a secret. An
// operator's own patterns are matched everywhere.
func (r *Redactor) MaskFresh(text []byte, frames *template.Frames) (found []Match) {
	if len(r.patterns) > 0 || r.holdsFresh(text, frames) {
		return r.Mask(text) // repetitions have to be masked in every place
	}
	return nil
}

func (r *Redactor) holdsFresh(text []byte, frames *template.Frames) bool {
	at := 0
	for i := range frames.Runs {
		run := &frames.Runs[i]
		if r.holdsAt(text, at, run.Start) {
			return true
		}
		slots, per := frames.Slots(run)
		low := run.Start
		for first := range per {
			if r.holdsInColumn(text, low, slots[first:], per) {
				return true
			}
			low = slots[first].End
		}
		at = run.End
	}
	return r.holdsAt(text, at, len(text))
}

// holdsAt reports whether there is something to mask in text[start:end], or in what the name before it announces.
func (r *Redactor) holdsAt(text []byte, start, end int) bool {
	return end-start >= shortestSecret && r.Holds(text[beforeName(text, start):end])
}

// holdsInColumn is holdsAt for one slot in all frames of a run: each per-th of slots. low is where what repeats before
// the slot begins in the first frame, so that the name in front of it is the same in all of them.
func (r *Redactor) holdsInColumn(text []byte, low int, slots []codec.Span, per int) bool {
	start := beforeName(text, slots[0].Start)
	lead := slots[0].Start - start + 1 // the name with its quote
	plain := start > low && announcesNothing(text, start, slots[0].Start)
	shortest := r.shortestValue()
	for i := 0; i < len(slots); i += per {
		slot := slots[i]
		size := slot.End - slot.Start
		if size >= shortestSecret && plain && isPlainPiece(slot.Of(text)) {
			named := text[slot.Start-lead : slot.End]
			if (len(named) < shortest || len(r.findValues(nil, named)) == 0) && (size < runLength || len(findTokens(nil, named)) == 0) {
				continue
			}
		}
		if r.holdsAt(text, slot.Start, slot.End) {
			return true
		}
	}
	return false
}

// shortestValue returns how many bytes the shortest form of a credential that is recognized by value has at least.
func (r *Redactor) shortestValue() int {
	shortest := math.MaxInt
	installation, others := r.inUse()
	for _, v := range [...]*Values{installation, others} {
		if v != nil {
			shortest = min(shortest, v.window)
		}
	}
	return shortest
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

// isPlainPiece reports whether a text after no name, or one that announces nothing, is so short and plain that nothing built
// in can match it, except for a token: it has no sign after a name, no '@' of a URL and no escape. Most pieces of a streamed
// text are like that, and so are padding and the names of models.
func isPlainPiece(piece []byte) bool {
	if len(piece) > longestPiece {
		return false
	}
	for ; len(piece) >= 8; piece = piece[8:] {
		if holdsSign(binary.LittleEndian.Uint64(piece)) {
			return false
		}
	}
	for _, c := range piece {
		if c >= ':' && c <= '@' || c == '\\' {
			return false
		}
	}
	return true
}

// holdsSign reports whether one of eight bytes is from ':' to '@' or a backslash.
func holdsSign(w uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low := w &^ highs
	signs := (low + (0x80-':')*ones) &^ (low + (0x80-'@'-1)*ones)
	slashes := w ^ '\\'*ones
	return (signs&^w|(slashes-ones)&^slashes)&highs != 0
}

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
