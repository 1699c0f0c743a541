package messages

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// messages writes the conversation. The results of one turn and the user's content become one user turn, results first
// (P67, P68).
func (e *requestEncoder) messages() error {
	e.member("messages")
	e.raw("[")
	first := true
	list := e.r.Messages
	for i := e.opening; i < len(list); {
		n := turnLength(list[i:])
		before := len(e.dst)
		if !first {
			e.raw(",")
		}
		written, err := e.turn(list[i : i+n])
		if err != nil {
			return err
		}
		if written {
			first = false
		} else {
			e.dst = e.dst[:before]
		}
		i += n
	}
	e.raw("]")
	return nil
}

// turnLength returns the number of messages in the format's next turn.
func turnLength(list []codec.Message) int {
	n := 0
	for n < len(list) && list[n].Role == codec.RoleTool {
		n++
	}
	if n == len(list) || n > 0 && list[n].Role != codec.RoleUser {
		return n
	}
	return n + 1
}

// turn writes one message of the format; false means that it would be empty and must be left out.
func (e *requestEncoder) turn(list []codec.Message) (written bool, err error) {
	e.raw(`{"role":"`)
	e.raw(roleWord(list[0].Role))
	e.raw(`","content":[`)
	e.listed = false
	for i := range list {
		m := &list[i]
		if m.Name != nil {
			e.r.Notes.Drop("messages.name")
		}
		for j := range m.Parts {
			if err := e.part(&m.Parts[j], m); err != nil {
				return false, err
			}
		}
	}
	e.raw("]}")
	return e.listed, nil
}

func roleWord(role codec.Role) string {
	switch role {
	case codec.RoleAssistant:
		return "assistant"
	case codec.RoleSystem, codec.RoleDeveloper:
		return "system"
	}
	return "user"
}

// part writes one block, or nothing if the format, or the place, has no block for it.
func (e *requestEncoder) part(p *codec.Part, m *codec.Message) error {
	switch p.Kind {
	case codec.PartText, codec.PartRefusal:
		if len(p.Text) > 0 {
			e.element()
			e.text(p)
		}
	case codec.PartReasoning:
		// Without its family's own signature the provider refuses the whole conversation.
		if p.Family == codec.FamilyAnthropic && len(p.Signature) > 0 {
			e.element()
			e.dst = appendThinkingBlock(e.dst, reasoningText(p), p.Signature)
		}
	case codec.PartRedacted:
		if p.Family == codec.FamilyAnthropic && len(p.Signature) > 0 {
			e.element()
			e.dst = appendRedactedBlock(e.dst, p.Signature)
		}
	case codec.PartToolCall, codec.PartCustomCall:
		e.element()
		e.call(p)
	case codec.PartToolResult:
		e.element()
		return e.result(p, m)
	case codec.PartImage:
		return e.image(p, m)
	case codec.PartDocument:
		return e.document(p, m)
	case codec.PartAudio:
		return e.refused(m, "audio cannot be sent to %s", e.t.Model)
	case codec.PartToolRef:
		e.toolAddition(p, m)
	case codec.PartServerTool, codec.PartOpaque:
		if p.Origin != codec.Messages || p.Raw == nil {
			e.r.Notes.Drop("messages.content")
			return nil
		}
		e.element()
		e.bytes(p.Raw)
	}
	return nil
}

// refused returns an error about a part that must not be left out.
func (e *requestEncoder) refused(m *codec.Message, format string, args ...any) error {
	return codec.Invalid(e.r.PartsPath(m.Index), format, args...)
}

// cached writes a cache breakpoint and the end of the block.
func (e *requestEncoder) cached(p *codec.Part) {
	if p.CacheControl != nil {
		e.member("cache_control")
		e.bytes(p.CacheControl)
	}
	e.raw("}")
}

func (e *requestEncoder) text(p *codec.Part) {
	e.dst = appendTextBlock(e.dst, p.Text)
	if p.Citations != nil && p.Origin == codec.Messages {
		e.member("citations")
		e.bytes(p.Citations)
	}
	e.cached(p)
}

// reasoningText returns the visible text of a reasoning part: its own, or its summaries with a blank line between them.
func reasoningText(p *codec.Part) []byte {
	if len(p.Parts) == 0 {
		return p.Text
	}
	var joined []byte
	for i := range p.Parts {
		if i > 0 {
			joined = append(joined, blankLine...)
		}
		joined = append(joined, p.Parts[i].Text...)
	}
	return joined
}

func (e *requestEncoder) call(p *codec.Part) {
	e.dst = appendToolUseStart(e.dst, p.CallID, p.Name)
	if p.Kind == codec.PartCustomCall {
		e.dst = appendCustomInput(e.dst, p.Text)
	} else {
		var ok bool
		if e.dst, ok = codec.AppendArguments(e.dst, p); !ok {
			e.r.Notes.Drop("messages.tool_calls.arguments")
		}
	}
	e.cached(p)
}

