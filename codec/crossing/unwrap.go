package crossing

import "strings"

// unwrapper extracts the free text from {"input":"…"}, fragment by fragment. Fragments are bodies of a JSON string that
// holds that JSON text, so the text inside is escaped twice; the output is escaped once, as a string body. An escape of
// the inner string that is split between fragments is held back until it is complete. If a model answers with raw text
// instead of the wrapper, its text is passed on unchanged.
type unwrapper struct {
	state  unwrapState
	opened []byte // outer bytes of the wrapper's beginning, in case it is not a wrapper
	match  int    // how much of the opening has been seen, or emptyObject
	held   []byte // an incomplete inner escape
	digits int    // hex digits that a held \u still lacks
}

type unwrapState uint8

const (
	unwrapOpening unwrapState = iota // before the inner text
	unwrapInside
	unwrapDone // after the closing quote; the rest is the wrapper's end
	unwrapRaw  // no wrapper: everything is text
)

// opening is the beginning of the wrapper; white space may stand between its tokens.
const opening = `{"input":"`

// emptyObject is the value of match if the object closes at once.
const emptyObject = -1

// pass appends the inner text of a fragment.
func (u *unwrapper) pass(dst, fragment []byte) []byte {
	for i := 0; i < len(fragment); {
		if u.state == unwrapRaw {
			return append(dst, fragment[i:]...)
		}
		if u.state == unwrapDone {
			return dst
		}
		n := outerToken(fragment[i:])
		token := fragment[i : i+n]
		i += n
		if u.state == unwrapOpening {
			if !u.open(token) {
				u.state = unwrapRaw
				dst = append(dst, u.opened...)
				u.opened = nil
			}
			continue
		}
		dst = u.inside(dst, token)
	}
	return dst
}

// end appends what is still held when the call is complete: an unfinished beginning of a wrapper is text, except for
// the empty object, which means a call without input.
func (u *unwrapper) end(dst []byte) []byte {
	if u.state == unwrapOpening && u.match != emptyObject {
		dst = append(dst, u.opened...)
	}
	return dst
}

// outerToken returns the length of the first character of a string body: one byte, or one escape.
func outerToken(body []byte) int {
	if body[0] != '\\' || len(body) < 2 {
		return 1
	}
	if body[1] == 'u' {
		return min(6, len(body))
	}
	return 2
}

// plain returns the ASCII character that a token means in the JSON text, and false for all others.
func plain(token []byte) (byte, bool) {
	if len(token) == 1 {
		return token[0], token[0] < 0x80
	}
	switch token[1] {
	case '"', '\\', '/':
		return token[1], true
	case 'n':
		return '\n', true
	case 't':
		return '\t', true
	case 'r':
		return '\r', true
	case 'u':
		if len(token) == 6 && token[2] == '0' && token[3] == '0' && token[4] < '8' {
			return hexDigit(token[4])<<4 | hexDigit(token[5]), true
		}
	}
	return 0, false
}

func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// open consumes one token of the wrapper's beginning and reports whether it can still be one.
func (u *unwrapper) open(token []byte) bool {
	u.opened = append(u.opened, token...)
	c, ok := plain(token)
	if !ok {
		return false
	}
	space := c == ' ' || c == '\n' || c == '\t' || c == '\r'
	if u.match == emptyObject {
		return space
	}
	if u.match == 1 && c == '}' {
		u.match = emptyObject
		return true
	}
	if c == opening[u.match] {
		u.match++
		if u.match == len(opening) {
			u.state, u.opened = unwrapInside, nil
		}
		return true
	}
	between := u.match <= 1 || u.match >= 8 // white space may be between tokens, not inside the name
	return between && space
}

// inside consumes one token of the inner string.
func (u *unwrapper) inside(dst, token []byte) []byte {
	c, ok := plain(token)
	switch {
	case len(u.held) > 0:
		return u.escape(dst, token)
	case ok && c == '\\':
		u.held = append(u.held, '\\')
		return dst
	case ok && c == '"':
		u.state = unwrapDone
		return dst
	default:
		return append(dst, token...)
	}
}

// escape continues an inner escape. In an invalid escape the backslash is literal.
func (u *unwrapper) escape(dst, token []byte) []byte {
	c, ok := plain(token)
	if valid := ok && (u.digits > 0 && isHex(c) || u.digits == 0 && strings.IndexByte(`"\/bfnrtu`, c) >= 0); !valid {
		dst = append(append(dst, '\\'), u.held...)
		u.held, u.digits = u.held[:0], 0
		return u.inside(dst, token)
	}
	u.held = append(u.held, c)
	switch {
	case u.digits > 0:
		u.digits--
	case c == 'u':
		u.digits = 4
	}
	if u.digits > 0 {
		return dst
	}
	dst = append(dst, u.held...)
	u.held = u.held[:0]
	return dst
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' <= 5 }
