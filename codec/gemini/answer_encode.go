package gemini

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

const callPrefix = "call_"

// AppendAnswer writes a complete answer, equal to what a client folds from the stream of the same events.
func (c *client) AppendAnswer(dst []byte, a *codec.Answer, o *codec.AnswerOptions) []byte {
	w := answer{o: o, finish: a.Finish, usage: a.Usage, counted: a.HasUse}
	dst = append(dst, `{"candidates":[{"content":{"parts":[`...)
	first := len(dst)
	for i := range a.Items {
		from := len(dst)
		if from > first {
			dst = append(dst, ',')
		}
		before := len(dst)
		if dst = w.appendItem(dst, &a.Items[i], i); len(dst) == before {
			dst = dst[:from]
		}
	}
	if len(w.pending) > 0 || len(dst) == first {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(w.appendPending(append(dst, `{"text":""`...)), '}')
	}
	dst = w.appendFinish(append(dst, contentEnd...))
	return append(appendNames(dst, o), '}')
}

// appendItem writes an item as a part; nothing of one that this format cannot hold.
func (a *answer) appendItem(dst []byte, it *codec.Item, ordinal int) []byte {
	a.written += int64(len(it.Text))
	switch it.Type {
	case codec.ItemText, codec.ItemRefusal:
		a.refused = a.refused || it.Type == codec.ItemRefusal && len(it.Text) > 0
		for i := range it.Notes {
			a.cite(it.Notes[i].Raw)
		}
		if len(it.Text) > 0 {
			dst = append(append(append(dst, `{"text":"`...), it.Text...), '"')
			dst = append(a.appendPending(dst), '}')
		}
	case codec.ItemReasoning, codec.ItemRedacted:
		dst = a.appendReasoning(dst, it)
	case codec.ItemToolCall, codec.ItemCustomCall:
		if len(it.Name) > 0 && !(a.stoppedShort() && cutOff(it)) {
			dst = a.appendCall(dst, it, ordinal)
		}
	case codec.ItemImage:
		dst = appendPicture(dst, it.Name, it.Raw)
	case codec.ItemServerTool, codec.ItemOpaque:
		if it.Origin == codec.Gemini && scan.IsObject(it.Raw) {
			dst = append(dst, it.Raw...)
		}
	}
	return dst
}

// cutOff reports whether a call ends inside its arguments.
func cutOff(it *codec.Item) bool {
	var arguments codec.ArgumentDepth
	arguments.Feed(it.Text)
	return it.Type == codec.ItemToolCall && arguments.Broken()
}

// appendReasoning writes a thought, and keeps its proof for the part that follows.
func (a *answer) appendReasoning(dst []byte, it *codec.Item) []byte {
	before := len(dst)
	if len(it.Signature) > 0 && len(a.pending) > 0 {
		dst = a.appendThought(dst)
	}
	if len(it.Signature) > 0 {
		a.pending = append(a.pending[:0], it.Signature...)
	}
	spoke := false
	for i := range it.Summaries {
		text := it.Summaries[i].Text
		if !a.o.ShowReasoning || len(text) == 0 {
			continue
		}
		switch {
		case spoke:
			dst = append(dst, `\n\n`...)
		case len(dst) > before:
			dst = append(dst, `,{"text":"`...)
		default:
			dst = append(dst, `{"text":"`...)
		}
		spoke = true
		a.written += int64(len(text))
		dst = append(dst, text...)
	}
	if spoke {
		dst = append(dst, `","thought":true}`...)
	}
	return dst
}

// appendTokenCount writes the answer to countTokens.
func appendTokenCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"totalTokens":`...), tokens, 10), '}')
}
