package responses

import "github.com/mnemeproxy/mneme/codec"

// reasoning writes a piece of visible reasoning. It is always sent as a summary, which clients show and send back; most
// neither show nor return full text (reasoning_text).
func (e *streamEncoder) reasoning(dst []byte, ev *codec.Event) []byte {
	s := e.slot(ev.Item)
	if s == nil || s.kind != codec.ItemReasoning || len(ev.Raw) == 0 || !e.o.ShowReasoning {
		return dst
	}
	dst, out := e.reasoningOutput(dst, s)
	e.size += int64(len(ev.Raw))
	if out.sub != ev.Sub || len(out.parts) == 0 {
		dst = e.finishSummary(dst, out)
		out.sub = ev.Sub
		out.addPart()
		dst = e.summaryEvent(dst, "response.reasoning_summary_part.added", out)
		dst = finish(append(dst, `,"part":{"type":"summary_text","text":""}`...))
	}
	p := &out.parts[len(out.parts)-1]
	p.text = append(p.text, ev.Raw...)
	dst = e.summaryEvent(dst, "response.reasoning_summary_text.delta", out)
	dst = append(dst, `,"delta":"`...)
	dst = append(dst, ev.Raw...)
	return finish(append(dst, '"'))
}

func (e *streamEncoder) reasoningOutput(dst []byte, s *slot) ([]byte, *output) {
	if s.output < 0 {
		dst = e.newOutput(dst, s, outputReasoning)
		dst = e.added(dst, &e.outputs[s.output])
	}
	return dst, &e.outputs[s.output]
}

// signature keeps the state of a reasoning item for its done event, if the client wants state.
func (e *streamEncoder) signature(dst []byte, ev *codec.Event) []byte {
	s := e.slot(ev.Item)
	if s == nil || len(ev.Raw) == 0 || !e.o.IncludeState ||
		s.kind != codec.ItemReasoning && s.kind != codec.ItemRedacted {
		return dst
	}
	dst, out := e.reasoningOutput(dst, s)
	out.signature = append(out.signature, ev.Raw...)
	return dst
}
