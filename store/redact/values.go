package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Values are texts that are masked everywhere, whatever they look like: the credentials of this installation. They are
// found verbatim, escaped as in JSON and URLs, and in base64, at any offset in the encoded text.
//
// A value that occurs in ordinary text would mask the text and hide nothing. So values are ignored if they have fewer
// than 8 bytes or fewer than 5 different characters, or fewer than 16 bytes and are a number or only lower-case words,
// such as "lm-studio" or "not-needed".
type Values struct {
	needles [][]byte // the forms to find, the longest first
	longest int      // bytes of the longest
	window  int      // bytes at the front of each needle that the search uses
	shift   [1 << gramBits]uint8
	salt    uint64 // differs between sets of values; never 0
}

const (
	shortestValue = 8
	shortestWords = 16 // of a value that is a number, or only words
	fewestLetters = 5  // different characters
	valueName     = "credential"
	gramBits      = 12
	gramSize      = 3
	widest        = 64
)

var valueSeed = maphash.MakeSeed()

// newValues returns nil if none of the values can be searched for.
func newValues(values []string) *Values {
	v := &Values{}
	var h maphash.Hash
	h.SetSeed(valueSeed)
	for _, value := range values {
		if !telling(value) {
			continue
		}
		_, _ = h.WriteString(value)
		_ = h.WriteByte(0)
		v.needles = appendForms(v.needles, value)
	}
	if len(v.needles) == 0 {
		return nil
	}
	slices.SortFunc(v.needles, func(a, b []byte) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return bytes.Compare(a, b)
	})
	v.needles = slices.CompactFunc(v.needles, bytes.Equal)
	v.longest = len(v.needles[0])
	v.window = min(len(v.needles[len(v.needles)-1]), widest)
	v.salt = h.Sum64() | 1
	for i := range v.shift {
		v.shift[i] = uint8(v.window - gramSize + 1)
	}
	for _, needle := range v.needles {
		for i := range v.window - gramSize + 1 {
			at := &v.shift[gram(needle[i:])]
			*at = min(*at, uint8(v.window-gramSize-i))
		}
	}
	return v
}

// telling reports whether finding a value proves that the credential was written there.
func telling(value string) bool {
	if len(value) < shortestValue {
		return false
	}
	var seen [256]bool
	different, words, number := 0, true, true
	for i := range len(value) {
		c := value[i]
		if !seen[c] {
			seen[c] = true
			different++
		}
		words = words && (c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '.' || c == ' ')
		number = number && c >= '0' && c <= '9'
	}
	return different >= fewestLetters && (!words && !number || len(value) >= shortestWords)
}

// appendForms appends the forms in which a value may be written.
func appendForms(forms [][]byte, value string) [][]byte {
	written := []string{value, url.QueryEscape(value), url.PathEscape(value)}
	for _, escaped := range written[1:] {
		written = append(written, lowerEscapes(escaped))
	}
	for _, inside := range []string{value, asciiEscaped(value, "%04x"), asciiEscaped(value, "%04X")} {
		written = append(written, inside)
		for range 3 { // in JSON, and in JSON inside a JSON string
			inside = jsonEscaped(inside)
			written = append(written, inside)
		}
	}
	for offset := range 3 {
		plain := append(make([]byte, offset, offset+len(value)), value...)
		// Leaves out letters that also contain bits of the neighboring text.
		from, to := (offset*8+5)/6, len(plain)*8/6
		written = append(written, base64.StdEncoding.EncodeToString(plain)[from:to], base64.URLEncoding.EncodeToString(plain)[from:to])
	}
	for _, text := range written {
		forms = append(forms, []byte(text))
		if strings.Contains(text, "/") {
			forms = append(forms, []byte(strings.ReplaceAll(text, "/", `\/`)), []byte(strings.ReplaceAll(text, "/", `\\\/`)))
		}
	}
	return forms
}

// lowerEscapes returns text with the digits of its percent escapes in lower case.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

// jsonEscaped returns the body of a JSON string that holds text.
func jsonEscaped(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // \u00XX is handled separately
	if err := e.Encode(text); err != nil {
		return text
	}
	return b.String()[1 : b.Len()-len("\"\n")]
}

// asciiEscaped returns text with everything beyond ASCII escaped as in JSON; for ASCII see [plainText].
func asciiEscaped(text, hex string) string {
	var b strings.Builder
	for _, c := range text {
		if c < utf8.RuneSelf {
			_ = b.WriteByte(byte(c))
			continue
		}
		for _, unit := range utf16.Encode([]rune{c}) {
			_, _ = fmt.Fprintf(&b, `\u`+hex, unit)
		}
	}
	return b.String()
}

func gram(b []byte) uint32 {
	const spread = 2654435761
	return (uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16) * spread >> (32 - gramBits)
}

// find appends the places of the values. Most bytes are not read: three in every window of a value's length give a
// lower bound on the distance to the next value (Wu and Manber, 1994).
func (v *Values) find(dst []Match, text []byte) []Match {
	last := v.window - gramSize // of a window
	for at := last; at+gramSize <= len(text); {
		if skip := v.shift[gram(text[at:])]; skip > 0 {
			at += int(skip)
			continue
		}
		start := at - last
		if n := v.begins(text[start:]); n > 0 {
			dst = append(dst, Match{start, start + n, valueName})
			at = start + n + last
			continue
		}
		at++
	}
	return dst
}

// begins returns the length of the longest form that text begins with, 0 if there is none.
func (v *Values) begins(text []byte) int {
	for _, needle := range v.needles {
		if needle[0] == text[0] && bytes.HasPrefix(text, needle) {
			return len(needle)
		}
	}
	return 0
}

// begun returns where a value begins at the end of text that would continue after it, and its full length; len(text)
// and 0 if there is none.
func (v *Values) begun(text []byte) (start, length int) {
	for start = max(0, len(text)-v.longest+1); start < len(text); start++ {
		for _, needle := range v.needles {
			if needle[0] == text[start] && len(needle) > len(text)-start && bytes.HasPrefix(needle, text[start:]) {
				return start, len(needle)
			}
		}
	}
	return start, 0
}
