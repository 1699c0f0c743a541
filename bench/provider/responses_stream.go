package provider

import (
	"slices"
	"strconv"
)

// A responsesStream writes the events of one response, numbered from 0.
type responsesStream struct {
	*stream
	*responsesWriter
	sequence  int
	named     bool
	obfuscate bool
}

func (f responsesFormat) stream(s *stream, a *answer, p *prompt) {
	f.remember(a, p)
	r := &responsesStream{stream: s, responsesWriter: newResponsesWriter(a, p), named: !a.omit["event-lines"]}
	r.obfuscate = string(p.members.object("stream_options")["include_obfuscation"]) != "false"
	s.ping = func(dst []byte) []byte {
		dst = r.begin(dst, "keepalive")
		return append(append(append(dst, '}'), s.nl...), s.nl...)
	}
	s.inside = r.fault
	s.queue()
	for _, event := range []string{"response.created", "response.in_progress"} {
		s.buf = r.begin(s.buf, event)
		s.buf = append(s.buf, `,"response":`...)
		s.buf = r.response(s.buf, "in_progress", false)
		r.finish()
	}
	r.items()
	if !s.terminal() || a.omit["finish"] {
		return
	}
	status := r.status()
	s.buf = r.begin(s.buf, "response."+status)
	s.buf = append(s.buf, `,"response":`...)
	s.buf = r.response(s.buf, status, true)
	r.finish()
}

// fault appends what ends a broken stream: response.failed, or, where the script asks for it, an error event in
// the nested form that the service really sends.
func (r *responsesStream) fault(dst []byte) []byte {
	if r.a.insideFault.event {
		dst = r.begin(dst, "error")
		dst = append(dst, `,"error":`...)
		dst = r.a.insideFault.openaiError(dst)
	} else {
		dst = r.begin(dst, "response.failed")
		dst = append(dst, `,"response":`...)
		dst = r.response(dst, "failed", false)
	}
	return append(append(append(dst, '}'), r.nl...), r.nl...)
}

// begin appends an event up to its own members.
func (r *responsesStream) begin(dst []byte, event string) []byte {
	if r.named {
		dst = append(dst, "event: "...)
		dst = append(dst, event...)
		dst = append(dst, r.nl...)
	}
	dst = append(dst, `data: {"type":"`...)
	dst = append(dst, event...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, int64(r.sequence), 10)
	r.sequence++
	return dst
}

// finish closes an event's object and hands it on.
func (r *responsesStream) finish() bool {
	r.buf = append(r.buf, '}')
	r.buf = append(r.buf, r.nl...)
	r.buf = append(r.buf, r.nl...)
	return r.end()
}

// event writes an event whose members do not come from a long text.
func (r *responsesStream) event(name string, members ...string) {
	r.buf = r.begin(r.buf, name)
	for _, member := range members {
		r.buf = append(r.buf, member...)
	}
	r.finish()
}

func (r *responsesStream) items() {
	if r.a.unknown {
		r.event("response.novelty.delta", `,"novelty":{"deep":[1,2,3]}`)
	}
	for i := 0; i < len(r.a.parts) && !r.over; i++ {
		n := r.a.run(i)
		if r.a.interleave && n > 1 {
			r.interleaved(r.a.parts[i : i+n])
			i += n - 1
			continue
		}
		pt := &r.a.parts[i]
		r.added(pt)
		r.content(pt)
		r.done(pt)
	}
}

func (r *responsesStream) added(pt *part) {
	r.event("response.output_item.added", r.output(pt), `,"item":`, string(r.item(nil, pt, itemInProgress)))
}

func (r *responsesStream) done(pt *part) {
	r.event("response.output_item.done", r.output(pt), `,"item":`, string(r.item(nil, pt, itemCompleted)))
}

// output is the member that says where in the output an item stands.
func (r *responsesStream) output(pt *part) string {
	return `,"output_index":` + strconv.Itoa(pt.ordinal)
}

// place is what all events inside an item carry; index names the content or summary part, "" for none.
func (r *responsesStream) place(pt *part, index string) string {
	place := `,"item_id":"` + r.itemID(pt) + `"` + r.output(pt)
	if index != "" {
		place += `,"` + index + `":0`
	}
	return place
}

