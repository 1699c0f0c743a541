package responses

import (
	"bytes"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// A conversation is compacted by its own model, which writes a summary. The client gets that as the opaque content of a
// compaction item, a token of its account, and sends it in the place of what was said. Before a model gets it, it becomes a
// message again, so that the conversation goes on with any model (docs/wire/responses.md#14).

// EndsInTrigger reports whether a request asks to compact its conversation, by its last item.
func EndsInTrigger(body []byte) bool {
	if !bytes.Contains(body, trigger) {
		return false
	}
	var last []byte
	for e := scan.Array(scan.Get(body, "input")); e.Next(); {
		last = e.Value
	}
	return isTrigger(last)
}

var trigger = []byte("compaction_trigger")

func isTrigger(item []byte) bool { return scan.String(scan.Get(item, "type")) == string(trigger) }

// summaryWanted asks the model.
const summaryWanted = "Compact this conversation: write the summary from which you will continue it, because you will not see the conversation itself again. " +
	"Keep what was asked and why, what was decided, the state of the work with exact names, paths, commands, numbers and errors, what failed, and what is to be done next. " +
	"Write only the summary, in the language of the conversation, and call no tool."

// summaryBegins is what a model reads before a summary.
const summaryBegins = "The conversation before this was compacted. This is its summary:\n\n"

// AppendSummaryRequest writes the request for the summary of a request's conversation.
func AppendSummaryRequest(dst, body []byte) []byte {
	dst = append(dst, '{')
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "input", "stream", "stream_options", "text", "tool_choice", "include", "max_output_tokens", "max_tool_calls", "background", "context_management":
			continue
		}
		dst = append(append(dst, body[m.Start:m.End]...), ',')
	}
	input := scan.Get(body, "input")
	if scan.Count(scan.Get(body, "tools")) > 0 || hasTools(input) {
		dst = append(dst, `"tool_choice":"none",`...)
	}
	dst = append(dst, `"stream":false,"input":[`...)
	if scan.IsString(input) {
		dst = append(append(append(dst, `{"type":"message","role":"user","content":`...), input...), "},"...)
	}
	for e := scan.Array(input); e.Next(); {
		if !isTrigger(e.Value) {
			dst = append(append(dst, e.Value...), ',')
		}
	}
	dst = append(dst, `{"type":"message","role":"user","content":`...)
	return append(scan.Quote(dst, summaryWanted), "}]}"...)
}

// hasTools reports whether items of the input define tools.
func hasTools(input []byte) bool {
	for e := scan.Array(input); e.Next(); {
		if scan.String(scan.Get(e.Value, "type")) == "additional_tools" && scan.Count(scan.Get(e.Value, "tools")) > 0 {
			return true
		}
	}
	return false
}

// AsksForSummary reports whether a body is one of [AppendSummaryRequest].
func AsksForSummary(body []byte) bool {
	var last []byte
	for e := scan.Array(scan.Get(body, "input")); e.Next(); {
		last = e.Value
	}
	return scan.String(scan.Get(last, "content")) == summaryWanted
}

// Summarized returns the text of the answer to such a request, as the content of a string.
func Summarized(response []byte) (text []byte) {
	for e := scan.Array(scan.Get(response, "output")); e.Next(); {
		for part := scan.Array(scan.Get(e.Value, "content")); part.Next(); {
			if scan.String(scan.Get(part.Value, "type")) == "output_text" {
				text = append(text, scan.Body(scan.Get(part.Value, "text"))...)
			}
		}
	}
	return text
}

// AppendCompaction writes the item that stands for a conversation. id is that of the response that it is in.
func AppendCompaction(dst []byte, id, account string, summary []byte) []byte {
	token := statetoken.Token{Kind: statetoken.Summary, Raw: summary}
	dst = append(append(append(dst, `{"id":"cmp_`...), id...), `00","type":"compaction","encrypted_content":"`...)
	return append(token.Append(dst, account), `"}`...)
}

// AppendCompacted writes the answer to a request for a compacted conversation: what the user said, and the compaction.
func AppendCompacted(dst, request, item []byte, o *codec.AnswerOptions, usage []byte) []byte {
	dst = append(append(append(dst, `{"id":"resp_`...), o.ID...), `","object":"response.compaction","created_at":`...)
	dst = append(strconv.AppendInt(dst, o.Created.Unix(), 10), `,"output":[`...)
	input := scan.Get(request, "input")
	if scan.IsString(input) {
		input = append(append([]byte(`[{"role":"user","content":`), input...), "}]"...)
	}
	at := 0
	for e := scan.Array(input); e.Next(); at++ {
		if scan.String(scan.Get(e.Value, "role")) == "user" {
			dst = append(appendInputItem(dst, e.Value, o.ID, at), ',')
		}
	}
	dst = append(append(append(dst, item...), `],"usage":`...), usage...)
	return append(dst, '}')
}

// WithOutput returns a response object whose output is one item.
func WithOutput(response, item []byte) []byte {
	return scan.ReplaceMember(response, "output", func(dst, _ []byte) []byte {
		return append(append(append(dst, '['), item...), ']')
	})
}

// AppendItemEvents writes the events of a response that has one item.
func AppendItemEvents(dst, response, item []byte) []byte {
	open := scan.ReplaceMember(bytes.Clone(response), "status", func(dst, _ []byte) []byte { return append(dst, `"in_progress"`...) })
	open = scan.ReplaceMember(open, "output", func(dst, _ []byte) []byte { return append(dst, "[]"...) })
	open = scan.ReplaceMember(open, "completed_at", func(dst, _ []byte) []byte { return append(dst, "null"...) })
	for i, event := range []struct {
		kind, member string
		value        []byte
	}{
		{"response.created", `"response":`, open},
		{"response.in_progress", `"response":`, open},
		{"response.output_item.added", `"output_index":0,"item":`, item},
		{"response.output_item.done", `"output_index":0,"item":`, item},
		{"response.completed", `"response":`, response},
	} {
		dst = append(append(append(dst, "event: "...), event.kind...), "\ndata: {\"type\":\""...)
		dst = append(append(dst, event.kind...), `","sequence_number":`...)
		dst = append(append(strconv.AppendInt(dst, int64(i), 10), ','), event.member...)
		dst = append(append(dst, event.value...), "}\n\n"...)
	}
	return dst
}

// HasSummary reports whether a body may have a compaction of ours.
func HasSummary(body []byte) bool {
	return bytes.Contains(body, compactionName) && bytes.Contains(body, statetoken.Mark)
}

var compactionName = []byte(`"compaction`)

// expand returns the message that a compaction of ours stands for; any other item as it is.
func (r *resolver) expand(item []byte) ([]byte, error) {
	switch scan.String(scan.Get(item, "type")) {
	case "compaction", "compaction_summary", "context_compaction":
	default:
		return item, nil
	}
	sealed := scan.Body(scan.Get(item, "encrypted_content"))
	if !statetoken.Is(sealed) {
		return item, nil
	}
	token, ok := statetoken.Open(sealed, r.record.Account())
	if !ok || token.Kind != statetoken.Summary {
		return nil, codec.Invalid("input", "a compaction item was not made for this account, or has been changed: send the conversation itself")
	}
	r.resolved("compaction")
	message := append([]byte(nil), `{"type":"message","role":"user","content":[{"type":"input_text","text":`...)
	message = scan.Quote(message, summaryBegins)
	message = append(message[:len(message)-1], token.Raw...)
	return append(message, `"}]}`...), nil
}
