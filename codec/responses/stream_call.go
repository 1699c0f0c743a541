package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// heldCall is a call of a tool of documented shape, on its way.
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

// setCallID gives a call its id. One that is missing or has been used in this answer is replaced: clients tell calls by
// their ids.
func (e *streamEncoder) setCallID(out *output, id []byte) {
	taken := len(id) == 0
	for i := range e.outputs[:out.index] {
		taken = taken || bytes.Equal(e.outputs[i].callID, id)
	}
	if taken {
		out.callID = e.appendID(out.callID[:0], "call_", out.index)
		return
	}
	out.callID = append(out.callID[:0], id...)
}

// call is a piece of a call's arguments or input.
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

func (e *streamEncoder) callDelta(dst []byte, out *output, body []byte) []byte {
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

// surelyWhole reports whether a closed item cannot have been cut off, which only calls can: one whose arguments are a JSON
// value has not been. Of free text nobody knows, and the call of a function that takes nothing looks like one that was
// cut off at once.
func (e *streamEncoder) surelyWhole(out *output) bool {
	switch out.kind {
	case outputCall:
	case outputCustomCall:
		return false
	default:
		return true
	}
	e.scratch = scan.Unescape(e.scratch[:0], out.text)
	return scan.Valid(e.scratch)
}

// finishWaiting ends the items that were closed and waited: the model has gone on to something else.
func (e *streamEncoder) finishWaiting(dst []byte) []byte {
	return e.finishWhile(dst, func(out *output) bool { return out.waits })
}

// finishWhile ends items in their order, up to the first that may not end yet.
func (e *streamEncoder) finishWhile(dst []byte, ends func(*output) bool) []byte {
	for i := range e.outputs {
		out := &e.outputs[i]
		if !out.done && !ends(out) {
			break
		}
		dst = e.finishItem(dst, out, statusCompleted)
	}
	return dst
}

// releaseCall shows a call that was held: as the item of its shape, or as an ordinary call when its arguments do not
// make one.
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
