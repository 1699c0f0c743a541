package turns

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Insertions gives what puts a text behind what a person said in an item, as a block of its own. In a chat message it goes to
// the end of the text, because many hosts take nothing but strings, and what is sent must not depend on the form. None means
// that the item has no place for it.
func Insertions(form *codec.ClientTraits, body []byte, item codec.Span, text string) []codec.Insertion {
	raw := item.Of(body)
	if scan.IsString(raw) { // the input of Responses
		return around(item, `[{"role":"user","content":[{"type":"input_text","text":`, appendBlock(append(room(text), '}'), form, text, "]}]"))
	}
	for m := scan.Object(raw); m.Next(); {
		if string(m.Key) != "content" {
			continue
		}
		end := item.Start + m.End
		value := codec.Span{Start: end - len(m.Value), End: end}
		switch {
		case scan.IsString(m.Value) && form.TextAsString:
			return []codec.Insertion{{At: end - 1, Text: scan.Escape(append(room(text), `\n\n`...), []byte(text))}}
		case scan.IsString(m.Value):
			return around(value, `[{"type":"`+form.TextBlock+`","text":`, appendBlock(append(room(text), '}'), form, text, "]"))
		case scan.IsArray(m.Value):
			if at := endOfText(body, value); at > 0 && form.TextAsString {
				return []codec.Insertion{{At: at, Text: scan.Escape(append(room(text), `\n\n`...), []byte(text))}}
			}
			return []codec.Insertion{{At: end - 1, Text: appendBlock(room(text), form, text, "")}}
		}
	}
	return nil
}

func around(span codec.Span, front string, behind []byte) []codec.Insertion {
	return []codec.Insertion{{At: span.Start, Text: []byte(front)}, {At: span.End, Text: behind}}
}

// room is for a text as JSON. About one byte in eight of what is recalled is escaped, and a few stand around it.
func room(text string) []byte { return make([]byte, 0, len(text)+len(text)/8+64) }

// appendBlock appends a text block that stands behind others, and what closes the list.
func appendBlock(dst []byte, form *codec.ClientTraits, text, closing string) []byte {
	dst = append(append(append(dst, `,{"type":"`...), form.TextBlock...), `","text":`...)
	return append(append(scan.Quote(dst, text), '}'), closing...)
}

// endOfText is where the text of the last of a list of blocks ends, 0 where that is no text.
func endOfText(body []byte, list codec.Span) (at int) {
	blocks := scan.Array(list.Of(body))
	for blocks.Next() {
		at = 0
		start := list.Start + blocks.Start
		for m := scan.Object(blocks.Value); m.Next(); {
			if string(m.Key) == "text" && scan.IsString(m.Value) {
				at = start + m.End - 1
			}
		}
	}
	return at
}
