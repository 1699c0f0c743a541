package responses

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// heldCall is an incomplete call of a tool of documented shape.
type heldCall struct {
	shape              string
	callID, name, text []byte
}

func (e *streamEncoder) openCall(dst []byte, s *slot, kind outputKind, ev *codec.Event) []byte {
	dst = e.newOutput(dst, s, kind)
	out := &e.outputs[s.output]
	out.name = append(out.name, ev.Name...)
	out.namespace = append(out.namespace, ev.Namespace...)
	e.setCallID(out, ev.CallID)
	return e.added(dst, out)
}

// call writes a piece of a call's arguments or input.
func (e *streamEncoder) call(dst []byte, ev *codec.Event) []byte {
	s := e.slot(ev.Item)
	if s == nil || len(ev.Raw) == 0 || s.kind != callKind(ev.Kind) {
		return dst
	}
	if s.held != nil {
		if !ev.Whole || len(s.held.text) == 0 {
			s.held.text = append(s.held.text, ev.Raw...)
		}
		return dst
	}
	out := &e.outputs[s.output]
	if ev.Whole && len(out.text) > 0 {
		return dst
	}
	return e.callDelta(dst, out, ev.Raw)
}

func callKind(kind codec.EventKind) codec.ItemType {
	if kind == codec.EventCustomInput {
		return codec.ItemCustomCall
	}
	return codec.ItemToolCall
}

// releaseCall writes a held call: as the item of its shape, or as an ordinary call if its arguments do not fit that
// shape.
func (e *streamEncoder) releaseCall(dst []byte, s *slot) []byte {
	call := s.held
	s.held = nil
	arguments := scan.Unescape(nil, call.text)
	if scan.IsObject(arguments) && scan.Valid(arguments) {
		dst = e.newOutput(dst, s, outputServerTool)
		out := &e.outputs[s.output]
		e.setCallID(out, call.callID)
		prefix, members := clientCallMembers(out.raw, call.shape, out.callID, arguments)
		return e.wholeItem(dst, out, prefix, members)
	}
	dst = e.openCall(dst, s, outputCall, &codec.Event{CallID: call.callID, Name: call.name})
	if len(call.text) > 0 {
		dst = e.callDelta(dst, &e.outputs[s.output], call.text)
	}
	return dst
}
