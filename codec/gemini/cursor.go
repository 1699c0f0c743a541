package gemini

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// cursor reads a valid JSON document from front to back. It enters what the caller asks for and skips the rest, so each
// byte of a frame is read once, whereas walking value by value reads again at each level of nesting. On an invalid
// document it stops early.
type cursor struct {
	doc []byte
	i   int
}

// enter enters the next value if it begins with open, and reports whether it did.
func (c *cursor) enter(open byte) bool {
	c.i = scan.Space(c.doc, c.i)
	if c.i >= len(c.doc) || c.doc[c.i] != open {
		return false
	}
	c.i++
	return true
}

// next moves to the next member or element and reports whether there is one; after the last it leaves the object or
// array that end closes.
func (c *cursor) next(end byte) bool {
	for c.i < len(c.doc) {
		switch c.doc[c.i] {
		case end:
			c.i++
			return false
		case ' ', '\t', '\r', '\n', ',':
			c.i++
		case '}', ']', ':':
			c.i = len(c.doc) // not valid
		default:
			return true
		}
	}
	return false
}

// key reads the name of a member, still escaped, and moves to its value.
func (c *cursor) key() []byte {
	name := scan.Body(c.value())
	c.i = scan.Space(c.doc, c.i)
	if c.i < len(c.doc) && c.doc[c.i] == ':' {
		c.i++
		return name
	}
	c.i = len(c.doc)
	return nil
}

// value skips the next value and returns it unchanged.
func (c *cursor) value() []byte {
	from := scan.Space(c.doc, c.i)
	c.i = from
	depth := 0
	for c.i < len(c.doc) {
		switch c.doc[c.i] {
		case '"':
			c.i = stringEnd(c.doc, c.i+1)
		case '{', '[':
			depth++
			c.i++
			continue
		case '}', ']':
			depth--
			if depth < 0 {
				return c.doc[from:c.i:c.i]
			}
			c.i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return c.doc[from:c.i:c.i]
			}
			c.i++
			continue
		default:
			c.i++
			continue
		}
		if depth == 0 {
			break
		}
	}
	return c.doc[from:c.i:c.i]
}

// short is the length up to which reading a string byte by byte is faster than a search: most strings of a frame are
// names.
const short = 24

// stringEnd returns the offset after the closing quote of the string whose body starts at i.
func stringEnd(doc []byte, i int) int {
	for limit := min(i+short, len(doc)); i < limit; i++ {
		switch doc[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	for i < len(doc) {
		n := bytes.IndexByte(doc[i:], '"')
		if n < 0 {
			return len(doc)
		}
		body := doc[i : i+n]
		i += n + 1
		back := len(body)
		for back > 0 && body[back-1] == '\\' {
			back--
		}
		if (len(body)-back)%2 == 0 {
			return i
		}
	}
	return len(doc)
}
