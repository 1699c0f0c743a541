package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// part reads one content part. An unknown type is kept as it is.
func (d *requestDecoder) part(v []byte) codec.Part {
	p := codec.Part{Kind: codec.PartOpaque}
	var value []byte // the member named after the type, or its equivalent
	var signature []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			p.WireType = scan.Body(m.Value)
		case "text", "image_url", "input_audio", "file", "refusal", "thinking":
			value = m.Value
		case "signature":
			signature = scan.Body(m.Value)
		case "cache_control":
			p.CacheControl = breakpoint(m.Value)
		case "prompt_cache_breakpoint":
			p.MarkBreakpoint(m.Value)
		}
	}
	switch string(p.WireType) {
	case "text", "input_text", "output_text":
		p.Kind, p.Text = codec.PartText, scan.Body(value)
	case "refusal":
		p.Kind, p.Text = codec.PartRefusal, scan.Body(value)
	case "thinking": // Mistral
		p.Kind, p.Text, p.Signature = codec.PartReasoning, d.thinkingText(value), signature
	case "image_url", "input_image":
		d.image(&p, value)
	case "input_audio":
		p.Kind = codec.PartAudio
		p.MediaType, p.Data = scan.Body(scan.Get(value, "format")), d.r.Plain(scan.Body(scan.Get(value, "data")))
	case "file":
		d.file(&p, value)
	}
	if p.Kind == codec.PartOpaque || p.Text == nil && (p.Kind == codec.PartText || p.Kind == codec.PartRefusal) {
		p.Kind, p.Raw, p.Origin = codec.PartOpaque, v, codec.Chat
	}
	return p
}

// thinkingText joins the text chunks of Mistral's thinking chunk.
func (d *requestDecoder) thinkingText(v []byte) []byte {
	if body := scan.Body(v); body != nil {
		return body
	}
	text := d.r.Alloc(len(v))
	for e := scan.Array(v); e.Next(); {
		text = append(text, scan.Body(scan.Get(e.Value, "text"))...)
	}
	return text
}

// image reads a URL or a data URL, bare or in an object with a level of detail.
func (d *requestDecoder) image(p *codec.Part, v []byte) {
	url := scan.Body(v)
	if url == nil {
		for m := scan.Object(v); m.Next(); {
			switch string(m.Key) {
			case "url":
				url = scan.Body(m.Value)
			case "detail":
				p.Detail = scan.Body(m.Value)
			}
		}
	}
	if len(url) == 0 {
		return
	}
	p.Kind = codec.PartImage
	d.source(p, url)
}

func (d *requestDecoder) file(p *codec.Part, v []byte) {
	var data []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "file_data":
			data = scan.Body(m.Value)
		case "file_id":
			p.FileID = scan.Body(m.Value)
		case "filename":
			p.Filename = scan.Body(m.Value)
		}
	}
	if len(data) == 0 && len(p.FileID) == 0 {
		return
	}
	p.Kind = codec.PartDocument
	if len(data) == 0 {
		return
	}
	d.source(p, data)
	if p.Data == nil && !bytes.Contains(p.URL, []byte("://")) { // base64 without the head of a data URL
		p.Data, p.URL = p.URL, nil
		p.MediaType = documentType(p)
	}
}

// documentType recognizes a PDF, the one type that every provider reads, by its first bytes ("%PDF-" in base64) or its
// name.
func documentType(p *codec.Part) []byte {
	if bytes.HasPrefix(p.Data, []byte("JVBERi")) || bytes.HasSuffix(bytes.ToLower(p.Filename), []byte(".pdf")) {
		return []byte("application/pdf")
	}
	return nil
}

// source reads a data URL into media type and data; anything else is a URL.
func (d *requestDecoder) source(p *codec.Part, url []byte) {
	url = d.r.Plain(url)
	mediaType, data, ok := codec.CutDataURL(url)
	if !ok {
		p.URL = url
		return
	}
	p.MediaType, p.Data = mediaType, data
}
