package redact

import (
	"bytes"
	"sync"
)

// Encoders may write any letter of a JSON string as \u00XX, and some do that with &, +, <, >, ' and ". Credentials are
// found in an unescaped copy of the text, and masked in the text itself.

// plainText is a text whose letters escaped as \u00XX are unescaped, even if it was escaped several times. Other
// escapes stay; a quote, a backslash and a line end get the short ones, so that strings end at the same place.
type plainText struct {
	text   []byte
	at     []int32 // offset in the original of each byte of text, and of its end
	next   []byte  // scratch, like nextAt
	nextAt []int32
}

var plainTexts = sync.Pool{New: func() any { return new(plainText) }}

// deepest is how many levels of escapes are undone: backslashes may be escaped, too.
const deepest = 3

// plain returns a text of at most a window without escaped letters, or nil if it has none. The caller releases it.
func plain(text []byte) *plainText {
	if !hidesLetters(text) {
		return nil
	}
	p := plainTexts.Get().(*plainText)
	p.text, p.at = append(p.text[:0], text...), p.at[:0]
	for i := range len(text) + 1 {
		p.at = append(p.at, int32(i))
	}
	for depth := 0; depth < deepest && hidesLetters(p.text); depth++ {
		p.unescape()
	}
	return p
}

func (p *plainText) release() { plainTexts.Put(p) }

// Long texts are searched in windows, to bound the memory.
const (
	window   = 256 << 10
	overlap  = 32 << 10 // of two windows: a private key, or a token with every letter escaped
	leadRoom = 1 << 10  // before the first escape in a window: the context of a credential
)

// nextWindow returns the first range of text at or after from that has to be searched; start is -1 if there is none.
func nextWindow(text []byte, from int) (start, end int) {
	escape, _, _ := escapedLetter(text, from)
	if escape < 0 {
		return -1, 0
	}
	start = escape - leadRoom
	if escape < window/2 {
		start = 0
	}
	return back(text, max(start, from)), min(max(start, from)+window, len(text))
}

func (p *plainText) unescape() {
	p.next, p.nextAt = p.next[:0], p.nextAt[:0]
	for i := 0; i < len(p.text); {
		start, c, end := escapedLetter(p.text, i)
		if start < 0 {
			start, end = len(p.text), len(p.text)
		}
		p.next = append(p.next, p.text[i:start]...)
		p.nextAt = append(p.nextAt, p.at[i:start]...)
		if start == end {
			break
		}
		switch c {
		case '"', '\\':
			p.next = append(p.next, '\\', c)
			p.nextAt = append(p.nextAt, p.at[start], p.at[start])
		case '\n':
			p.next = append(p.next, '\\', 'n')
			p.nextAt = append(p.nextAt, p.at[start], p.at[start])
		default:
			p.next = append(p.next, c)
			p.nextAt = append(p.nextAt, p.at[start])
		}
		i = end
	}
	p.nextAt = append(p.nextAt, p.at[len(p.text)])
	p.text, p.next = p.next, p.text
	p.at, p.nextAt = p.nextAt, p.at
}

// back maps matches in the plain text to the original text, which begins at start.
func (p *plainText) back(matches []Match, start int) {
	for i := range matches {
		m := &matches[i]
		m.Start, m.End = start+int(p.at[m.Start]), start+int(p.at[m.End])
	}
}

var escapedASCII = []byte(`\u00`)

// hidesLetters reports whether a letter is escaped in text.
func hidesLetters(text []byte) bool {
	start, _, _ := escapedLetter(text, 0)
	return start >= 0
}

// escapedLetter returns the first escape of a printable ASCII character, or of a line end, at or after from: the offset
// of its first backslash, the character and its end; start is -1 if there is none.
func escapedLetter(text []byte, from int) (start int, c byte, end int) {
	for at := from; ; {
		n := bytes.Index(text[at:], escapedASCII)
		if n < 0 || at+n+len(escapedASCII)+2 > len(text) {
			return -1, 0, 0
		}
		start, at = at+n, at+n+1
		high, low := hexDigit(text[start+4]), hexDigit(text[start+5])
		if c = high<<4 | low; high > 7 || low > 15 || c == 0x7f || c < ' ' && c != '\n' {
			continue
		}
		end = start + len(escapedASCII) + 2
		for start > from && text[start-1] == '\\' {
			start--
		}
		return start, c, end
	}
}

// hexDigit returns the value of a hexadecimal digit; 255 for anything else.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
