package chat

import (
	"github.com/mnemeproxy/mneme/codec/scan"

	"github.com/mnemeproxy/mneme/codec"
)

// AppendAnswer writes a complete answer, equal to what a client accumulates from the same answer as a stream.
func (client) AppendAnswer(dst []byte, a *codec.Answer, o *codec.AnswerOptions) []byte {
	w := answerWriter{a: a, o: o, legacy: legacyFunctions(o.Request)}
	model := a.Model
	if len(model) == 0 {
		model = scan.Escape(nil, []byte(o.Model))
	}
	dst = appendHead(dst, o, "chat.completion", model)
	dst = append(dst, `[{"index":0,"message":{"role":"assistant","content":`...)
	dst = w.content(dst)
	dst = append(dst, `,"refusal":`...)
	dst = w.joined(dst, codec.ItemRefusal)
	dst = w.reasoning(dst)
	dst = w.thinkingBlocks(dst)
	dst = w.textSignature(dst)
	dst = w.annotations(dst)
	dst = w.pictures(dst)
	dst = w.calls(dst)
	dst = append(dst, `},"logprobs":null,"finish_reason":"`...)
	dst = append(dst, finishWord(a.Finish, a.HasCalls(), w.legacy)...)
	dst = append(dst, `"}],"usage":`...)
	usage := w.usage()
	dst = appendUsage(dst, &usage)
	return append(dst, '}')
}

type answerWriter struct {
	a      *codec.Answer
	o      *codec.AnswerOptions
	legacy bool
}

// content is null if the model only called tools or refused.
func (w *answerWriter) content(dst []byte) []byte {
	at := len(dst)
	dst = w.joined(dst, codec.ItemText)
	if string(dst[at:]) != "null" || w.a.HasCalls() || w.has(codec.ItemRefusal) {
		return dst
	}
	return append(dst[:at], `""`...)
}

func (w *answerWriter) has(kind codec.ItemType) bool {
	for i := range w.a.Items {
		if it := &w.a.Items[i]; it.Type == kind && len(it.Text) > 0 {
			return true
		}
	}
	return false
}

// joined writes all texts of that type as one string, or null. Nothing is put between them: they were one text,
// interrupted by something else.
func (w *answerWriter) joined(dst []byte, kind codec.ItemType) []byte {
	if !w.has(kind) {
		return append(dst, "null"...)
	}
	dst = append(dst, '"')
	for i := range w.a.Items {
		if it := &w.a.Items[i]; it.Type == kind {
			dst = append(dst, it.Text...)
		}
	}
	return append(dst, '"')
}

// reasoning writes reasoning_content: summaries and items are paragraphs.
func (w *answerWriter) reasoning(dst []byte) []byte {
	if !w.o.ShowReasoning {
		return dst
	}
	shown := false
	for i := range w.a.Items {
		it := &w.a.Items[i]
		if it.Type != codec.ItemReasoning || !hasReasoning(it) {
			continue
		}
		if shown {
			dst = append(dst, paragraph...)
		} else {
			dst = append(dst, `,"reasoning_content":"`...)
		}
		shown = true
		dst = appendSummaries(dst, it)
	}
	if shown {
		dst = append(dst, '"')
	}
	return dst
}

func hasReasoning(it *codec.Item) bool {
	for i := range it.Summaries {
		if len(it.Summaries[i].Text) > 0 {
			return true
		}
	}
	return false
}

func appendSummaries(dst []byte, it *codec.Item) []byte {
	begun := false
	for i := range it.Summaries {
		text := it.Summaries[i].Text
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

func (w *answerWriter) thinkingBlocks(dst []byte) []byte {
	blocks := 0
	var text []byte
	for i := range w.a.Items {
		it := &w.a.Items[i]
		if it.Type != codec.ItemReasoning && it.Type != codec.ItemRedacted || len(it.Signature) == 0 {
			continue
		}
		text = text[:0]
		if w.o.ShowReasoning && it.Type == codec.ItemReasoning {
			text = appendSummaries(text, it)
		}
		if blocks == 0 {
			dst = append(dst, `,"thinking_blocks":[{`...)
		} else {
			dst = append(dst, `},{`...)
		}
		blocks++
		dst = appendThinkingBlock(dst, it.Type == codec.ItemRedacted, text, it.Signature)
	}
	if blocks > 0 {
		dst = append(dst, `}]`...)
	}
	return dst
}

// textSignature writes the signature of the last text that has one: the message has one slot.
func (w *answerWriter) textSignature(dst []byte) []byte {
	for i := len(w.a.Items) - 1; i >= 0; i-- {
		it := &w.a.Items[i]
		if it.Type == codec.ItemText && it.Family == codec.FamilyGoogle && len(it.Signature) > 0 {
			return appendThoughtSignature(append(dst, ','), it.Signature)
		}
	}
	return dst
}

func (w *answerWriter) annotations(dst []byte) []byte {
	dst = append(dst, `,"annotations":[`...)
	var list []byte
	for i := range w.a.Items {
		for _, note := range w.a.Items[i].Notes {
			list = appendCitation(list, note.Raw, note.Origin)
		}
	}
	dst = append(dst, list...)
	return append(dst, ']')
}

func (w *answerWriter) pictures(dst []byte) []byte {
	opening := `,"images":[{`
	for i := range w.a.Items {
		if it := &w.a.Items[i]; it.Type == codec.ItemImage {
			dst = appendPicture(append(dst, opening...), it.Name, it.Raw)
			opening = `,{`
		}
	}
	if opening == `,{` {
		dst = append(dst, ']')
	}
	return dst
}

// calls writes tool_calls, and omits the member if there are none: some clients take an empty list for calls.
func (w *answerWriter) calls(dst []byte) []byte {
	n := 0
	for i := range w.a.Items {
		it := &w.a.Items[i]
		if it.Type != codec.ItemToolCall && it.Type != codec.ItemCustomCall {
			continue
		}
		if w.legacy {
			dst = append(dst, `,"function_call":`...)
			return appendFunction(dst, it)
		}
		if n == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = w.call(dst, it, n)
		n++
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return dst
}

func (w *answerWriter) call(dst []byte, it *codec.Item, n int) []byte {
	dst = append(dst, `{"id":"`...)
	dst = appendCallID(dst, it.CallID, w.o.ID, n)
	if it.Type == codec.ItemCustomCall {
		dst = append(dst, `","type":"custom","custom":{"name":"`...)
		dst = append(dst, it.Name...)
		dst = append(dst, `","input":"`...)
		dst = append(dst, it.Text...)
		dst = append(dst, `"}`...)
	} else {
		dst = append(dst, `","type":"function","function":`...)
		dst = appendFunction(dst, it)
	}
	if it.Family == codec.FamilyGoogle && len(it.Signature) > 0 {
		dst = appendThoughtSignature(append(dst, ','), it.Signature)
	}
	return append(dst, '}')
}

func appendFunction(dst []byte, it *codec.Item) []byte {
	dst = append(dst, `{"name":"`...)
	dst = append(dst, it.Name...)
	dst = append(dst, `","arguments":"`...)
	if len(it.Text) == 0 {
		dst = append(dst, `{}`...)
	}
	dst = append(dst, it.Text...)
	return append(dst, `"}`...)
}

func (w *answerWriter) usage() codec.Usage {
	if w.a.HasUse {
		return w.a.Usage
	}
	written := 0
	for i := range w.a.Items {
		it := &w.a.Items[i]
		written += len(it.Text)
		for j := range it.Summaries {
			written += len(it.Summaries[j].Text)
		}
	}
	return estimate(w.o, written)
}
