package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// input writes the conversation as a list of items.
func (e *encoder) input() {
	e.first = true
	if _, said := e.instructions(); !said && len(e.r.Instructions) > 0 {
		e.message(&codec.Message{Role: codec.RoleDeveloper}, e.r.Instructions)
	}
	for i := range e.r.Messages {
		m := &e.r.Messages[i]
		switch m.Role {
		case codec.RoleAssistant:
			e.assistant(m)
		case codec.RoleTool:
			for j := range m.Parts {
				e.result(&m.Parts[j])
			}
		default:
			e.turn(m)
		}
	}
}

// turn writes a message of a user, a developer or the system. A part that is an item of its own in this format splits
// the message in two.
func (e *encoder) turn(m *codec.Message) {
	if m.Name != nil {
		e.r.Notes.Drop("messages.name")
	}
	from, head := 0, *m
	for i := range m.Parts {
		p := &m.Parts[i]
		if !isItem(p) {
			continue
		}
		e.message(&head, m.Parts[from:i])
		e.foreignItem(p)
		from, head.ID = i+1, nil
	}
	e.message(&head, m.Parts[from:])
}

// message writes one message item with those parts, or nothing if none of them can be expressed.
func (e *encoder) message(m *codec.Message, parts []codec.Part) {
	from, first := len(e.dst), e.first
	e.comma()
	e.raw(`{"type":"message","role":"`)
	switch m.Role {
	case codec.RoleSystem:
		e.raw(`system`)
	case codec.RoleDeveloper:
		e.raw(`developer`)
	case codec.RoleAssistant:
		e.raw(`assistant`)
	default:
		e.raw(`user`)
	}
	e.raw(`","content":[`)
	e.first = true
	for i := range parts {
		e.part(&parts[i], m.Role == codec.RoleAssistant)
	}
	if e.first {
		e.dst, e.first = e.dst[:from], first
		return
	}
	e.raw(`]`)
	if m.Role == codec.RoleAssistant {
		e.stringMember(`,"phase":`, m.Phase)
	}
	e.id(m.ID, "msg_")
	e.raw(`}`)
	e.first = false
}

// id writes an item's id if the provider can know it: the id has the provider's form, and the provider stores answers.
// Ids of items that it does not store are omitted, because it would look them up (docs/wire/translation.md#5.3).
func (e *encoder) id(id []byte, prefix string) {
	if e.r.Store != codec.False && bytes.HasPrefix(id, []byte(prefix)) {
		e.stringMember(`,"id":`, id)
	}
}

// assistant writes one turn as items, in the order of its parts; neighboring texts share a message.
func (e *encoder) assistant(m *codec.Message) {
	head := *m
	for i := 0; i < len(m.Parts); {
		p := &m.Parts[i]
		if !isItem(p) {
			n := i + 1
			for n < len(m.Parts) && !isItem(&m.Parts[n]) {
				n++
			}
			e.message(&head, m.Parts[i:n])
			head.ID = nil // an id belongs to one item only
			i = n
			continue
		}
		switch p.Kind {
		case codec.PartReasoning, codec.PartRedacted:
			e.reasoningItem(p)
		case codec.PartToolCall:
			e.callItem(p)
		case codec.PartCustomCall:
			e.customCallItem(p)
		default:
			e.foreignItem(p)
		}
		i++
	}
}

// isItem reports whether a part is an item of its own rather than content of a message.
func isItem(p *codec.Part) bool {
	switch p.Kind {
	case codec.PartReasoning, codec.PartRedacted, codec.PartToolCall, codec.PartCustomCall, codec.PartServerTool:
		return true
	case codec.PartOpaque:
		return p.Origin == codec.Responses && !contentType(p.WireType)
	}
	return false
}

// contentType reports whether a type is that of a content part, not of an item.
func contentType(wireType []byte) bool {
	return bytes.HasPrefix(wireType, []byte("input_")) || bytes.HasPrefix(wireType, []byte("output_")) ||
		string(wireType) == "encrypted_content"
}

