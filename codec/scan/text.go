package scan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bytedance/sonic"
)

// MaxDepth is the deepest nesting that [Valid] accepts: the limit of the validator underneath.
const MaxDepth = 4096

// WellFormed reports whether doc is one JSON value in valid UTF-8, no deeper than [MaxDepth]. That suffices to walk doc
// and to pass it on; what is copied from its strings into our own documents has to be [Valid].
func WellFormed(doc []byte) bool { return sonic.Valid(doc) && utf8.Valid(doc) && !isBrokenScalar(doc) }

// isBrokenScalar reports whether doc is a string, a number or a literal without its end. sonic does not notice that in
// a string of 64 bytes or more, nor in a literal whose missing letters happen to follow doc in memory.
func isBrokenScalar(doc []byte) bool {
	i := Space(doc, 0)
	return i < len(doc) && doc[i] != '{' && doc[i] != '[' && !json.Valid(doc)
}

// Valid reports whether doc is [WellFormed] and its strings contain neither raw control characters nor invalid escapes.
// The JSON library checks neither.
func Valid(doc []byte) bool { return WellFormed(doc) && TextIsValid(doc) }

// TextIsValid reports whether a document that is [WellFormed] is [Valid]. It checks every backslash and every control
// character, eight bytes at a time. In a document with a valid structure, backslashes occur only in strings. Control
// characters may also occur between tokens, in pretty-printed documents: then the strings are checked one by one.
func TextIsValid(doc []byte) bool {
	const ones, highs, slashes, floor = 0x0101010101010101, 0x8080808080808080, 0x5c5c5c5c5c5c5c5c, 0x2020202020202020
	pretty := false
	for i := 0; i < len(doc); {
		if i+8 <= len(doc) {
			w := binary.LittleEndian.Uint64(doc[i:])
			s := w ^ slashes
			found := ((s-ones)&^s | (w-floor)&^w) & highs
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8 // the lowest mark is exact, whatever borrows do above it
		}
		for i+1 < len(doc) && doc[i] == '\\' && escaped[doc[i+1]] != 0 { // escapes are often adjacent
			i += 2
		}
		if i == len(doc) {
			break
		}
		switch c := doc[i]; {
		case c == '\\':
			if i+1 == len(doc) || doc[i+1] != 'u' {
				return false
			}
			if _, ok := hex4(doc[i+2:]); !ok {
				return false
			}
			i += 6
			continue
		case c < 0x20:
			pretty = true
		}
		i++
	}
	return !pretty || !controlInString(doc)
}

// Explain returns why doc is not [Valid], as the end of a sentence about it, with positions counted from zero. It is
// slow and allocates: use it only for error messages.
func Explain(doc []byte) string {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(doc, new(json.RawMessage)); errors.As(err, &syntax) {
		return fmt.Sprintf("stops being JSON at byte %d", max(syntax.Offset-1, 0))
	}
	for i := 0; i < len(doc); {
		r, size := utf8.DecodeRune(doc[i:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Sprintf("holds invalid UTF-8 at byte %d", i)
		}
		i += size
	}
	if len(doc) > 0 && json.Valid(doc) && !sonic.Valid(doc) {
		return fmt.Sprintf("is nested deeper than %d levels", MaxDepth)
	}
	return "contains an escape or a control character that JSON does not allow"
}

// controlInString looks for a byte below 0x20 inside a string.
func controlInString(doc []byte) bool {
	for i := 0; i < len(doc); {
		if doc[i] != '"' {
			i++
			continue
		}
		end := skipString(doc, i)
		for _, c := range doc[i:end] {
			if c < 0x20 {
				return true
			}
		}
		i = end
	}
	return false
}

// String decodes a string value. It allocates. A value that is not a string is "".
func String(v []byte) string { return Text(Body(v)) }

// Text decodes a string body. It allocates.
func Text(body []byte) string {
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body)
	}
	return string(Unescape(make([]byte, 0, len(body)), body))
}

// Unescape appends the decoded text of a string body. A surrogate without its partner becomes U+FFFD, and an invalid
// escape is copied unchanged. dst and body must not overlap.
func Unescape(dst, body []byte) []byte {
	plain := bytes.IndexByte(body, '\\')
	if plain < 0 {
		return append(dst, body...)
	}
	dst = slices.Grow(dst, len(body)) // no escape is shorter than its decoded text
	from := len(dst)
	out := dst[from : from+len(body)]
	n := copy(out, body[:plain])
	for i := plain; i < len(body); {
		i, n = copyPlain(out, n, body, i)
		if i+1 >= len(body) {
			n += copy(out[n:], body[i:])
			break
		}
		switch e := body[i+1]; {
		case escaped[e] != 0:
			out[n] = escaped[e]
			i, n = i+2, n+1
		case e == 'u':
			r, size := unescapeRune(body[i:])
			if size == 0 {
				out[n] = '\\'
				i, n = i+1, n+1
				continue
			}
			n += utf8.EncodeRune(out[n:], r)
			i += size
		default:
			out[n] = '\\'
			i, n = i+1, n+1
		}
	}
	return dst[:from+n]
}