func (r *responsesStream) content(pt *part) {
	switch pt.kind {
	case partText:
		place := r.place(pt, "content_index")
		r.event("response.content_part.added", place, `,"part":`, string(r.contentPart(nil, pt, false)))
		r.deltas("response.output_text.delta", place, `"logprobs":[]`, pt.escaped, pt.size)
		for i, c := range pt.citations {
			r.event("response.output_text.annotation.added", place, `,"annotation_index":`, strconv.Itoa(i), `,"annotation":`, string(r.annotation(nil, pt, c)))
		}
		r.event("response.output_text.done", place, `,"text":"`, pt.escaped, `","logprobs":[]`)
		r.event("response.content_part.done", place, `,"part":`, string(r.contentPart(nil, pt, true)))
	case partRefusal:
		place := r.place(pt, "content_index")
		r.event("response.content_part.added", place, `,"part":`, string(r.contentPart(nil, pt, false)))
		r.deltas("response.refusal.delta", place, "", pt.escaped, pt.size)
		r.event("response.refusal.done", place, `,"refusal":"`, pt.escaped, `"`)
		r.event("response.content_part.done", place, `,"part":`, string(r.contentPart(nil, pt, true)))
	case partReasoning:
		place := r.place(pt, "summary_index")
		r.event("response.reasoning_summary_part.added", place, `,"part":`, string(r.contentPart(nil, pt, false)))
		r.deltas("response.reasoning_summary_text.delta", place, "", pt.escaped, pt.size)
		r.event("response.reasoning_summary_text.done", place, `,"text":"`, pt.escaped, `"`)
		r.event("response.reasoning_summary_part.done", place, `,"part":`, string(r.contentPart(nil, pt, true)))
	case partCall, partCustom:
		name, _ := callEvents(pt)
		r.deltas(name+".delta", r.place(pt, ""), "", callText(pt), pt.size)
		r.callDone(pt)
	case partSearch:
		for _, phase := range []string{"in_progress", "searching", "completed"} {
			r.event("response.web_search_call."+phase, r.place(pt, ""))
		}
	}
}

// callEvents names the events of a call and the member that holds its text.
func callEvents(pt *part) (event, member string) {
	if pt.kind == partCustom {
		return "response.custom_tool_call_input", "input"
	}
	return "response.function_call_arguments", "arguments"
}

func (r *responsesStream) callDone(pt *part) {
	event, member := callEvents(pt)
	r.event(event+".done", r.place(pt, ""), `,"`, member, `":"`, callText(pt), `"`)
}

// deltas writes a text.
func (r *responsesStream) deltas(event, place, extra, escaped string, size int) {
	if r.a.quirk["no-deltas"] {
		return
	}
	for escaped != "" {
		var piece string
		piece, escaped = cutEscaped(escaped, size)
		if !r.delta(event, place, extra, piece) {
			return
		}
	}
}

func (r *responsesStream) delta(event, place, extra, piece string) bool {
	r.buf = r.begin(r.buf, event)
	r.buf = append(r.buf, place...)
	r.buf = append(r.buf, `,"delta":"`...)
	r.buf = append(r.buf, piece...)
	r.buf = append(r.buf, '"')
	if extra != "" {
		r.buf = append(append(r.buf, ','), extra...)
	}
	if r.obfuscate {
		r.buf = append(r.buf, `,"obfuscation":"`...)
		r.buf = append(r.buf, padding(r.sequence)...)
		r.buf = append(r.buf, '"')
	}
	return r.finish()
}

// interleaved opens all calls and then takes one fragment of each in turn.
func (r *responsesStream) interleaved(calls []part) {
	rest := make([]string, len(calls))
	for i := range calls {
		r.added(&calls[i])
		rest[i] = callText(&calls[i])
	}
	for slices.ContainsFunc(rest, func(s string) bool { return s != "" }) && !r.over {
		for i := range calls {
			if rest[i] == "" {
				continue
			}
			var piece string
			piece, rest[i] = cutEscaped(rest[i], calls[i].size)
			name, _ := callEvents(&calls[i])
			r.delta(name+".delta", r.place(&calls[i], ""), "", piece)
		}
	}
	for i := range calls {
		r.callDone(&calls[i])
		r.done(&calls[i])
	}
}
