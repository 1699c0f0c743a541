package responses

import (
	"bytes"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// streamEncoder writes one answer. The format repeats everything: a text comes in deltas, whole in its done event, in
// the done event of its part, of its item, and in the terminal event. So each item keeps its text in one growing buffer,
// and what is done is kept as JSON for the end.
//
// Text and refusals that follow each other share a message, one part each. A message ends when another item opens:
// clients put their history in the order of the done events, so these come in the order of the items.
type streamEncoder struct {
	o        *codec.AnswerOptions
	sequence int64
	model    []byte
	outputs  []output
	slots    []slot // by ordinal of the content item
	message  int    // outputs[message] takes further parts; -1 when there is none
	done     []byte // finished items as JSON, one after the other
	usage    codec.Usage
	finish   codec.FinishReason
	scratch  []byte
	size     int64 // bytes of text, for an estimate of usage
	started  bool
	ended    bool
	reported bool // usage was
	finished bool
	refused  bool
}

// slot is where the events of one content item go.
type slot struct {
	kind   codec.ItemType
	output int // -1 until the item shows
	part   int
	closed bool
	// held is a call whose item has a shape of its own and shows when it is whole.
	held *heldCall
}

// output is one item of the answer's output; its place in the list is its output_index.
type output struct {
	kind      outputKind
	index     int
	id        []byte
	where     []byte // `,"item_id":"…","output_index":N`
	callID    []byte
	name      []byte
	namespace []byte
	text      []byte // arguments or input, string body
	signature []byte
	raw       []byte // server tools and opaque items: the members after the id
	parts     []part
	sub       int32 // reasoning: the summary that is open
	waits     bool  // it is closed, but may have been cut off, or stands after one that is open
	done      bool
	from, to  int // where it stands in the encoder's done
}

// NewEncoder implements [codec.ClientCodec].
func (client) NewEncoder(o *codec.AnswerOptions) codec.StreamEncoder { return newEncoder(o) }

func newEncoder(o *codec.AnswerOptions) *streamEncoder {
	return &streamEncoder{o: o, message: -1, model: scan.Escape(nil, []byte(o.Model)), sequence: o.Next}
}

// Append implements [codec.StreamEncoder].
func (e *streamEncoder) Append(dst []byte, ev *codec.Event) []byte {
	if e.ended {
		return dst
	}
	switch ev.Kind {
	case codec.EventStart:
		if !ev.Usage.IsZero() {
			e.usage, e.reported = ev.Usage, true
		}
		if len(e.model) == 0 {
			e.model = append(e.model, ev.Model...)
		}
		return e.start(dst)
	case codec.EventText, codec.EventRefusal:
		return e.text(dst, ev)
	case codec.EventReasoning:
		return e.reasoning(dst, ev)
	case codec.EventSignature:
		return e.signature(dst, ev)
	case codec.EventArguments, codec.EventCustomInput:
		return e.call(dst, ev)
	case codec.EventAnnotation:
		return e.annotation(dst, ev)
	case codec.EventItemOpen:
		return e.open(dst, ev)
	case codec.EventItemClose:
		return e.close(dst, ev)
	case codec.EventFinish:
		e.finish, e.finished = ev.Finish, true
	case codec.EventUsage:
		e.usage, e.reported = ev.Usage, true
	case codec.EventPing:
		if e.started { // before that, an answer that fails can still be an HTTP error
			return finish(e.event(dst, "keepalive"))
		}
	case codec.EventError:
		return e.terminal(dst, statusFailed, ev.Err)
	case codec.EventEnd:
		status, failure := e.outcome(ev.End)
		return e.terminal(dst, status, failure)
	}
	return dst
}

// Next implements [codec.StreamEncoder].
func (e *streamEncoder) Next() int64 { return e.sequence }

func (e *streamEncoder) start(dst []byte) []byte {
	if e.started {
		return dst
	}
	e.started = true
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = append(e.event(dst, name), `,"response":`...)
		dst = finish(e.response(dst, statusInProgress, nil))
	}
	return dst
}

// event begins an event: its name, its type and its number. What is appended has to begin with a comma.
func (e *streamEncoder) event(dst []byte, name string) []byte {
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

// slot is the place of a content item that was opened and is not closed, or nil.
func (e *streamEncoder) slot(ordinal int32) *slot {
	if ordinal < 0 || int(ordinal) >= len(e.slots) || e.slots[ordinal].closed {
		return nil
	}
	return &e.slots[ordinal]
}

// open takes note of an item. Calls show at once; messages and reasoning when there is something to show, items of the
// provider's own when they are whole.
func (e *streamEncoder) open(dst []byte, ev *codec.Event) []byte {
	if int(ev.Item) != len(e.slots) {
		return dst
	}
	e.slots = append(e.slots, slot{kind: ev.Type, output: -1})
	s := &e.slots[len(e.slots)-1]
	switch ev.Type {
	case codec.ItemToolCall:
		if shape := clientCallShape(e.o.Request, ev.Name); shape != "" && ev.Namespace == nil {
			s.held = &heldCall{shape: shape, callID: bytes.Clone(ev.CallID), name: bytes.Clone(ev.Name)}
			return dst
		}
		return e.openCall(dst, s, outputCall, ev)
	case codec.ItemCustomCall:
		return e.openCall(dst, s, outputCustomCall, ev)
	}
	return dst
}

// newOutput makes an item, without an event yet. The message that was open ends: no text joins it across another item.
func (e *streamEncoder) newOutput(dst []byte, s *slot, kind outputKind) []byte {
	dst = e.start(dst)
	dst = e.sealMessage(dst)
	dst = e.finishWaiting(dst)
	n := len(e.outputs)
	if n < cap(e.outputs) {
		e.outputs = e.outputs[:n+1]
	} else {
		e.outputs = append(e.outputs, output{})
	}
	out := &e.outputs[n]
	*out = output{
		kind: kind, index: n, sub: -1, parts: out.parts[:0], raw: out.raw[:0],
		id: e.appendID(out.id[:0], prefixOf(kind), n), where: out.where[:0], callID: out.callID[:0],
		name: out.name[:0], namespace: out.namespace[:0], text: out.text[:0], signature: out.signature[:0],
	}
	out.where = append(out.where, `,"item_id":"`...)
	out.where = append(out.where, out.id...)
	out.where = append(out.where, `","output_index":`...)
	out.where = strconv.AppendInt(out.where, int64(n), 10)
	s.output = n
	if kind == outputMessage {
		e.message = n
	}
	return dst
}

func prefixOf(kind outputKind) string {
	switch kind {
	case outputMessage:
		return "msg_"
	case outputReasoning:
		return "rs_"
	case outputCall:
		return "fc_"
	case outputCustomCall:
		return "ctc_"
	}
	return ""
}

// appendID makes an id out of the answer's own and the item's place.
func (e *streamEncoder) appendID(dst []byte, prefix string, n int) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, e.o.ID...)
	if n < 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

