package codec

import "github.com/mnemeproxy/mneme/codec/scan"

// AppendArguments writes the arguments of a call as the JSON object that messages and gemini want: p.Arguments itself,
// or the object whose text it is where p.ArgumentsEscaped is set. No arguments give {}. What is not a JSON object, such
// as the arguments of a call that was cut off and stayed in the history, is wrapped as {"_raw": …}, so that the
// conversation can go on; then ok is false, for a note.
//
// Bytes are kept as they are: order of members, spelling of numbers and escapes inside strings. It does not allocate
// beyond growing dst.
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
