package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func (w *requestWriter) messages(dst []byte) []byte {
	if len(w.r.Instructions) > 0 {
		dst = w.open(dst, w.systemRole(codec.RoleSystem))
		dst = w.textContent(dst, w.r.Instructions, w.d.SystemAsString)
		dst = append(dst, '}')
	}
	for i := range w.r.Messages {
		dst = w.message(dst, &w.r.Messages[i])
	}
	return dst
}

// open begins a message, with the comma before it.
func (w *requestWriter) open(dst []byte, role string) []byte {
	if w.written > 0 {
		dst = append(dst, ',')
	}
	w.written++
	dst = append(dst, `{"role":"`...)
	dst = append(dst, role...)
	return append(dst, '"')
}

// systemRole returns the target's name for that role: OpenAI's reasoning models want developer, most hosts only know
// system (P63).
func (w *requestWriter) systemRole(role codec.Role) string {
	if w.d.DeveloperRole && (role == codec.RoleDeveloper || w.t.ReasoningModel) {
		return "developer"
	}
	return "system"
}

func (w *requestWriter) message(dst []byte, m *codec.Message) []byte {
	switch m.Role {
	case codec.RoleSystem, codec.RoleDeveloper:
		dst = w.open(dst, w.systemRole(m.Role))
		dst = w.name(dst, m)
		dst = w.textContent(dst, m.Parts, w.d.SystemAsString)
		return append(dst, '}')
	case codec.RoleUser:
		dst = w.open(dst, "user")
		dst = w.name(dst, m)
		dst = w.partContent(dst, m.Parts, w.d.ImagesInUser)
		return append(dst, '}')
	case codec.RoleAssistant:
		return w.assistant(dst, m, m == &w.r.Messages[len(w.r.Messages)-1])
	case codec.RoleTool:
		for i := range m.Parts {
			dst = w.result(dst, &m.Parts[i])
		}
	}
	return dst
}

func (w *requestWriter) name(dst []byte, m *codec.Message) []byte {
	if len(m.Name) == 0 {
		return dst
	}
	if w.d.Name == dialectMistral {
		w.r.Notes.Drop("messages.name")
		return dst
	}
	return scan.QuoteBody(append(dst, `,"name":`...), m.Name)
}

// textContent writes the content of a message of texts: one text as a string, several as parts, so that each keeps its
// own bytes and its cache breakpoint, or joined if the target wants a string.
func (w *requestWriter) textContent(dst []byte, parts []codec.Part, joined bool) []byte {
	if joined {
		return w.joinedContent(dst, parts, `\n\n`)
	}
	return w.partContent(dst, parts, w.d.ImagesInUser)
}

// joinedContent writes all texts as one string.
func (w *requestWriter) joinedContent(dst []byte, parts []codec.Part, separator string) []byte {
	dst = append(dst, `,"content":"`...)
	for i, first := 0, true; i < len(parts); i++ {
		before := len(dst)
		if !first {
			dst = append(dst, separator...)
		}
		at := len(dst)
		if dst = w.inText(dst, &parts[i]); len(dst) == at {
			dst = dst[:before]
			continue
		}
		first = false
	}
	return append(dst, '"')
}

// inText writes a part as text inside a string: anything except text leaves a mark.
func (w *requestWriter) inText(dst []byte, p *codec.Part) []byte {
	switch p.Kind {
	case codec.PartText, codec.PartRefusal:
		return append(dst, p.Text...)
	case codec.PartImage:
		return append(dst, w.omitted("image", "[image omitted: this model takes none here]")...)
	case codec.PartDocument:
		if len(p.Text) > 0 {
			return append(dst, p.Text...)
		}
		return append(dst, w.omitted("document", "[document omitted: this model takes none here]")...)
	case codec.PartAudio:
		return append(dst, w.omitted("audio", "[audio omitted: this model takes none here]")...)
	case codec.PartServerTool, codec.PartOpaque, codec.PartToolRef:
		w.drop("content.", p.WireType)
	}
	return dst
}

// omitted notes that a medium was left out of the conversation; the mark tells the model that something was there.
func (w *requestWriter) omitted(what, mark string) string {
	w.r.Notes.Drop(what)
	return mark
}

// partContent writes content as a string if it is one text, else as a list of parts.
func (w *requestWriter) partContent(dst []byte, parts []codec.Part, images bool) []byte {
	dst = append(dst, `,"content":`...)
	if text, ok := w.oneText(parts); ok {
		return scan.QuoteBody(dst, text)
	}
	dst = append(dst, '[')
	for i, n := 0, 0; i < len(parts); i++ {
		at := len(dst)
		if n > 0 {
			dst = append(dst, ',')
		}
		before := len(dst)
		if dst = w.part(dst, &parts[i], images); len(dst) == before {
			dst = dst[:at]
			continue
		}
		n++
	}
	return append(dst, ']')
}

// oneText returns the text of content that is a single text without a breakpoint, or empty.
func (w *requestWriter) oneText(parts []codec.Part) ([]byte, bool) {
	switch {
	case len(parts) == 0:
		return nil, true
	case len(parts) > 1 || parts[0].Kind != codec.PartText:
		return nil, false
	}
	return parts[0].Text, len(w.mark(nil, &parts[0])) == 0
}

