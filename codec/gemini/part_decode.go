package gemini

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// part reads one part: text, a call, or a kind that only this format has, each possibly with a signature.
func (d *decoder) part(dst []codec.Event, c *cursor) []codec.Event {
	from := c.i
	if !c.enter('{') {
		c.value()
		return dst
	}
	var text, call, signature, media []byte
	var thought, hasText, serverTool, other bool
	for c.next('}') {
		switch string(c.key()) {
		case "text":
			text = scan.Body(c.value())
			hasText = text != nil
		case "thought":
			thought = scan.IsTrue(c.value())
		case "thoughtSignature":
			signature = scan.Body(c.value())
		case "functionCall":
			call = c.value()
		case "inlineData", "fileData":
			media = c.value()
			other = true
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse":
			serverTool = true
			c.value()
		case "videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata", "audioTranscription", "speechMetadata":
			c.value()
		default:
			other = true
			c.value()
		}
	}
	raw := c.doc[from:c.i:c.i]
	switch {
	case scan.IsObject(call):
		return d.call(dst, call, signature)
	case serverTool:
		return d.whole(dst, codec.ItemServerTool, nil, raw)
	case media != nil && isPicture(media):
		return d.picture(dst, media)
	case other && !hasText:
		return d.whole(dst, codec.ItemOpaque, scan.Body(scan.Get(media, "mimeType")), raw)
	case thought:
		return d.thought(dst, text, signature)
	}
	return d.text(dst, text, signature)
}

// text opens no item for an empty text. A signature without anything else belongs to the open item: the text that it
// ends, or the thoughts that it proves.
func (d *decoder) text(dst []codec.Event, text, signature []byte) []codec.Event {
	if len(text) == 0 && len(signature) == 0 {
		return dst
	}
	if len(text) > 0 || d.open != codec.ItemReasoning {
		dst = d.grow(dst, codec.ItemText)
	}
	if len(text) > 0 {
		d.citations.keep(text)
		dst = append(dst, codec.Event{Kind: codec.EventText, Item: d.next - 1, Raw: text})
	}
	return d.sign(dst, signature)
}

// thought joins neighboring thought parts into one item: they are pieces of one summary.
func (d *decoder) thought(dst []codec.Event, text, signature []byte) []codec.Event {
	if len(text) == 0 && len(signature) == 0 {
		return dst
	}
	dst = d.grow(dst, codec.ItemReasoning)
	if len(text) > 0 {
		dst = append(dst, codec.Event{Kind: codec.EventReasoning, Item: d.next - 1, Raw: text, Summary: true})
	}
	return d.sign(dst, signature)
}

func (d *decoder) sign(dst []codec.Event, signature []byte) []codec.Event {
	if len(signature) == 0 {
		return dst
	}
	return append(dst, codec.Event{Kind: codec.EventSignature, Item: d.next - 1, Raw: signature, Family: codec.FamilyGoogle})
}

// call reads a whole call. The id may be missing: crossing generates one. A call without a name cannot be answered, so
// it is not shown; the finish reason reports it.
func (d *decoder) call(dst []codec.Event, call, signature []byte) []codec.Event {
	var id, name, args []byte
	for m := scan.Object(call); m.Next(); {
		switch string(m.Key) {
		case "id":
			id = scan.Body(m.Value)
		case "name":
			name = scan.Body(m.Value)
		case "args":
			args = m.Value
		}
	}
	if len(name) == 0 {
		d.malformed = true
		return dst
	}
	dst = d.close(dst)
	item := d.next
	d.next++
	d.calls++
	dst = append(dst, codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: item, CallID: id, Name: name})
	dst = append(dst, codec.Event{Kind: codec.EventArguments, Item: item, Raw: d.arguments(args), Whole: true})
	dst = d.sign(dst, signature)
	return append(dst, codec.Event{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: item})
}

// arguments returns the object as a string body. Complete answers are indented, and clients resend arguments on every
// later turn, so white space between tokens is removed. Keys keep their order and numbers their digits.
func (d *decoder) arguments(args []byte) []byte {
	if !scan.IsObject(args) {
		return []byte(`{}`)
	}
	if bytes.IndexByte(args, '\n') >= 0 {
		from := len(d.scratch)
		d.scratch = appendCompact(d.scratch, args)
		args = d.scratch[from:]
	}
	from := len(d.scratch)
	d.scratch = scan.Escape(d.scratch, args)
	return d.scratch[from:len(d.scratch):len(d.scratch)]
}

// appendCompact appends a JSON value without the white space between its tokens.
func appendCompact(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch value[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := scan.Skip(value, i)
			dst = append(dst, value[i:end]...)
			i = end
		default:
			dst = append(dst, value[i])
			i++
		}
	}
	return dst
}

// whole emits an item that this format sends in one piece and in its own shape. name is its media type, if it has one.
func (d *decoder) whole(dst []codec.Event, kind codec.ItemType, name, part []byte) []codec.Event {
	dst = d.close(dst)
	item := d.next
	d.next++
	return append(dst,
		codec.Event{Kind: codec.EventItemOpen, Type: kind, Item: item, Name: name, Origin: codec.Gemini},
		codec.Event{Kind: codec.EventItemClose, Type: kind, Item: item, Raw: part, Origin: codec.Gemini})
}

func isPicture(media []byte) bool {
	return bytes.HasPrefix(scan.Body(scan.Get(media, "mimeType")), []byte("image/")) && scan.IsString(scan.Get(media, "data"))
}

// picture emits an image, which arrives in one piece.
func (d *decoder) picture(dst []codec.Event, media []byte) []codec.Event {
	dst = d.close(dst)
	item := d.next
	d.next++
	return append(dst,
		codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemImage, Item: item, Name: scan.Body(scan.Get(media, "mimeType"))},
		codec.Event{Kind: codec.EventItemClose, Type: codec.ItemImage, Item: item, Raw: scan.Body(scan.Get(media, "data"))})
}

// grow opens an item of the kind unless it is open.
func (d *decoder) grow(dst []codec.Event, kind codec.ItemType) []codec.Event {
	if d.open == kind {
		return dst
	}
	dst = d.close(dst)
	d.open = kind
	d.next++
	if kind == codec.ItemText {
		d.citations.begin()
	}
	return append(dst, codec.Event{Kind: codec.EventItemOpen, Type: kind, Item: d.next - 1})
}

func (d *decoder) close(dst []codec.Event) []codec.Event {
	if d.open == 0 {
		return dst
	}
	dst = append(dst, codec.Event{Kind: codec.EventItemClose, Type: d.open, Item: d.next - 1})
	d.open = 0
	return dst
}
