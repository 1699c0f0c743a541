package chat

import (
	"bytes"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
)

// plainChunk recognises the chunk that a stream is made of: the one that differs from a chunk before it in its text (or
// its reasoning) and in nothing else. What lies before and behind the text was read and judged with the chunk it was
// learned from, so that only the text is looked at. That takes a fraction of the time of reading the chunk.
type plainChunk struct {
	head, tail []byte
	kind       codec.ItemType
	idle       int // chunks learned since the last match
}

const (
	maxPlain = 4 << 10 // bytes of text; a longer one gains nothing
	// maxIdle is after how many chunks in a row without a match no further one is learned: some hosts put something
	// random into each chunk.
	maxIdle = 8
)

// learn takes the frame of a chunk that had a single event. A text that occurs twice in the frame teaches nothing: its
// place is not known.
func (p *plainChunk) learn(data []byte, ev *codec.Event) {
	switch ev.Kind {
	case codec.EventText:
		p.kind = codec.ItemText
	case codec.EventReasoning:
		p.kind = codec.ItemReasoning
	default:
		return
	}
	if p.idle == maxIdle {
		return
	}
	p.idle++
	at := bytes.Index(data, ev.Raw)
	end := at + len(ev.Raw)
	if at < 1 || end >= len(data) || data[at-1] != '"' || data[end] != '"' || bytes.Contains(data[at+1:], ev.Raw) {
		p.head = p.head[:0]
		return
	}
	p.head = append(p.head[:0], data[:at]...)
	p.tail = append(p.tail[:0], data[end:]...)
}

func (p *plainChunk) emptied() plainChunk { return plainChunk{head: p.head[:0], tail: p.tail[:0]} }

// match is the text of a frame that is such a chunk.
func (p *plainChunk) match(data []byte) ([]byte, bool) {
	n := len(data) - len(p.head) - len(p.tail)
	if len(p.head) == 0 || n <= 0 || n > maxPlain || !bytes.HasPrefix(data, p.head) || !bytes.HasSuffix(data, p.tail) {
		return nil, false
	}
	text := data[len(p.head) : len(p.head)+n : len(p.head)+n]
	if !plainBody(text) {
		return nil, false
	}
	p.idle = 0
	return text, true
}

// plainBody tells whether b is a string body with no escapes but the two-letter ones.
func plainBody(b []byte) bool {
	ascii := true
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"' || c < 0x20:
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			i++
			if i == len(b) {
				return false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return false
			}
		}
	}
	return ascii || utf8.Valid(b)
}