func (w *requestWriter) part(dst []byte, p *codec.Part, images bool) []byte {
	switch p.Kind {
	case codec.PartImage:
		if images {
			return w.image(dst, p)
		}
	case codec.PartDocument:
		if images && (p.Data != nil || p.FileID != nil || p.URL != nil) {
			return w.document(dst, p)
		}
	case codec.PartAudio:
		if w.takesAudio() {
			return w.audio(dst, p)
		}
	case codec.PartOpaque:
		if p.Origin == codec.Chat && w.openAI() {
			return append(dst, p.Raw...)
		}
	}
	before := len(dst)
	dst = append(dst, `{"type":"text","text":"`...)
	at := len(dst)
	if dst = w.inText(dst, p); len(dst) == at && p.Kind != codec.PartText {
		return dst[:before]
	}
	dst = append(dst, '"')
	return append(w.mark(dst, p), '}')
}

func (w *requestWriter) image(dst []byte, p *codec.Part) []byte {
	if p.Data == nil && p.URL == nil { // a file stored at some provider
		return append(append(append(dst, `{"type":"text","text":"`...), w.omitted("image", "[image omitted]")...), `"}`...)
	}
	dst = append(dst, `{"type":"image_url","image_url":{"url":"`...)
	if dst = appendSource(dst, p); len(p.Detail) > 0 {
		dst = append(dst, `","detail":"`...)
		dst = append(dst, p.Detail...)
	}
	dst = append(dst, `"}`...)
	return append(w.mark(dst, p), '}')
}

// appendSource writes a data URL or a URL. Data of an unknown type is written as bare base64, as it arrived.
func appendSource(dst []byte, p *codec.Part) []byte {
	switch {
	case p.Data == nil:
		return append(dst, p.URL...)
	case len(p.MediaType) == 0:
		return append(dst, p.Data...)
	}
	dst = append(dst, "data:"...)
	dst = append(dst, p.MediaType...)
	dst = append(dst, ";base64,"...)
	return append(dst, p.Data...)
}

func (w *requestWriter) document(dst []byte, p *codec.Part) []byte {
	switch {
	case w.d.Name == dialectMistral && p.FileID == nil:
		dst = append(dst, `{"type":"document_url","document_url":"`...)
		dst = append(appendSource(dst, p), '"')
		if len(p.Filename) > 0 {
			dst = scan.QuoteBody(append(dst, `,"document_name":`...), p.Filename)
		}
		return append(dst, '}')
	case p.FileID != nil:
		dst = append(dst, `{"type":"file","file":{"file_id":`...)
		dst = scan.QuoteBody(dst, p.FileID)
	case p.Data == nil: // the format has no URL for a document; the model may be able to use it
		w.r.Notes.Drop("document.url")
		dst = append(dst, `{"type":"text","text":"`...)
		return append(append(dst, p.URL...), `"}`...)
	default:
		dst = append(dst, `{"type":"file","file":{"file_data":"`...)
		dst = append(appendSource(dst, p), '"')
		dst = append(dst, `,"filename":`...)
		dst = scan.QuoteBody(dst, documentName(p))
	}
	dst = append(dst, '}')
	return append(w.mark(dst, p), '}')
}

// documentName returns the name of a document, which OpenAI requires with its data.
func documentName(p *codec.Part) []byte {
	switch {
	case len(p.Filename) > 0:
		return p.Filename
	case string(p.MediaType) == "application/pdf":
		return []byte("document.pdf")
	}
	return []byte("document")
}

// takesAudio uses what is known about the hosts; hosts of open models report themselves if a model accepts no audio.
func (w *requestWriter) takesAudio() bool {
	return w.openAI() || w.d.Name == dialectMistral || w.d.Name == dialectCompatible || w.t.Family == codec.FamilyGoogle
}

func (w *requestWriter) audio(dst []byte, p *codec.Part) []byte {
	format := p.MediaType
	if i := bytes.LastIndexByte(format, '/'); i >= 0 {
		format = format[i+1:]
	}
	switch string(format) {
	case "mpeg", "mpeg3", "x-mpeg":
		format = []byte("mp3")
	case "x-wav", "wave", "vnd.wave":
		format = []byte("wav")
	}
	if w.d.Name == dialectMistral {
		return append(append(append(dst, `{"type":"input_audio","input_audio":"`...), p.Data...), `"}`...)
	}
	dst = append(dst, `{"type":"input_audio","input_audio":{"data":"`...)
	dst = append(dst, p.Data...)
	dst = append(dst, `","format":"`...)
	dst = append(dst, format...)
	return append(dst, `"}}`...)
}

// result writes one tool message: content is text, with images only if the target accepts them here.
func (w *requestWriter) result(dst []byte, p *codec.Part) []byte {
	if p.Kind != codec.PartToolResult {
		return dst
	}
	dst = w.open(dst, "tool")
	dst = append(dst, `,"tool_call_id":`...)
	dst = scan.QuoteBody(dst, p.CallID)
	if w.d.ToolTextAsString {
		dst = w.joinedContent(dst, p.Parts, `\n`)
	} else {
		dst = w.partContent(dst, p.Parts, w.t.ImagesInResults)
	}
	return append(dst, '}')
}
