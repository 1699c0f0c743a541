package responses

import (
	"strconv"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// appendAnnotation writes a citation in this format's shape, or nothing if there is no such shape. length is the number
// of characters of the text so far: Anthropic's citations apply to the whole block.
func appendAnnotation(dst, raw []byte, origin codec.Format, length int) []byte {
	if !scan.IsObject(raw) {
		return dst
	}
	if origin == codec.Responses {
		return appendFlat(dst, raw)
	}
	if inner := scan.Get(raw, "url_citation"); scan.IsObject(inner) { // chat
		raw = inner
	}
	return appendURLCitation(dst, raw, length)
}

func appendURLCitation(dst, v []byte, length int) []byte {
	url, title := []byte(nil), []byte(`""`)
	start, end := int64(0), int64(length)
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "url":
			url = m.Value
		case "title":
			if scan.IsString(m.Value) {
				title = m.Value
			}
		case "start_index":
			start = index(m.Value, start)
		case "end_index":
			end = index(m.Value, end)
		}
	}
	if !scan.IsString(url) {
		return dst
	}
	dst = append(dst, `{"type":"url_citation","url":`...)
	dst = append(dst, url...)
	dst = append(dst, `,"title":`...)
	dst = append(dst, title...)
	dst = append(dst, `,"start_index":`...)
	dst = strconv.AppendInt(dst, start, 10)
	dst = append(dst, `,"end_index":`...)
	dst = strconv.AppendInt(dst, end, 10)
	return append(dst, '}')
}

// characters counts the characters of a string body.
func characters(body []byte) int {
	n := 0
	for i := 0; i < len(body); n++ {
		switch {
		case body[i] != '\\':
			_, size := utf8.DecodeRune(body[i:])
			i += size
		case i+1 < len(body) && body[i+1] == 'u':
			i += len(`\u0000`)
			if i+1 < len(body) && body[i] == '\\' && body[i+1] == 'u' && lowSurrogate(body[i+2:]) {
				i += len(`\u0000`)
			}
		default:
			i += 2
		}
	}
	return n
}

// lowSurrogate reports whether four hex digits are the second half of a surrogate pair.
func lowSurrogate(hex []byte) bool {
	return len(hex) >= 2 && hex[0]|0x20 == 'd' && (hex[1]|0x20 >= 'c' && hex[1]|0x20 <= 'f')
}
