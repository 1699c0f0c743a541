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
		return around(item, `[{"role":"user","content":[{"type":"input_text","text":`, "}"+block(form, text)+"]}]")
	}
	for m := scan.Object(raw); m.Next(); {
		if string(m.Key) != "content" {
			continue
		}
		end := item.Start + m.End
		value := codec.Span{Start: end - len(m.Value), End: end}
		switch {
		case scan.IsString(m.Value) && form.TextAsString:
			return []codec.Insertion{{At: end - 1, Text: scan.Escape([]byte(`\n\n`), []byte(text))}}
		case scan.IsString(m.Value):
			return around(value, `[{"type":"`+form.TextBlock+`","text":`, "}"+block(form, text)+"]")
		case scan.IsArray(m.Value):
			if at := endOfText(body, value); at > 0 && form.TextAsString {
				return []codec.Insertion{{At: at, Text: scan.Escape([]byte(`\n\n`), []byte(text))}}
			}
			return []codec.Insertion{{At: end - 1, Text: []byte(block(form, text))}}
		}
	}
	return nil
}

func around(span codec.Span, front, behind string) []codec.Insertion {
	return []codec.Insertion{{At: span.Start, Text: []byte(front)}, {At: span.End, Text: []byte(behind)}}
}

// block is a text block behind others.
func block(form *codec.ClientTraits, text string) string {
	return `,{"type":"` + form.TextBlock + `","text":` + string(scan.Quote(nil, text)) + "}"
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
