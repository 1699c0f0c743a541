package chat

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// assistant writes an assistant turn. The format has one text and a list of calls; texts around calls become one text
// before them.
func (w *requestWriter) assistant(dst []byte, m *codec.Message, last bool) []byte {
	dst = w.open(dst, "assistant")
	dst = w.name(dst, m)
	if w.d.Name == dialectMistral && hasThinking(m.Parts) {
		dst = w.thinkingContent(dst, m.Parts)
	} else {
		dst = w.assistantText(dst, m.Parts)
		dst = w.replayed(dst, m.Parts)
	}
	dst = w.thinkingBlocks(dst, m.Parts)
	dst = w.details(dst, m.Parts)
	dst = w.textSignature(dst, m.Parts)
	dst = w.calls(dst, m.Parts)
	if last && w.d.Name == dialectMistral {
		dst = append(dst, `,"prefix":true`...) // required by the host for a turn to be continued
	}
	return append(dst, '}')
}

// assistantText writes content and refusal. Content is null next to calls or a refusal, and "" in a turn with neither.
func (w *requestWriter) assistantText(dst []byte, parts []codec.Part) []byte {
	var said, refused, called bool
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case codec.PartText:
			said = said || len(p.Text) > 0
		case codec.PartRefusal:
			refused = true
		case codec.PartToolCall, codec.PartCustomCall:
			called = true
		case codec.PartImage, codec.PartDocument, codec.PartAudio:
			said = true
		case codec.PartServerTool, codec.PartOpaque, codec.PartToolRef:
			w.drop("content.", p.WireType)
		}
	}
	asMember := refused && w.openAI() // elsewhere a refusal is text
	said = said || refused && !asMember
	if !said && (called || asMember) {
		dst = append(dst, `,"content":null`...)
	} else {
		dst = append(dst, `,"content":"`...)
		for i := range parts {
			if p := &parts[i]; p.Kind == codec.PartText || isMedium(p.Kind) || p.Kind == codec.PartRefusal && !asMember {
				dst = w.inText(dst, p)
			}
		}
		dst = append(dst, '"')
	}
	if !asMember {
		return dst
	}
	dst = append(dst, `,"refusal":"`...)
	for i := range parts {
		if parts[i].Kind == codec.PartRefusal {
			dst = append(dst, parts[i].Text...)
		}
	}
	return append(dst, '"')
}

func isMedium(k codec.PartKind) bool {
	return k == codec.PartImage || k == codec.PartDocument || k == codec.PartAudio
}

// readable reports whether the target can use a piece of reasoning: text without a vendor's state, or its own vendor's.
func (w *requestWriter) readable(p *codec.Part) bool {
	return p.Family == codec.FamilyOther || p.Family == codec.FamilyDetails || p.Family == w.t.Family
}

// replayed returns the reasoning text to the host if the dialect wants it. Such hosts check that every assistant turn
// has the member, so it is empty if the text is unknown (docs/wire/fourth-provider.md#2.4).
func (w *requestWriter) replayed(dst []byte, parts []codec.Part) []byte {
	if !w.d.ReplayReasoning {
		return dst
	}
	dst = append(dst, `,"reasoning_content":"`...)
	dst = w.reasoningText(dst, parts)
	return append(dst, '"')
}

func (w *requestWriter) reasoningText(dst []byte, parts []codec.Part) []byte {
	begun := false
	for i := range parts {
		if p := &parts[i]; p.Kind == codec.PartReasoning && w.readable(p) && hasText(p) {
			if begun {
				dst = append(dst, paragraph...)
			}
			begun = true
			dst = appendReasoning(dst, p)
		}
	}
	return dst
}

func hasText(p *codec.Part) bool {
	for i := range p.Parts {
		if len(p.Parts[i].Text) > 0 {
			return true
		}
	}
	return len(p.Text) > 0
}

// appendReasoning writes the text of one reasoning part; several summaries are paragraphs.
func appendReasoning(dst []byte, p *codec.Part) []byte {
	dst = append(dst, p.Text...)
	begun := len(p.Text) > 0
	for i := range p.Parts {
		text := p.Parts[i].Text
		if len(text) == 0 {
			continue
		}
		if begun {
			dst = append(dst, paragraph...)
		}
		begun = true
		dst = append(dst, text...)
	}
	return dst
}

