package codec

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// CutDataURL takes a base64 data URL (RFC 2397) apart: its media type without parameters, "" where it names none, and its
// data. ok is false for any other address. The results are views into url, which is a string body as [Request.Plain] has it.
func CutDataURL(url []byte) (mediaType, data []byte, ok bool) {
	head, data, whole := bytes.Cut(url, []byte(","))
	head, isData := bytes.CutPrefix(head, []byte("data:"))
	head, isBase64 := bytes.CutSuffix(head, []byte(";base64"))
	if !whole || !isData || !isBase64 {
		return nil, nil, false
	}
	mediaType, _, _ = bytes.Cut(head, []byte(";"))
	return mediaType, data, true
}

// Plain is a string body without needless escapes: some clients write the slashes of addresses and of base64 as \/. It is
// body itself where that has no escapes, and otherwise valid until the request is Reset.
func (r *Request) Plain(body []byte) []byte {
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	text := scan.Unescape(r.Alloc(len(body)), body)
	return scan.Escape(r.Alloc(len(text)), text)
}
