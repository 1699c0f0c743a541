package bench

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// saying is the content that answers of every format have: the text and the calls' arguments, each joined and still
// escaped, and whether the answer was complete.
type saying struct {
	text      []byte
	arguments []byte
	deltas    int
	ended     bool
}

func (s *saying) reset() {
	s.text, s.arguments, s.deltas, s.ended = s.text[:0], s.arguments[:0], 0, false
}

// frame adds one event of a stream. It searches for members by name instead of parsing, because the load must cost less
// than what it measures.
func (s *saying) frame(surface codec.Format, f *sse.Frame) {
	data := f.Data
	switch surface {
	case codec.Chat:
		if bytes.Equal(data, []byte("[DONE]")) {
			s.ended = true
			return
		}
		s.add(&s.text, data, `"content"`)
		s.add(&s.arguments, data, `"arguments"`)
	case codec.Responses:
		switch string(f.Name) {
		case "response.output_text.delta":
			s.add(&s.text, data, `"delta"`)
		case "response.function_call_arguments.delta":
			s.add(&s.arguments, data, `"delta"`)
		case "response.completed":
			s.ended = true
		}
	case codec.Messages:
		switch string(f.Name) {
		case "content_block_delta":
			if bytes.Contains(data, []byte(`"text_delta"`)) {
				s.add(&s.text, data, `"text"`)
			} else {
				s.add(&s.arguments, data, `"partial_json"`)
			}
		case "message_stop":
			s.ended = true
		}
	}
}

// whole adds a complete answer.
func (s *saying) whole(surface codec.Format, body []byte) {
	switch surface {
	case codec.Chat:
		s.add(&s.text, body, `"content"`)
	case codec.Embeddings:
		s.add(&s.text, body, `"embedding"`)
	default:
		s.add(&s.text, body, `"text"`)
	}
	s.ended = len(body) > 0 && bytes.TrimRight(body, "\n ")[0] == '{'
}

// add appends the first string of a member.
func (s *saying) add(to *[]byte, data []byte, member string) {
	for {
		i := bytes.Index(data, []byte(member))
		if i < 0 {
			return
		}
		data = data[i+len(member):]
		if value, ok := stringAfterColon(data); ok {
			if len(value) > 0 {
				*to = append(*to, value...)
				s.deltas++
			}
			return
		}
	}
}

// stringAfterColon returns the content of the string in `: "content"`.
func stringAfterColon(b []byte) ([]byte, bool) {
	if len(b) == 0 || b[0] != ':' {
		return nil, false
	}
	b = bytes.TrimLeft(b[1:], " ")
	if len(b) == 0 || b[0] != '"' {
		return nil, false
	}
	b = b[1:]
	for from := 0; ; {
		i := bytes.IndexByte(b[from:], '"')
		if i < 0 {
			return nil, false
		}
		end := from + i
		slashes := 0
		for slashes < end && b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return b[:end], true
		}
		from = end + 1
	}
}

// matches reports whether an answer has the expected content. Stamped texts differ from each other, as do the vectors
// of different inputs; for these only the length has to match.
func (s *saying) matches(want *saying, l *lane) bool {
	if !s.ended || !bytes.Equal(s.arguments, want.arguments) {
		return false
	}
	if l.stamped() || l.surface == codec.Embeddings {
		return len(s.text) == len(want.text)
	}
	return bytes.Equal(s.text, want.text)
}