// hasThinking reports whether there is reasoning for Mistral's chunks.
func hasThinking(parts []codec.Part) bool {
	for i := range parts {
		if p := &parts[i]; p.Kind == codec.PartReasoning && p.Family == codec.FamilyOther && hasText(p) {
			return true
		}
	}
	return false
}

// thinkingContent writes content as Mistral's typed chunks, in the order of the parts.
func (w *requestWriter) thinkingContent(dst []byte, parts []codec.Part) []byte {
	dst = append(dst, `,"content":[`...)
	first := true
	for i := range parts {
		p := &parts[i]
		thinks := p.Kind == codec.PartReasoning && p.Family == codec.FamilyOther && hasText(p)
		says := (p.Kind == codec.PartText || p.Kind == codec.PartRefusal) && len(p.Text) > 0
		if !thinks && !says {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if says {
			dst = append(append(append(dst, `{"type":"text","text":"`...), p.Text...), `"}`...)
			continue
		}
		dst = append(dst, `{"type":"thinking","thinking":[{"type":"text","text":"`...)
		dst = append(appendReasoning(dst, p), `"}]`...)
		if len(p.Signature) > 0 {
			dst = scan.QuoteBody(append(dst, `,"signature":`...), p.Signature)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// thinkingBlocks writes signed reasoning back to a host that serves Anthropic's models.
func (w *requestWriter) thinkingBlocks(dst []byte, parts []codec.Part) []byte {
	if w.t.Family != codec.FamilyAnthropic {
		return dst
	}
	n := 0
	var text []byte
	for i := range parts {
		p := &parts[i]
		if p.Kind != codec.PartReasoning && p.Kind != codec.PartRedacted ||
			p.Family != codec.FamilyAnthropic || len(p.Signature) == 0 {
			continue
		}
		if n == 0 {
			dst = append(dst, `,"thinking_blocks":[{`...)
		} else {
			dst = append(dst, `},{`...)
		}
		n++
		text = appendReasoning(text[:0], p)
		dst = appendThinkingBlock(dst, p.Kind == codec.PartRedacted, text, p.Signature)
	}
	if n > 0 {
		dst = append(dst, `}]`...)
	}
	return dst
}

// textSignature writes the thought signature of the last text that has one back to Google's own chat endpoint.
func (w *requestWriter) textSignature(dst []byte, parts []codec.Part) []byte {
	for i := len(parts) - 1; i >= 0; i-- {
		if p := &parts[i]; p.Kind == codec.PartText && w.googleSigned(p) {
			return appendThoughtSignature(append(dst, ','), p.Signature)
		}
	}
	return dst
}

func (w *requestWriter) googleSigned(p *codec.Part) bool {
	return w.t.Family == codec.FamilyGoogle && p.Family == codec.FamilyGoogle && len(p.Signature) > 0
}

func (w *requestWriter) calls(dst []byte, parts []codec.Part) []byte {
	n := 0
	for i := range parts {
		p := &parts[i]
		if p.Kind != codec.PartToolCall && p.Kind != codec.PartCustomCall {
			continue
		}
		if n == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		n++
		dst = w.call(dst, p)
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func (w *requestWriter) call(dst []byte, p *codec.Part) []byte {
	dst = append(dst, `{"id":`...)
	dst = scan.QuoteBody(dst, p.CallID)
	if p.Kind == codec.PartCustomCall {
		dst = append(dst, `,"type":"custom","custom":{"name":`...)
		dst = scan.QuoteBody(dst, p.Name)
		dst = append(dst, `,"input":`...)
		dst = append(scan.QuoteBody(dst, p.Text), '}')
	} else {
		dst = append(dst, `,"type":"function","function":{"name":`...)
		dst = scan.QuoteBody(dst, p.Name)
		dst = append(dst, `,"arguments":"`...)
		dst = append(appendArguments(dst, p), `"}`...)
	}
	if w.googleSigned(p) {
		dst = appendThoughtSignature(append(dst, ','), p.Signature)
	}
	return append(dst, '}')
}

// appendArguments writes arguments as the body of a string. No arguments are an empty object.
func appendArguments(dst []byte, p *codec.Part) []byte {
	switch {
	case len(p.Arguments) == 0:
		return append(dst, "{}"...)
	case p.ArgumentsEscaped:
		return append(dst, p.Arguments...)
	}
	return scan.Escape(dst, p.Arguments)
}