func (e *streamEncoder) added(dst []byte, out *output) []byte {
	dst = e.itemEvent(dst, "response.output_item.added", out)
	dst = appendItem(dst, out, statusInProgress)
	return finish(dst)
}

// itemEvent begins an event about a whole item, up to the item.
func (e *streamEncoder) itemEvent(dst []byte, name string, out *output) []byte {
	dst = append(e.event(dst, name), `,"output_index":`...)
	dst = strconv.AppendInt(dst, int64(out.index), 10)
	return append(dst, `,"item":`...)
}

// finishItem writes the done event of an item and keeps its JSON for the end.
func (e *streamEncoder) finishItem(dst []byte, out *output, status string) []byte {
	if out.done {
		return dst
	}
	dst = e.finishBody(dst, out, status)
	out.done = true
	out.from = len(e.done)
	e.done = appendItem(e.done, out, status)
	out.to = len(e.done)
	dst = e.itemEvent(dst, "response.output_item.done", out)
	dst = append(dst, e.done[out.from:out.to]...)
	return finish(dst)
}

// finishBody writes the done events of what is inside an item.
func (e *streamEncoder) finishBody(dst []byte, out *output, status string) []byte {
	switch out.kind {
	case outputMessage:
		for i := range out.parts {
			dst = e.finishPart(dst, out, i)
		}
	case outputReasoning:
		dst = e.finishSummary(dst, out)
	case outputCall:
		if len(out.text) == 0 && status == statusCompleted { // clients parse it, and "" is not JSON (pitfall P20)
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

// bodyDone ends an event with the whole body of a call.
func bodyDone(dst []byte, member string, body []byte) []byte {
	dst = append(dst, member...)
	dst = append(dst, body...)
	return finish(append(dst, '"'))
}

// close ends a content item. A call that may have been cut off waits until another item follows or the finish reason
// tells (pitfall P96), and an item after one that is not done waits for it: clients take the conversation from the done
// events, in their order.
func (e *streamEncoder) close(dst []byte, ev *codec.Event) []byte {
	s := e.slot(ev.Item)
	if s == nil {
		return dst
	}
	s.closed = true
	switch s.kind {
	case codec.ItemServerTool, codec.ItemOpaque:
		return e.wireItem(dst, s, ev)
	case codec.ItemImage:
		return e.picture(dst, s, ev.Raw)
	case codec.ItemText, codec.ItemRefusal:
		if s.output >= 0 {
			dst = e.finishPart(dst, &e.outputs[s.output], s.part)
		}
		return dst
	}
	if s.held != nil {
		dst = e.releaseCall(dst, s)
	}
	if s.output < 0 {
		return dst
	}
	return e.closeItem(dst, &e.outputs[s.output])
}

// closeItem ends an item as soon as all before it have ended.
func (e *streamEncoder) closeItem(dst []byte, out *output) []byte {
	out.waits = true
	return e.finishWhile(dst, func(out *output) bool { return out.waits && e.surelyWhole(out) })
}

// wireItem writes an item that comes as a whole, if this format has it.
func (e *streamEncoder) wireItem(dst []byte, s *slot, ev *codec.Event) []byte {
	prefix, members := itemMembers(e.scratch[:0], ev.Raw, ev.Origin)
	e.scratch = members
	if len(members) == 0 {
		return dst
	}
	dst = e.newOutput(dst, s, outputServerTool)
	out := &e.outputs[s.output]
	return e.wholeItem(dst, out, prefix, append(out.raw, members...))
}

// picture writes a picture as the call that makes one here. It is long: no event holds it but those that have to.
func (e *streamEncoder) picture(dst []byte, s *slot, data []byte) []byte {
	dst = e.newOutput(dst, s, outputPicture)
	out := &e.outputs[s.output]
	out.id = e.appendID(out.id[:0], wirePrefix([]byte(typeImageGeneration)), out.index)
	dst = e.added(dst, out)
	if bytes.IndexByte(data, '"') < 0 { // else it is no base64: no client could read it
		out.text = append(out.text, data...)
	}
	return e.closeItem(dst, out)
}

func (e *streamEncoder) wholeItem(dst []byte, out *output, prefix string, members []byte) []byte {
	out.raw = members
	out.id = e.appendID(out.id[:0], prefix, out.index)
	dst = e.added(dst, out)
	return e.closeItem(dst, out)
}
