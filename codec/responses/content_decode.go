package responses

import (
	"fmt"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// partCount returns the number of parts in a content value.
func partCount(v []byte) int {
	if scan.IsArray(v) {
		return scan.Count(v)
	}
	return 1
}

// content appends the parts of a content value: a string, or a list of parts.
func (d *decoder) content(parts []codec.Part, v []byte, path string) ([]codec.Part, error) {
	switch {
	case scan.IsNull(v):
		return parts, nil
	case scan.IsString(v):
		return append(parts, codec.Part{Kind: codec.PartText, Text: scan.Body(v)}), nil
	case !scan.IsArray(v):
		return parts, codec.Invalid(path, "content must be a string or a list of parts")
	}
	index := 0
	for e := scan.Array(v); e.Next(); index++ {
		if scan.IsString(e.Value) {
			parts = append(parts, codec.Part{Kind: codec.PartText, Text: scan.Body(e.Value)})
			continue
		}
		if !scan.IsObject(e.Value) {
			return parts, codec.Invalid(fmt.Sprintf("%s[%d]", path, index), "a content part must be an object")
		}
		parts = append(parts, d.part(e.Value))
	}
	return parts, nil
}

// part decodes one content part. A part of unknown type is kept whole.
func (d *decoder) part(v []byte) codec.Part {
	var wireType, text, refusal, annotations, breakpoint []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			wireType = scan.Body(m.Value)
		case "text":
			text = scan.Body(m.Value)
		case "refusal":
			refusal = scan.Body(m.Value)
		case "annotations":
			annotations = m.Value
		case "prompt_cache_breakpoint":
			breakpoint = m.Value
		}
	}
	p := codec.Part{Kind: codec.PartOpaque, Raw: v, WireType: wireType, Origin: codec.Responses}
	switch string(wireType) {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		if text != nil {
			p = codec.Part{Kind: codec.PartText, Text: text}
		}
		if p.Kind == codec.PartText && scan.Count(annotations) > 0 {
			p.Citations, p.Origin = annotations, codec.Responses
		}
	case "refusal":
		if refusal != nil {
			p = codec.Part{Kind: codec.PartRefusal, Text: refusal}
		}
	case "input_image":
		p = d.image(v)
	case "input_file":
		p = d.file(v)
	case "input_audio":
		p = d.audio(v)
	}
	p.MarkBreakpoint(breakpoint)
	return p
}

// image decodes an input_image, or the screenshot of a computer call.
func (d *decoder) image(v []byte) codec.Part {
	p := codec.Part{Kind: codec.PartImage}
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "image_url":
			url := scan.Body(m.Value)
			if scan.IsObject(m.Value) { // the shape of Chat Completions
				url = scan.Body(scan.Get(m.Value, "url"))
				p.Detail = scan.Body(scan.Get(m.Value, "detail"))
			}
			d.source(&p, url)
		case "file_id":
			p.FileID = scan.Body(m.Value)
		case "detail":
			p.Detail = scan.Body(m.Value)
		}
	}
	if p.Data == nil && p.URL == nil && p.FileID == nil {
		return codec.Part{Kind: codec.PartOpaque, Raw: v, WireType: scan.Body(scan.Get(v, "type")), Origin: codec.Responses}
	}
	return p
}

func (d *decoder) file(v []byte) codec.Part {
	p := codec.Part{Kind: codec.PartDocument}
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "file_data":
			d.source(&p, scan.Body(m.Value))
			if p.URL != nil { // base64 without the prefix of a data URL
				p.Data, p.URL = p.URL, nil
			}
		case "file_url":
			d.source(&p, scan.Body(m.Value))
		case "file_id":
			p.FileID = scan.Body(m.Value)
		case "filename":
			p.Filename = scan.Body(m.Value)
		case "detail":
			p.Detail = scan.Body(m.Value)
		}
	}
	if p.Data != nil && p.MediaType == nil {
		p.MediaType = []byte("application/pdf")
	}
	return p
}

// audio decodes an input_audio in both of its shapes: an object with data and format, or a data URL.
func (d *decoder) audio(v []byte) codec.Part {
	p := codec.Part{Kind: codec.PartAudio}
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "audio_url":
			d.source(&p, scan.Body(m.Value))
		case "input_audio":
			p.Data = d.r.Plain(scan.Body(scan.Get(m.Value, "data")))
			p.MediaType = scan.Body(scan.Get(m.Value, "format"))
		}
	}
	return p
}

// source stores the media type and data of a base64 data URL, or any other URL itself.
func (d *decoder) source(p *codec.Part, url []byte) {
	mediaType, data, ok := codec.CutDataURL(d.r.Plain(url))
	if !ok {
		p.URL = url
		return
	}
	if len(mediaType) > 0 {
		p.MediaType = mediaType
	}
	p.Data = data
}
