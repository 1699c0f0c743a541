package messages

import (
	"github.com/mnemeproxy/mneme/codec"
)

// AppendAnswer writes a complete answer, equal to what a client folds from the stream of the same events.
func (client) AppendAnswer(dst []byte, a *codec.Answer, o *codec.AnswerOptions) []byte {
	dst = append(dst, `{"id":"`+answerPrefix...)
	dst = append(dst, o.ID...)
	dst = append(dst, `","type":"message","role":"assistant","model":`...)
	dst = appendQuoted(dst, o.Model)
	dst = append(dst, `,"content":[`...)
	w := answerWriter{o: o, dst: dst, first: len(dst)}
	for i := range a.Items {
		w.item(&a.Items[i], i)
	}
	dst = append(w.dst, `],`...)
	dst = appendStop(dst, stopOf(a.Finish, w.calls, w.refused), a.Stop)
	dst = append(dst, `,"diagnostics":null,"usage":`...)
	dst = appendMessageUsage(dst, closingUsage(a.Usage, a.HasUse, o.EstimatedInput, w.written))
	return append(dst, '}')
}

// answerWriter writes the content blocks of a complete answer.
type answerWriter struct {
	o       *codec.AnswerOptions
	dst     []byte
	first   int // start of the first block: the only one without a comma before it
	calls   bool
	refused bool
	written int64
}

func (w *answerWriter) item(it *codec.Item, ordinal int) {
	switch it.Type {
	case codec.ItemText, codec.ItemRefusal:
		if len(it.Text) > 0 || hasCitations(it) {
			w.text(it)
		}
	case codec.ItemReasoning:
		w.reasoning(it)
	case codec.ItemRedacted:
		if len(it.Signature) > 0 {
			w.comma()
			w.dst = appendRedactedBlock(w.dst, it.Signature)
		}
	case codec.ItemToolCall, codec.ItemCustomCall:
		if len(it.Name) > 0 {
			w.call(it, ordinal)
		}
	case codec.ItemServerTool, codec.ItemOpaque:
		w.hosted(it)
	}
}

func (w *answerWriter) comma() {
	if len(w.dst) > w.first {
		w.dst = append(w.dst, ',')
	}
}

func hasCitations(it *codec.Item) bool {
	for i := range it.Notes {
		if len(appendCitation(nil, it.Notes[i].Raw, it.Notes[i].Origin)) > 0 {
			return true
		}
	}
	return false
}

func (w *answerWriter) text(it *codec.Item) {
	w.comma()
	w.dst = appendTextBlock(w.dst, it.Text)
	w.refused = w.refused || it.Type == codec.ItemRefusal
	w.written += int64(len(it.Text))
	open := false
	for i := range it.Notes {
		from := len(w.dst)
		w.dst = append(w.dst, ',')
		if !open {
			w.dst = append(w.dst, `"citations":[`...)
		}
		before := len(w.dst)
		w.dst = appendCitation(w.dst, it.Notes[i].Raw, it.Notes[i].Origin)
		if len(w.dst) == before {
			w.dst = w.dst[:from]
			continue
		}
		open = true
	}
	if !open { // AI SDK 5 and 6 refuse null, the published schema an absent member
		w.dst = append(w.dst, `,"citations":[`...)
	}
	w.dst = append(w.dst, `]}`...)
}

func (w *answerWriter) reasoning(it *codec.Item) {
	var thinking []byte
	if w.o.ShowReasoning {
		thinking = joinSummaries(it.Summaries)
	}
	if len(thinking) == 0 && len(it.Signature) == 0 {
		return
	}
	w.comma()
	w.dst = appendThinkingBlock(w.dst, thinking, it.Signature)
	w.written += int64(len(thinking))
}

// joinSummaries returns the text of all parts with a blank line between them. It copies only if there are several.
func joinSummaries(parts []codec.Summary) []byte {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var joined []byte
	for i := range parts {
		if len(parts[i].Text) == 0 {
			continue
		}
		if len(joined) > 0 {
			joined = append(joined, blankLine...)
		}
		joined = append(joined, parts[i].Text...)
	}
	return joined
}

func (w *answerWriter) call(it *codec.Item, ordinal int) {
	w.comma()
	w.calls = true
	w.written += int64(len(it.Text))
	id := it.CallID
	if len(id) == 0 {
		id = appendCallID(nil, w.o.ID, int32(min(ordinal, maxItems)))
	}
	w.dst = appendToolUseStart(w.dst, id, it.Name)
	if it.Type == codec.ItemCustomCall {
		w.dst = appendCustomInput(w.dst, it.Text)
	} else {
		w.dst, _ = codec.AppendArguments(w.dst, &codec.Part{Arguments: it.Text, ArgumentsEscaped: true})
	}
	w.dst = append(w.dst, toolUseEnd...)
}

func (w *answerWriter) hosted(it *codec.Item) {
	from := len(w.dst)
	w.comma()
	before := len(w.dst)
	w.dst = appendHostedBlocks(w.dst, it.Raw, it.Origin)
	if len(w.dst) == before {
		w.dst = w.dst[:from]
	}
}
