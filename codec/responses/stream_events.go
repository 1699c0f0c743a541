package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// eventWriter writes the events of an answer's items, with ascending numbers.
type eventWriter struct {
	sequence int64
	size     int64 // bytes of text in them, to estimate usage
}

// event begins an event: its name, its type and its number. What the caller appends has to begin with a comma.
func (e *eventWriter) event(dst []byte, name string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, "\ndata: {\"type\":\""...)
	dst = append(dst, name...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, e.sequence, 10)
	e.sequence++
	return dst
}

// finish ends an event. The blank line matters: Codex loses a last event without it.
func finish(dst []byte) []byte { return append(dst, "}\n\n"...) }

// itemEvent begins an event about a whole item, up to the item.
func (e *eventWriter) itemEvent(dst []byte, name string, out *output) []byte {
	dst = append(e.event(dst, name), `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(out.index), 10)
	return append(dst, `,"item":`...)
}

func (e *eventWriter) added(dst []byte, out *output) []byte {
	dst = e.itemEvent(dst, "response.output_item.added", out)
	dst = appendItem(dst, out, statusInProgress)
	return finish(dst)
}

func (e *eventWriter) partEvent(dst []byte, name string, out *output, i int) []byte {
	dst = append(e.event(dst, name), out.where...)
	dst = append(dst, `,"content_index":`...)
	return strconv.AppendInt(dst, int64(i), 10)
}

func (e *eventWriter) finishPart(dst []byte, out *output, i int) []byte {
	p := &out.parts[i]
	if p.closed {
		return dst
	}
	p.closed = true
	if p.refusal {
		dst = e.partEvent(dst, "response.refusal.done", out, i)
		dst = append(dst, `,"refusal":"`...)
		dst = append(dst, p.text...)
		dst = finish(append(dst, '"'))
	} else {
		dst = e.partEvent(dst, "response.output_text.done", out, i)
		dst = append(dst, `,"text":"`...)
		dst = append(dst, p.text...)
		dst = finish(append(dst, `","logprobs":[]`...))
	}
	dst = e.partEvent(dst, "response.content_part.done", out, i)
	dst = appendPart(append(dst, `,"part":`...), p, true)
	return finish(dst)
}

func (e *eventWriter) summaryEvent(dst []byte, name string, out *output) []byte {
	dst = append(e.event(dst, name), out.where...)
	dst = append(dst, `,"summary_index":`...)
	return strconv.AppendInt(dst, int64(len(out.parts)-1), 10)
}

// finishSummary ends the open summary.
func (e *eventWriter) finishSummary(dst []byte, out *output) []byte {
	if len(out.parts) == 0 {
		return dst
	}
	p := &out.parts[len(out.parts)-1]
	if p.closed {
		return dst
	}
	p.closed = true
	dst = e.summaryEvent(dst, "response.reasoning_summary_text.done", out)
	dst = append(dst, `,"text":"`...)
	dst = append(dst, p.text...)
	dst = finish(append(dst, '"'))
	dst = e.summaryEvent(dst, "response.reasoning_summary_part.done", out)
	dst = append(dst, `,"part":`...)
	dst = appendSummary(dst, p)
	return finish(dst)
}

func (e *eventWriter) callDelta(dst []byte, out *output, body []byte) []byte {
	out.text = append(out.text, body...)
	e.size += int64(len(body))
	if out.kind == outputCall {
		dst = e.event(dst, "response.function_call_arguments.delta")
	} else {
		dst = e.event(dst, "response.custom_tool_call_input.delta")
	}
	dst = append(dst, out.where...)
	dst = append(dst, `,"delta":"`...)
	dst = append(dst, body...)
	return append(dst, "\"}\n\n"...)
}

// finishBody writes the done events of an item's content. A call is complete.
func (e *eventWriter) finishBody(dst []byte, out *output) []byte {
	switch out.kind {
	case outputMessage:
		for i := range out.parts {
			dst = e.finishPart(dst, out, i)
		}
	case outputReasoning:
		dst = e.finishSummary(dst, out)
	case outputCall:
		if len(out.text) == 0 { // clients parse it, and "" is not JSON (pitfall P20)
			dst = e.callDelta(dst, out, []byte("{}"))
		}
		dst = append(e.event(dst, "response.function_call_arguments.done"), out.where...)
		dst = scan.QuoteBody(append(dst, `,"name":`...), out.name)
		dst = bodyDone(dst, `,"arguments":"`, out.text)
	case outputCustomCall:
		dst = append(e.event(dst, "response.custom_tool_call_input.done"), out.where...)
		dst = bodyDone(dst, `,"input":"`, out.text)
	}
	return dst
}

// bodyDone ends an event with the complete body of a call.
func bodyDone(dst []byte, member string, body []byte) []byte {
	dst = append(dst, member...)
	dst = append(dst, body...)
	return finish(append(dst, '"'))
}
