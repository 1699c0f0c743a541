package turns

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Insertions returns the insertions that add a text after what a person said in an item, as a block of its own. In a
// chat message it is added to the end of the text, because many hosts accept only strings, and what is sent must not
// depend on the form. No insertions means that the item has no place for it.
func Insertions(form *codec.ClientTraits, body []byte, item codec.Span, text string) []codec.Insertion {
	raw := item.Of(body)
	if scan.IsString(raw) { // the input of Responses
		return around(item, `[{"role":"user","content":[{"type":"input_text","text":`, appendBlock(append(room(text), '}'), form, text, "]}]"))
	}
	for m := scan.Object(raw); m.Next(); {
		if string(m.Key) != "content" && string(m.Key) != "parts" {
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

// room returns a buffer for a text as JSON. About one byte in eight of recalled text is escaped, and a few bytes
// surround it.
func room(text string) []byte { return make([]byte, 0, len(text)+len(text)/8+64) }

// appendBlock appends a text block after others, and the end of the list.
func appendBlock(dst []byte, form *codec.ClientTraits, text, closing string) []byte {
	dst = append(dst, `,{`...)
	if !form.BareBlocks {
		dst = append(append(append(dst, `"type":"`...), form.TextBlock...), `",`...)
	}
	dst = append(dst, `"text":`...)
	return append(append(scan.Quote(dst, text), '}'), closing...)
}

// endOfText returns where the text of the last block of a list ends, 0 if that block is not text.
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
