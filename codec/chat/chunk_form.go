package chat

import (
	"bytes"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
)

// chunkForm recognises the chunk that a stream is made of: the one that differs from a chunk before it in the text of
// one delta and in nothing else, but perhaps in the padding that OpenAI adds to hide lengths. What stands around the
// text was validated and read with the chunk that the form was learned from, so that only the text has to be looked at.
// That takes a tenth of the time of reading the chunk.
type chunkForm struct {
	head   []byte // up to the text and with the quote before it; empty when no form is known
	tail   []byte // from the quote behind the text; up to the padding and with the quote before it where there is one
	end    []byte // from the quote behind the padding; nil where there is none
	event  codec.Event
	wasted int // forms learned since the last chunk that had one
}

// maxWasted is after how many forms in a row that fitted no chunk no further one is learned: some hosts put something
// else into every chunk.
const maxWasted = 8

var padding = []byte(`"obfuscation":"`)

// learn takes the form of a chunk that had a single event. Its text has to be a view into the frame.
func (f *chunkForm) learn(data []byte, ev *codec.Event) {
	switch ev.Kind {
	case codec.EventText, codec.EventReasoning, codec.EventArguments:
	default:
		return
	}
	at, ok := place(data, ev.Raw)
	if f.wasted == maxWasted || !ok {
		return
	}
	f.wasted++
	f.event = codec.Event{Kind: ev.Kind, Item: ev.Item}
	f.head = append(f.head[:0], data[:at]...)
	tail := data[at+len(ev.Raw):]
	f.end = f.end[:0]
	if i := bytes.Index(tail, padding); i >= 0 {
		i += len(padding)
		if n, ok := plainText(tail[i:]); ok {
			f.end = append(f.end, tail[i+n:]...)
			tail = tail[:i]
		}
	}
	f.tail = append(f.tail[:0], tail...)
}

// place is where text, a view into data, stands in it between quotes.
func place(data, text []byte) (int, bool) {
	for at := 1; ; at++ {
		i := bytes.Index(data[at:], text)
		if i < 0 {
			return 0, false
		}
		at += i
		if &data[at] == &text[0] {
			end := at + len(text)
			return at, data[at-1] == '"' && end < len(data) && data[end] == '"'
		}
	}
}

// forget is for when the same bytes begin to mean something else.
func (f *chunkForm) forget() { f.head = f.head[:0] }

func (f *chunkForm) emptied() chunkForm {
	return chunkForm{head: f.head[:0], tail: f.tail[:0], end: f.end[:0]}
}

// match gives the event of a frame that has the form.
func (f *chunkForm) match(data []byte) (codec.Event, bool) {
	if len(f.head) == 0 || !bytes.HasPrefix(data, f.head) {
		return codec.Event{}, false
	}
	rest := data[len(f.head):]
	n, ok := plainText(rest)
	if !ok || n == 0 {
		return codec.Event{}, false
	}
	text := rest[:n:n]
	rest = rest[n:]
	if len(f.end) > 0 {
		if !bytes.HasPrefix(rest, f.tail) {
			return codec.Event{}, false
		}
		rest = rest[len(f.tail):]
		n, ok := plainText(rest)
		if !ok || !bytes.Equal(rest[n:], f.end) {
			return codec.Event{}, false
		}
	} else if !bytes.Equal(rest, f.tail) {
		return codec.Event{}, false
	}
	f.wasted = 0
	ev := f.event
	ev.Raw = text
	return ev, true
}

// plainText is the length of the string body that b begins with, up to its quote, where the body is UTF-8 and has no
// escapes but those of two letters.
func plainText(b []byte) (n int, ok bool) {
	ascii := true
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i, ascii || utf8.Valid(b[:i])
		case c < 0x20:
			return 0, false
		case c >= utf8.RuneSelf:
			ascii = false
		case c == '\\':
			i++
			if i == len(b) {
				return 0, false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return 0, false
			}
		}
	}
	return 0, false
}
