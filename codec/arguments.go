package codec

import "github.com/mnemeproxy/mneme/codec/scan"

// AppendArguments appends the arguments of a call as a JSON object, for messages and gemini: p.Arguments itself, or its
// unescaped text if p.ArgumentsEscaped is set. No arguments become {}. Anything that is not a JSON object, such as the
// arguments of a truncated call in the history, is wrapped as {"_raw": …}, so that the conversation can continue; then
// ok is false, for a note.
//
// Bytes are kept: order of members, spelling of numbers and escapes inside strings. It does not allocate beyond growing
// dst.
func AppendArguments(dst []byte, p *Part) (out []byte, ok bool) {
	if !p.ArgumentsEscaped {
		return appendArgumentsObject(dst, p.Arguments)
	}
	if scan.Blank(p.Arguments) {
		return append(dst, "{}"...), true
	}
	from := len(dst)
	dst = scan.Unescape(dst, p.Arguments)
	if text := dst[from:]; scan.IsObject(text) && scan.Valid(text) {
		return dst, true
	}
	dst = append(dst[:from], `{"_raw":"`...)
	dst = append(dst, p.Arguments...)
	return append(dst, `"}`...), false
}

func appendArgumentsObject(dst, value []byte) (out []byte, ok bool) {
	switch {
	case scan.IsNull(value):
		return append(dst, "{}"...), true
	case scan.IsObject(value):
		return append(dst, value...), true
	}
	dst = append(dst, `{"_raw":`...)
	dst = append(dst, value...)
	return append(dst, '}'), false
}
