package provider

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/bytedance/sonic"
)

// wire is how JSON from outside is read: keys match exactly, numbers keep their digits, broken UTF-8 is refused
// or repaired, and raw values alias the request body, which stays untouched for as long as the request lives.
var wire = sonic.Config{ValidateString: true, UseNumber: true, CaseSensitive: true, NoEncoderNewline: true}.Froze()

// raw is one JSON value as it stood in the request.
type raw = sonic.NoCopyRawMessage

// object is a JSON object with its members unparsed.
type object map[string]raw

func parseObject(value []byte) (object, bool) {
	var o object
	if err := wire.UnmarshalFromString(aliasString(value), &o); err != nil {
		return nil, false
	}
	return o, o != nil
}

func parseList(value []byte) ([]raw, bool) {
	var list []raw
	if err := wire.UnmarshalFromString(aliasString(value), &list); err != nil {
		return nil, false
	}
	return list, list != nil
}

func parseString(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	var s string
	if err := wire.UnmarshalFromString(aliasString(value), &s); err != nil {
		return "", false
	}
	return s, true
}

// has reports whether the member is there and not null.
func (o object) has(name string) bool {
	value, ok := o[name]
	return ok && string(value) != "null"
}

// text is the member as a string, "" when it is something else.
func (o object) text(name string) string {
	s, _ := parseString(o[name])
	return s
}

func (o object) flag(name string) bool { return string(o[name]) == "true" }

// number is the member as a float; ok is false when it is missing, null or no number.
func (o object) number(name string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(aliasString(o[name]), 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// object is the member as an object; nil when it is something else.
func (o object) object(name string) object {
	inner, _ := parseObject(o[name])
	return inner
}

// list is the member as an array; nil when it is something else.
func (o object) list(name string) []raw {
	inner, _ := parseList(o[name])
	return inner
}

// or returns the member as written but on one line, or the default when it is missing.
func (o object) or(name, byDefault string) string {
	if value, ok := o[name]; ok {
		return oneLine(aliasString(value))
	}
	return byDefault
}

// oneLine drops the line ends of a JSON value, so that it can stand in a frame. Inside strings there are none.
func oneLine(value string) string {
	if !strings.ContainsAny(value, "\r\n") {
		return value
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(value)
}

// aliasString views bytes that no longer change as a string.
func aliasString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends s as the inside of a JSON string. With ascii, everything beyond ASCII becomes \u escapes,
// characters outside the basic plane as a pair of them.
func appendEscaped(dst []byte, s string, ascii bool) []byte {
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !ascii && !(r == utf8.RuneError && n == 1) {
				i += n
				continue
			}
			dst = append(dst, s[start:i]...)
			if ascii {
				dst = appendUnicodeEscape(dst, r)
			} else {
				dst = append(dst, "\uFFFD"...)
			}
			i += n
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(dst, s[start:]...)
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	if r >= 0x10000 {
		r -= 0x10000
		dst = appendUnicodeEscape(dst, 0xd800+r>>10)
		return appendUnicodeEscape(dst, 0xdc00+r&0x3ff)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s, false)
	return append(dst, '"')
}

// quote returns s as a JSON string.
func quote(s string) string { return string(appendString(nil, s)) }

// cutEscaped cuts an escaped text after its first n units, where a unit is a character or a \u escape:
// the halves of a surrogate pair are two units.
func cutEscaped(s string, n int) (piece, rest string) {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		switch c := s[i]; {
		case c < utf8.RuneSelf && c != '\\':
			i++
		case c == '\\' && i+1 < len(s) && s[i+1] == 'u':
			i += 6
		case c == '\\':
			i += 2
		default:
			_, size := utf8.DecodeRuneInString(s[i:])
			i += size
		}
	}
	i = min(i, len(s))
	return s[:i], s[i:]
}