// copyPlain copies body from i to out from n up to the next backslash, and returns the offsets there. It copies eight
// bytes while it checks them, because escapes are close together in agents' texts. n must not be above i, nor out
// shorter than body.
func copyPlain(out []byte, n int, body []byte, i int) (int, int) {
	const ones, highs, slashes = 0x0101010101010101, 0x8080808080808080, 0x5c5c5c5c5c5c5c5c
	for ; i+8 <= len(body); i, n = i+8, n+8 {
		w := binary.LittleEndian.Uint64(body[i:])
		binary.LittleEndian.PutUint64(out[n:], w)
		s := w ^ slashes
		if found := (s - ones) &^ s & highs; found != 0 {
			k := bits.TrailingZeros64(found) / 8 // the lowest mark is exact, whatever borrows do above it
			return i + k, n + k
		}
	}
	for ; i < len(body) && body[i] != '\\'; i, n = i+1, n+1 {
		out[n] = body[i]
	}
	return i, n
}

// escaped maps the second byte of a two-byte escape to its character; 0: there is no such escape.
var escaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescapeRune decodes the four-digit escape at the start of text, or the pair of them that encodes a rune above
// U+FFFF. size is 0 if the digits are invalid.
func unescapeRune(text []byte) (r rune, size int) {
	r, ok := hex4(text[2:])
	if !ok {
		return 0, 0
	}
	if utf16.IsSurrogate(r) {
		low, ok := rune(0), false
		if len(text) > 7 && text[6] == '\\' && text[7] == 'u' {
			low, ok = hex4(text[8:])
		}
		if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
			return pair, 12
		}
		r = utf8.RuneError
	}
	return r, 6
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20-'a' <= 5:
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// Unit decodes the first character of a string body that is not empty: a code point, or the UTF-16 unit that a \u escape
// names.
func Unit(body []byte) (unit rune, size int) {
	if body[0] != '\\' {
		return utf8.DecodeRune(body)
	}
	if len(body) > 1 {
		if c := escaped[body[1]]; c != 0 {
			return rune(c), 2
		}
		if unit, ok := hex4(body[2:]); ok {
			return unit, 6
		}
	}
	return '\\', 1
}

// Escape appends text as a string body: quotes, backslashes and control characters are escaped, everything else is
// unchanged (escaping <, > or & would change bytes that provider caches compare). Each byte that is not UTF-8 becomes
// U+FFFD; only such text makes it allocate, apart from dst.
func Escape(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		text = repaired(text)
	}
	from := 0
	for i := nextEscaped(text, 0); i < len(text); i = nextEscaped(text, from) {
		dst = appendEscape(append(dst, text[from:i]...), text[i])
		from = i + 1
	}
	return append(dst, text[from:]...)
}

func repaired(text []byte) []byte {
	out := make([]byte, 0, len(text)+utf8.UTFMax)
	for _, r := range string(text) {
		out = utf8.AppendRune(out, r)
	}
	return out
}

// nextEscaped returns the offset of the first byte of text from i on that has to be escaped. It checks eight bytes at a
// time.
func nextEscaped(text []byte, i int) int {
	const ones, highs, quotes, slashes, floor = 0x0101010101010101, 0x8080808080808080, 0x2222222222222222, 0x5c5c5c5c5c5c5c5c, 0x2020202020202020
	for ; i+8 <= len(text); i += 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		q, s := w^quotes, w^slashes
		if found := ((q-ones)&^q | (s-ones)&^s | (w-floor)&^w) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8 // the lowest mark is exact, whatever borrows do above it
		}
	}
	for i < len(text) && text[i] >= 0x20 && text[i] != '"' && text[i] != '\\' {
		i++
	}
	return i
}

func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}

// Quote appends text as a string value, quotes included.
func Quote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	dst = Escape(dst, []byte(text))
	return append(dst, '"')
}

// QuoteBody appends a string value around a body that is already escaped.
func QuoteBody(dst, body []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, body...)
	return append(dst, '"')
}

// Blank reports whether a string body contains nothing but white space, escaped or not.
func Blank(body []byte) bool {
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case ' ':
		case '\\':
			if i+1 >= len(body) || (body[i+1] != 'n' && body[i+1] != 't' && body[i+1] != 'r') {
				return false
			}
			i++
		default:
			return false
		}
	}
	return true
}

func wholeFloat(v []byte) (int64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != float64(int64(f)) || f > 1<<53 || f < -(1<<53) {
		return 0, false
	}
	return int64(f), true
}