// reasoningItem writes reasoning that OpenAI can use again. Without OpenAI's own state it is useless to the provider,
// and foreign state is refused.
func (e *encoder) reasoningItem(p *codec.Part) {
	if p.Family != codec.FamilyOpenAI || len(p.Signature) == 0 {
		return
	}
	e.comma()
	e.raw(`{"type":"reasoning","summary":[`)
	e.first = true
	texts, kind := p.Parts, `{"type":"summary_text","text":`
	if len(texts) == 0 && p.Text != nil {
		texts = []codec.Part{{Text: p.Text}}
	}
	if !p.Summary {
		kind = `{"type":"reasoning_text","text":`
		if len(texts) > 0 {
			e.raw(`],"content":[`)
		}
	}
	for i := range texts {
		e.comma()
		e.raw(kind)
		e.body(texts[i].Text)
		e.raw(`}`)
	}
	e.raw(`],"encrypted_content":`)
	e.body(p.Signature)
	e.id(p.ID, "rs_")
	e.raw(`}`)
	e.first = false
}

func (e *encoder) callItem(p *codec.Part) {
	if p.Origin == codec.Responses && p.Raw != nil {
		e.foreignItem(p)
		return
	}
	e.comma()
	e.raw(`{"type":"function_call","call_id":`)
	e.body(p.CallID)
	e.raw(`,"name":`)
	e.body(p.Name)
	e.stringMember(`,"namespace":`, p.Namespace)
	e.raw(`,"arguments":"`)
	switch {
	case len(p.Arguments) == 0:
		e.raw(`{}`)
	case p.ArgumentsEscaped:
		e.dst = append(e.dst, p.Arguments...)
	default:
		e.dst = scan.Escape(e.dst, p.Arguments)
	}
	e.raw(`"`)
	e.id(p.ID, "fc_")
	e.raw(`}`)
}

func (e *encoder) customCallItem(p *codec.Part) {
	if e.custom == nil {
		e.custom = make(map[string]bool)
	}
	e.custom[string(p.CallID)] = true
	e.comma()
	e.raw(`{"type":"custom_tool_call","call_id":`)
	e.body(p.CallID)
	e.raw(`,"name":`)
	e.body(p.Name)
	e.stringMember(`,"namespace":`, p.Namespace)
	e.raw(`,"input":`)
	e.body(p.Text)
	e.id(p.ID, "ctc_")
	e.raw(`}`)
}

// foreignItem writes an item of this format that the vocabulary only carries, and omits those of other formats.
func (e *encoder) foreignItem(p *codec.Part) {
	if p.Origin != codec.Responses || p.Raw == nil {
		e.r.Notes.Drop("messages." + scan.Text(p.WireType))
		return
	}
	e.comma()
	e.dst = append(e.dst, p.Raw...)
}

// result writes the result of a call, as the type of output that matches the call.
func (e *encoder) result(p *codec.Part) {
	if p.Kind != codec.PartToolResult {
		return
	}
	if p.Origin == codec.Responses && p.Raw != nil {
		e.foreignItem(p)
		return
	}
	if p.CacheControl != nil {
		e.r.Notes.Drop("messages.cache_control")
	}
	e.comma()
	if string(p.WireType) == typeCustomOut || e.custom[string(p.CallID)] {
		e.raw(`{"type":"custom_tool_call_output","call_id":`)
	} else {
		e.raw(`{"type":"function_call_output","call_id":`)
	}
	e.body(p.CallID)
	e.raw(`,"output":`)
	switch {
	case len(p.Parts) == 0:
		e.raw(`""`)
	case len(p.Parts) == 1 && p.Parts[0].Kind == codec.PartText && p.Parts[0].Breakpoint == nil:
		e.body(p.Parts[0].Text)
	default:
		e.raw(`[`)
		e.first = true
		for i := range p.Parts {
			e.part(&p.Parts[i], false)
		}
		e.raw(`]`)
		e.first = false
	}
	e.raw(`}`)
}

// breakpoint marks a part of the input as the end of what is cached.
func (e *encoder) breakpoint(p *codec.Part, assistant bool) {
	if !assistant {
		e.rawMember(`,"prompt_cache_breakpoint":`, p.Breakpoint)
	}
}