func (e *requestEncoder) result(p *codec.Part, m *codec.Message) error {
	e.raw(`{"type":"tool_result","tool_use_id":"`)
	e.bytes(p.CallID)
	e.raw(`"`)
	if len(p.Parts) > 0 {
		e.member("content")
		e.raw("[")
		e.listed = false
		for i := range p.Parts {
			inner := &p.Parts[i]
			if inner.Kind == codec.PartToolRef {
				e.element()
				e.raw(`{"type":"tool_reference","tool_name":"`)
				e.bytes(inner.Name)
				e.raw(`"`)
				e.cached(inner)
				continue
			}
			if err := e.part(inner, m); err != nil {
				return err
			}
		}
		e.raw("]")
		e.listed = true // the result itself is an element of the turn
	}
	if p.Failed {
		e.member("is_error")
		e.raw("true")
	}
	e.cached(p)
	return nil
}

// toolAddition makes a deferred tool available from a system message on; the format has no other place for it.
func (e *requestEncoder) toolAddition(p *codec.Part, m *codec.Message) {
	if m.Role != codec.RoleSystem {
		e.r.Notes.Drop("messages.content.tool_reference")
		return
	}
	e.element()
	e.raw(`{"type":"tool_addition","tool":{"type":"tool_reference","name":"`)
	e.bytes(p.Name)
	e.raw(`"}`)
	e.cached(p)
}

func (e *requestEncoder) image(p *codec.Part, m *codec.Message) error {
	media := p.MediaType
	if string(media) == "image/jpg" {
		media = []byte("image/jpeg")
	}
	if p.Data != nil {
		switch string(media) {
		case "image/jpeg", "image/png", "image/gif", "image/webp":
		default:
			return e.refused(m, "%s takes pictures as JPEG, PNG, GIF or WebP, not as %q", e.t.Model, scan.Text(media))
		}
	}
	if p.Detail != nil {
		e.r.Notes.Drop("messages.content.detail")
	}
	e.element()
	e.raw(`{"type":"image","source":`)
	if err := e.source(p, media, m); err != nil {
		return err
	}
	e.cached(p)
	return nil
}

// document writes a file. PDF is passed on; the format takes text as text, so encoded text is decoded.
func (e *requestEncoder) document(p *codec.Part, m *codec.Message) error {
	e.element()
	e.raw(`{"type":"document","source":`)
	media := p.MediaType
	if media == nil && bytes.HasPrefix(p.Data, pdfMagic) {
		media = mediaPDF
	}
	switch {
	case p.Text != nil:
		e.plainText(p.Text)
	case p.Data == nil, bytes.Equal(media, mediaPDF):
		if err := e.source(p, media, m); err != nil {
			return err
		}
	case bytes.HasPrefix(media, []byte("text/")), string(media) == "application/json":
		text, err := base64.StdEncoding.DecodeString(scan.Text(p.Data))
		if err != nil || !utf8.Valid(text) {
			return e.refused(m, "the file is declared as text but is not base64 of UTF-8")
		}
		e.plainText(scan.Escape(nil, text))
	case len(media) == 0:
		return e.refused(m, "%s takes files as PDF or text, and this one does not say what it is: send it as a data URL, which names the type", e.t.Model)
	default:
		return e.refused(m, "%s takes files as PDF or text, not as %q", e.t.Model, scan.Text(media))
	}
	if len(p.Filename) > 0 {
		e.member("title")
		e.body(p.Filename)
	}
	e.cached(p)
	return nil
}

var (
	mediaPDF = []byte("application/pdf")
	pdfMagic = []byte("JVBERi") // "%PDF-" in base64
)

func (e *requestEncoder) plainText(body []byte) {
	e.raw(`{"type":"text","media_type":"text/plain","data":`)
	e.body(body)
	e.raw("}")
}

// source writes the source of an image or file. A file id is valid only at the provider that issued it.
func (e *requestEncoder) source(p *codec.Part, media []byte, m *codec.Message) error {
	switch {
	case p.Data != nil:
		e.raw(`{"type":"base64","media_type":`)
		e.body(media)
		e.raw(`,"data":`)
		e.body(p.Data)
	case p.URL != nil:
		e.raw(`{"type":"url","url":`)
		e.body(p.URL)
	case p.FileID != nil && p.Origin == codec.Messages:
		e.raw(`{"type":"file","file_id":`)
		e.body(p.FileID)
	default:
		return e.refused(m, "the file is known to another provider only; send its content instead")
	}
	e.raw("}")
	return nil
}
