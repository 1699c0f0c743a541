package crossing

import "github.com/mnemeproxy/mneme/codec"

// Outline reads a complete answer that is too long to hold, piece by piece. It finds the end of the JSON value, and
// keeps an abridged answer for [Observe]: the beginning of each string, the first elements of each list.
//
// It matches brackets and quotes, so it notices a truncated answer. Other faults of the JSON are left to the client.
type Outline struct {
	format codec.Format
	kept   []byte
	full   bool // kept would have become too long, and is empty

	open    []int // of the open objects and lists, outermost first: elements of a list so far, or inObject
	passing int   // how many were open when the rest of a list began to be skipped; 0: nothing is skipped
	closed  bool  // the value has ended
	broken  bool  // not a JSON object or list

	inString bool
	escape   int   // bytes left of the escape sequence; afterBackslash: its next byte decides
	length   int   // bytes of the string so far
	cut      bool  // the rest of the string is skipped
	left     int64 // bytes skipped in strings
}

const (
	inObject       = -1
	afterBackslash = -1

	outlineString   = 512 // bytes
	outlineElements = 16
	outlineBytes    = 256 << 10
	outlineDepth    = 512 // deeper nesting is not an answer
)

// NewOutline begins to read an answer in a provider's format.
func NewOutline(format codec.Format) *Outline { return &Outline{format: format} }

// Write reads the next piece, and returns how many of its bytes precede the last byte of the value.
func (o *Outline) Write(p []byte) (before int) {
	if !o.closed {
		before = len(p)
	}
	for i := 0; i < len(p) && !o.broken; i++ {
		if o.inString {
			i += o.readString(p[i:]) - 1
			continue
		}
		switch c := p[i]; c {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			o.begin(c)
		case '}', ']':
			if o.end(c); o.closed {
				before = i
			}
		case ',':
			o.separate()
		default:
			o.inString, o.length, o.cut = c == '"', 0, false
			o.broken = len(o.open) == 0
			o.keep(c)
		}
	}
	return before
}

func (o *Outline) begin(c byte) {
	if o.broken = o.closed || len(o.open) == outlineDepth; o.broken {
		return
	}
	elements := 0
	if c == '{' {
		elements = inObject
	}
	o.open = append(o.open, elements)
	o.keep(c)
}

func (o *Outline) end(c byte) {
	last := len(o.open) - 1
	if o.broken = last < 0 || (c == '}') != (o.open[last] == inObject); o.broken {
		return
	}
	if o.passing == len(o.open) {
		o.passing = 0
	}
	o.keep(c)
	o.open = o.open[:last]
	o.closed = last == 0
}

func (o *Outline) separate() {
	last := len(o.open) - 1
	if o.broken = last < 0; o.broken {
		return
	}
	if o.open[last] != inObject {
		if o.open[last]++; o.open[last] == outlineElements && o.passing == 0 {
			o.passing = len(o.open)
		}
	}
	o.keep(',')
}

// readString reads p, which begins inside a string, up to the end of the string or of p, and returns how many bytes
// that are.
func (o *Outline) readString(p []byte) int {
	for i, c := range p {
		switch {
		case o.escape == afterBackslash:
			if o.escape = 0; c == 'u' {
				o.escape = 4
			}
		case o.escape > 0:
			o.escape--
		case c == '"':
			o.inString = false
			o.keep(c)
			return i + 1
		default:
			if o.length >= outlineString && c&0xc0 != 0x80 { // without splitting a character
				o.cut = true
			}
			if c == '\\' {
				o.escape = afterBackslash
			}
		}
		if o.cut {
			o.left++
		} else {
			o.length++
			o.keep(c)
		}
	}
	return len(p)
}

func (o *Outline) keep(c byte) {
	switch {
	case o.passing > 0 || o.full:
	case len(o.kept) == outlineBytes:
		o.full, o.kept = true, nil
	default:
		o.kept = append(o.kept, c)
	}
}

// Broken reports whether the input cannot be the beginning of an answer.
func (o *Outline) Broken() bool { return o.broken }

// Seen returns what the answer says about itself. complete reports whether it has ended.
func (o *Outline) Seen() (seen Seen, complete bool) {
	if !o.closed || o.broken {
		return seen, false
	}
	if !o.full {
		seen, _ = Observe(o.format, o.kept, Memory{}, false)
	}
	if !Traits(o.format).Vectors { // whose long strings are vectors
		seen.Written += o.left / bytesPerToken
	}
	return seen, true
}
