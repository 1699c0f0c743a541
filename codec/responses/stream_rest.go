package responses

import (
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// streamed is the part of a body that deltas have brought. Events that end it repeat the whole body, possibly with other
// escapes, so bodies are compared as UTF-16 code units: a delta may even end inside a surrogate pair.
type streamed struct {
	units     int
	sum       uint64 // FNV-1a of the units
	arguments codec.ArgumentDepth
	whole     bool // the arguments are a complete JSON value
	call      bool // it is the body of a call
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// add appends a delta.
func (s *streamed) add(kind codec.EventKind, delta []byte) {
	if s.units == 0 {
		s.sum = fnvOffset
	}
	for i := 0; i < len(delta); {
		i += s.next(delta[i:])
	}
	s.call = kind == codec.EventArguments || kind == codec.EventCustomInput
	if kind == codec.EventArguments && !s.whole {
		_, s.whole = s.arguments.Feed(delta)
	}
}

// next adds the first character of a string body, and returns the length of the character.
func (s *streamed) next(body []byte) (size int) {
	if c := body[0]; c != '\\' && c < utf8.RuneSelf {
		s.unit(uint64(c))
		return 1
	}
	unit, size := scan.Unit(body)
	if unit > 0xffff {
		unit -= 0x10000
		s.unit(uint64(0xd800 + unit>>10))
		unit = 0xdc00 + unit&0x3ff
	}
	s.unit(uint64(unit))
	return size
}

func (s *streamed) unit(unit uint64) {
	s.sum = (s.sum ^ unit) * fnvPrime
	s.units++
}

// rest returns what a complete body has after the streamed part. It reports false if the streamed part is not the
// beginning of the body.
func (s *streamed) rest(body []byte) ([]byte, bool) {
	seen := streamed{sum: fnvOffset}
	i := 0
	for seen.units < s.units && i < len(body) {
		i += seen.next(body[i:])
	}
	return body[i:], s.units == 0 || seen.units == s.units && seen.sum == s.sum
}

// shorter reports whether a text has fewer characters than were streamed. Of a call that is a contradiction.
func (s *streamed) shorter(body []byte) bool {
	if s.call {
		return false
	}
	n := streamed{}
	for i := 0; i < len(body); {
		i += n.next(body[i:])
	}
	return n.units < s.units
}

// heard notes an event of a body that is streamed.
func (d *streamDecoder) heard(ev *codec.Event) {
	if ev.Item >= 0 && int(ev.Item) < len(d.bodies) {
		d.bodies[ev.Item].add(ev.Kind, ev.Raw)
	}
}

// missing returns what the deltas of a content item lacked of its complete body. A body that deltas contradict is a
// failure: the client already has what is wrong.
func (d *streamDecoder) missing(ordinal int32, body []byte) (rest []byte, contradicts bool) {
	s := &d.bodies[ordinal]
	if len(body) == 0 {
		return nil, false // some hosts leave the repetition empty
	}
	rest, begins := s.rest(body)
	switch {
	case begins:
		return rest, false
	case s.whole: // a host may write the same arguments with other spaces
		return nil, false
	case s.shorter(body): // or end a text without its last white space
		return nil, false
	}
	return nil, true
}

var errContradiction = codec.Errorf(codec.KindUpstream, "The provider's stream contradicts itself: the end of an item does not repeat what was streamed of it. Send the request again.")
