// Package private reads the marks by which a person keeps a text out of the memory: <private>…</private>.
//
// The name may be in any case, with spaces around it and attributes behind it. Marks nest, and one that is not closed
// holds to the end. A closing mark without an opening one, and <private/>, mark nothing.
package private

import "strings"

// Marked reports whether a text has a mark.
func Marked(text string) bool {
	_, _, found := nextOpening(text, 0)
	return found
}

// Cut returns a text without what is marked in it.
func Cut(text string) string { return new(Cutter).Cut(text) }

// Cutter is [Cut] for a text that comes in several pieces: a mark that is open at the end of one continues in the next.
// A mark itself is never split over two of them.
type Cutter struct{ depth int }

// Open reports whether a mark is open at the end of the last piece.
func (c *Cutter) Open() bool { return c.depth > 0 }

// Cut returns the next piece without what is marked in it. It allocates only if something is.
func (c *Cutter) Cut(text string) string {
	if c.depth == 0 && !Marked(text) {
		return text
	}
	var kept remainder
	for at := 0; at < len(text); {
		if c.depth == 0 {
			start, end, found := nextOpening(text, at)
			if !found {
				start, end = len(text), len(text)
			}
			kept.add(text[at:start])
			if at = end; found {
				c.depth = 1
			}
			continue
		}
		at = c.skip(text, at)
	}
	return kept.String()
}

// remainder is what is not marked in a text.
type remainder struct {
	strings.Builder
	angle bool // it ends with "<", perhaps with spaces and slashes after it
}

// add appends the text between two marked ranges. The words around a range stay apart and make no new mark.
func (r *remainder) add(text string) {
	before := r.String()
	switch {
	case before == "" || text == "":
	case r.angle:
		r.WriteByte('\n')
	case !isSpace(before[len(before)-1]) && !isSpace(text[0]):
		r.WriteByte(' ')
	}
	r.WriteString(text)
	if end := strings.TrimRight(text, " \t/"); end != "" {
		r.angle = strings.HasSuffix(end, "<")
	}
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\n' }

// skip returns where the marks that are open at a position end, or the text.
func (c *Cutter) skip(text string, at int) (end int) {
	for at < len(text) && c.depth > 0 {
		t, found := nextTag(text, at)
		if !found {
			return len(text)
		}
		switch {
		case t.closing:
			c.depth--
		case !t.empty:
			c.depth++
		}
		at = t.end
	}
	return at
}

// tag is a mark in a text.
type tag struct {
	start, end     int
	closing, empty bool
}

// nextOpening returns where the next opening mark is.
func nextOpening(text string, at int) (start, end int, found bool) {
	for {
		t, found := nextTag(text, at)
		switch {
		case !found:
			return 0, 0, false
		case !t.closing && !t.empty:
			return t.start, t.end, true
		}
		at = t.end
	}
}

// name is the name of a mark, in lower case.
const name = "private"

// nextTag returns the next mark in a text. An opening one whose ">" is missing extends to the end of the text; a closing
// one like that is none.
func nextTag(text string, at int) (t tag, found bool) {
	unended := false // no ">" follows
	for {
		i := strings.IndexByte(text[at:], '<')
		if i < 0 {
			return tag{}, false
		}
		t = tag{start: at + i}
		at = t.start + 1
		rest := spaces(text[at:])
		if t.closing = strings.HasPrefix(rest, "/"); t.closing {
			rest = spaces(rest[1:])
		}
		if len(rest) < len(name) || !strings.EqualFold(rest[:len(name)], name) || len(rest) > len(name) && inName(rest[len(name)]) {
			continue
		}
		rest = rest[len(name):]
		end := -1
		if !unended {
			end = strings.IndexByte(rest, '>')
			unended = end < 0
		}
		switch {
		case unended && t.closing:
			continue
		case unended:
			t.end = len(text)
			return t, true
		}
		t.empty = !t.closing && end > 0 && rest[end-1] == '/'
		t.end = len(text) - len(rest) + end + 1
		return t, true
	}
}

// spaces returns a text without the spaces at its beginning.
func spaces(text string) string { return strings.TrimLeft(text, " \t") }

// inName reports whether a byte continues a name, so that <privateKey> is no mark.
func inName(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b >= 0x80 || strings.IndexByte("-_.:", b) >= 0
}
