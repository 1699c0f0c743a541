package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// streamEncoder writes one answer. The format repeats everything: a text is sent in deltas, and again in full in its
// done event, in those of its part and its item, and in the terminal event. So each item keeps its text in one growing
// buffer, and finished items are kept as JSON for the end.
//
// Consecutive text and refusals share a message, one part each. A message ends when another item opens: clients order
// their history by the done events, so these come in the order of the items.
type streamEncoder struct {
	outputList
	tally

	o       *codec.AnswerOptions
	model   []byte
	echoed  []byte // what every response object repeats of the request
	slots   []slot // by ordinal of the content item
	started bool
	ended   bool
}

// slot is the destination of the events of one content item.
type slot struct {
	kind   codec.ItemType
	output int // -1 until the item shows
	part   int
	closed bool
	// held is a call whose item has a shape of its own and is written once it is complete.
	held *heldCall
}

// NewEncoder implements [codec.ClientCodec].
func (client) NewEncoder(o *codec.AnswerOptions) codec.StreamEncoder { return newEncoder(o) }

func newEncoder(o *codec.AnswerOptions) *streamEncoder {
	list := outputList{eventWriter: eventWriter{sequence: o.Next}, answer: o.ID, message: -1}
	return &streamEncoder{outputList: list, o: o, model: scan.Escape(nil, []byte(o.Model))}
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

// slot returns the slot of an open content item, or nil.
func (e *streamEncoder) slot(ordinal int32) *slot {
	if ordinal < 0 || int(ordinal) >= len(e.slots) || e.slots[ordinal].closed {
		return nil
	}
	return &e.slots[ordinal]
}

// open registers an item. Calls are written at once, messages and reasoning once they have content, and items of the
// provider's own once they are complete.
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

// close ends a content item. A call that may be truncated waits until another item or the finish reason decides that
// (pitfall P96), and an item waits until those before it are done: clients build the conversation from the done events,
// in their order.
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

// wireItem writes an item that arrives complete, if this format has it.
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

// picture writes a picture as the call that generates one in this format. It is long, so only those events that need it
// contain it.
func (e *streamEncoder) picture(dst []byte, s *slot, data []byte) []byte {
	dst = e.newOutput(dst, s, outputPicture)
	out := &e.outputs[s.output]
	out.id = e.appendID(out.id[:0], wirePrefix([]byte(typeImageGeneration)), out.index)
	dst = e.added(dst, out)
	if bytes.IndexByte(data, '"') < 0 { // otherwise it is not base64, and no client could read it
		out.text = append(out.text, data...)
	}
	return e.closeItem(dst, out)
}

// newOutput creates the item of a slot, without writing an event.
func (e *streamEncoder) newOutput(dst []byte, s *slot, kind outputKind) []byte {
	dst, s.output = e.add(e.start(dst), kind)
	return dst
}