// part writes one content part; the assistant's text has a type of its own.
func (e *encoder) part(p *codec.Part, assistant bool) {
	if p.CacheControl != nil && (p.Breakpoint == nil || assistant) {
		e.r.Notes.Drop("messages.cache_control")
	}
	if assistant && p.Kind != codec.PartText && p.Kind != codec.PartRefusal && p.Kind != codec.PartOpaque {
		e.r.Notes.Drop("messages.content") // the assistant can only have text: anything else is refused
		return
	}
	switch p.Kind {
	case codec.PartText:
		e.comma()
		if assistant {
			e.raw(`{"type":"output_text","text":`)
		} else {
			e.raw(`{"type":"input_text","text":`)
		}
		e.body(p.Text)
		e.breakpoint(p, assistant)
		e.raw(`}`)
	case codec.PartRefusal:
		e.comma()
		if assistant {
			e.raw(`{"type":"refusal","refusal":`)
		} else {
			e.raw(`{"type":"input_text","text":`)
		}
		e.body(p.Text)
		e.raw(`}`)
	case codec.PartToolRef:
		e.comma()
		e.raw(`{"type":"input_text","text":"Tool available: `)
		e.dst = append(e.dst, p.Name...)
		e.raw(`"}`)
	case codec.PartImage:
		e.comma()
		e.raw(`{"type":"input_image"`)
		e.source(`,"image_url":`, `,"image_url":`, p)
		if p.Detail != nil {
			e.stringMember(`,"detail":`, p.Detail)
		}
		e.breakpoint(p, assistant)
		e.raw(`}`)
	case codec.PartDocument:
		e.document(p)
	case codec.PartAudio:
		e.comma()
		e.raw(`{"type":"input_audio","input_audio":{"data":`)
		e.body(p.Data)
		e.raw(`,"format":`)
		e.body(audioFormat(p.MediaType))
		e.raw(`}}`)
	case codec.PartOpaque:
		if p.Origin == codec.Responses && p.Raw != nil {
			e.comma()
			e.dst = append(e.dst, p.Raw...)
			return
		}
		e.r.Notes.Drop("messages." + scan.Text(p.WireType))
	default:
		e.r.Notes.Drop("messages.content")
	}
}

// source writes an image's or a file's data, URL or id. Data of unknown type is written unchanged, because the file's
// name has the type.
func (e *encoder) source(dataName, urlName string, p *codec.Part) {
	switch {
	case p.Data != nil && len(p.MediaType) == 0:
		e.raw(dataName)
		e.body(p.Data)
	case p.Data != nil:
		e.raw(dataName)
		e.raw(`"data:`)
		e.dst = append(e.dst, p.MediaType...)
		e.raw(`;base64,`)
		e.dst = append(e.dst, p.Data...)
		e.raw(`"`)
	case p.URL != nil:
		e.raw(urlName)
		e.body(p.URL)
	default:
		e.stringMember(`,"file_id":`, p.FileID)
	}
}

// document writes a file. Plain text without data is written as text; a file with data needs a name.
func (e *encoder) document(p *codec.Part) {
	e.comma()
	if p.Data == nil && p.URL == nil && p.FileID == nil {
		e.raw(`{"type":"input_text","text":`)
		e.body(p.Text)
		e.raw(`}`)
		return
	}
	e.raw(`{"type":"input_file"`)
	switch {
	case p.Filename != nil:
		e.stringMember(`,"filename":`, p.Filename)
	case p.Data != nil && bytes.HasPrefix(p.MediaType, []byte("text/")):
		e.raw(`,"filename":"document.txt"`)
	case p.Data != nil:
		e.raw(`,"filename":"document.pdf"`)
	}
	e.source(`,"file_data":`, `,"file_url":`, p)
	e.stringMember(`,"detail":`, p.Detail)
	e.breakpoint(p, false)
	e.raw(`}`)
}

// audioFormat returns the format's name for a media type.
func audioFormat(mediaType []byte) []byte {
	switch string(mediaType) {
	case "audio/wav", "audio/x-wav", "audio/wave":
		return []byte("wav")
	case "audio/mpeg", "audio/mp3":
		return []byte("mp3")
	}
	return bytes.TrimPrefix(mediaType, []byte("audio/"))
}
