package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Where a proxy asks for the token counts of a chat stream and its client did not, the client gets the stream that it
// would have got: without the chunk of counts, and without the member that says of every other chunk that it has none.

var usageMember = []byte(`"usage"`)

// IsUsageChunk reports whether a frame of a chat stream exists only for include_usage: it has token counts and no
// choice.
func IsUsageChunk(data []byte) bool {
	if !holds(data, usageMember, '{') {
		return false
	}
	choices := scan.Get(data, "choices")
	elements := scan.Array(choices)
	none := choices == nil || scan.IsNull(choices) || scan.IsArray(choices) && !elements.Next()
	return none && scan.IsObject(scan.Get(data, "usage"))
}

// AppendWithoutUsage appends frames of a chat stream without the member "usage":null of their chunks. Every other byte
// stays. If there is no such member, it appends nothing and changed is false.
func AppendWithoutUsage(dst, frames []byte) (out []byte, changed bool) {
	from := 0
	var place place
	for at := 0; ; {
		i := bytes.Index(frames[at:], usageMember)
		if i < 0 {
			break
		}
		i += at
		at = i + len(usageMember)
		cut, ok := place.nullMember(frames, i)
		if !ok || cut.Start < from {
			continue
		}
		dst = append(dst, frames[from:cut.Start]...)
		from, at, changed = cut.End, cut.End, true
	}
	if !changed {
		return dst, false
	}
	return append(dst, frames[from:]...), true
}

// nullMember returns the range of the member whose name begins at i, with one comma, if its value is null and it is a
// member of a chunk itself. In text, the quotes of its name would be escaped.
func (p *place) nullMember(frames []byte, i int) (codec.Span, bool) {
	end := scan.Space(frames, i+len(usageMember))
	if end >= len(frames) || frames[end] != ':' {
		return codec.Span{}, false
	}
	end = scan.Space(frames, end+1)
	if !bytes.HasPrefix(frames[end:], null) {
		return codec.Span{}, false
	}
	end += len(null)
	start := i
	for start > 0 && isSpace(frames[start-1]) {
		start--
	}
	switch {
	case start > 0 && frames[start-1] == ',':
		if followsChoices := bytes.HasSuffix(frames[:start-1], choicesEnd); followsChoices || p.inChunk(frames, i) {
			return codec.Span{Start: start - 1, End: end}, true
		}
	case start > 0 && frames[start-1] == '{' && p.inChunk(frames, i):
		if next := scan.Space(frames, end); next < len(frames) && frames[next] == ',' {
			end = scan.Space(frames, next+1)
		}
		return codec.Span{Start: i, End: end}, true
	}
	return codec.Span{}, false
}

var (
	null       = []byte("null")
	choicesEnd = []byte("}]") // what OpenAI's own chunks have before the member: a list of objects, and there is but one
)

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// place is a position in frames: how deep in the objects of its line it is, and whether in a text. It only moves on, so
// that frames are read once.
type place struct {
	at, depth int
	text      bool
}

// inChunk moves to i and reports whether that is in the object that its line holds, and in none within.
func (p *place) inChunk(frames []byte, i int) bool {
	if p.at > i {
		return false
	}
	if line := bytes.LastIndexByte(frames[p.at:i], '\n'); line >= 0 {
		*p = place{at: p.at + line + 1}
	}
	for ; p.at < i; p.at++ {
		switch c := frames[p.at]; {
		case p.text && c == '\\':
			p.at++
		case c == '"':
			p.text = !p.text
		case p.text:
		case c == '{' || c == '[':
			p.depth++
		case c == '}' || c == ']':
			p.depth--
		}
	}
	return p.depth == 1 && !p.text
}
