package codec

import "bytes"

// ArgumentDepth finds the end of a JSON object or array that arrives in fragments of a string body: text escaped once
// more than JSON itself, so that a quote is \" and a quote inside a string is \\\". Fragments may end anywhere except
// inside an escape of the outer layer.
type ArgumentDepth struct {
	depth    int
	inString bool
	escaped  bool // the inner layer's backslash was the last character
	scalar   bool // the text does not begin with a bracket, so its end is unknown
}

// Feed reads on and returns how many bytes of the fragment belong to the value. After done, nothing more belongs to it.
func (a *ArgumentDepth) Feed(fragment []byte) (n int, done bool) {
	for i := 0; i < len(fragment); {
		if a.scalar {
			return len(fragment), false
		}
		if a.inString && !a.escaped {
			// Whatever ends the string, or escapes, begins with a backslash of the outer layer.
			skip := bytes.IndexByte(fragment[i:], '\\')
			if skip < 0 {
				return len(fragment), false
			}
			i += skip
		}
		c, width := outerChar(fragment[i:])
		i += width
		if a.char(c) {
			return i, true
		}
	}
	return len(fragment), false
}

// Broken reports whether the text read so far ends inside its value.
func (a *ArgumentDepth) Broken() bool { return a.depth > 0 }

// char consumes one character of the inner text and reports whether it closed the value.
func (a *ArgumentDepth) char(c byte) bool {
	if a.inString {
		switch {
		case a.escaped:
			a.escaped = false
		case c == '\\':
			a.escaped = true
		case c == '"':
			a.inString = false
		}
		return false
	}
	switch c {
	case ' ', '\n', '\t', '\r':
	case '{', '[':
		a.depth++
	case '}', ']':
		a.depth--
		if a.depth == 0 {
			return true
		}
		a.scalar = a.depth < 0
	default:
		if a.depth == 0 {
			a.scalar = true
			return false
		}
		a.inString = c == '"'
	}
	return false
}

// outerChar decodes the first character of a string body. Characters beyond ASCII do not matter here and are decoded as
// some other.
func outerChar(body []byte) (c byte, width int) {
	if body[0] != '\\' || len(body) < 2 {
		return body[0], 1
	}
	switch body[1] {
	case 'n', 't', 'r':
		return ' ', 2
	case 'b', 'f':
		return 0, 2
	case 'u':
		if len(body) < 6 {
			return 0, len(body)
		}
		if body[2] != '0' || body[3] != '0' {
			return 0, 6
		}
		return hexDigit(body[4])<<4 | hexDigit(body[5]), 6
	}
	return body[1], 2
}

func hexDigit(c byte) byte {
	switch {
	case c-'0' <= 9:
		return c - '0'
	case c|0x20-'a' <= 5:
		return c | 0x20 - 'a' + 10
	}
	return 0
}
