package responses

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// outputList is the items of an answer, each of which keeps its text in one growing buffer. Finished items are kept as
// JSON for the end. Items end in order.
type outputList struct {
	eventWriter

	answer  string // its id, from which those of items are derived
	outputs []output
	message int    // outputs[message] accepts further parts; -1 if there is none
	done    []byte // finished items as JSON, one after the other
	scratch []byte
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
	sub       int32 // reasoning: the open summary
	waits     bool  // it is closed, but may be truncated, or follows one that is open
	done      bool
	from, to  int // its range in the list's done
}

// part is one part of a message, or one summary of a reasoning item.
type part struct {
	refusal     bool
	closed      bool
	text        []byte // string body
	annotations []byte // elements of the array, commas included
	cited       int
}

func (out *output) addPart() *part {
	n := len(out.parts)
	out.parts = slices.Grow(out.parts, 1)[:n+1]
	p := &out.parts[n]
	*p = part{text: p.text[:0], annotations: p.annotations[:0]}
	return p
}

func (out *output) partsClosed() bool {
	for i := range out.parts {
		if !out.parts[i].closed {
			return false
		}
	}
	return true
}

// add creates an item, without writing an event, and returns its index in the list. It ends the open message, because
// text does not continue across another item.
func (l *outputList) add(dst []byte, kind outputKind) ([]byte, int) {
	dst = l.sealMessage(dst)
	dst = l.finishWaiting(dst)
	n := len(l.outputs)
	l.outputs = slices.Grow(l.outputs, 1)[:n+1]
	out := &l.outputs[n]
	*out = output{
		kind: kind, index: n, sub: -1, parts: out.parts[:0], raw: out.raw[:0],
		id: l.appendID(out.id[:0], prefixOf(kind), n), where: out.where[:0], callID: out.callID[:0],
		name: out.name[:0], namespace: out.namespace[:0], text: out.text[:0], signature: out.signature[:0],
	}
	out.where = append(out.where, `,"item_id":"`...)
	out.where = append(out.where, out.id...)
	out.where = append(out.where, `","output_index":`...)
	out.where = strconv.AppendInt(out.where, int64(n), 10)
	if kind == outputMessage {
		l.message = n
	}
	return dst, n
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

// appendID appends an id made of the answer's id and the item's index.
func (l *outputList) appendID(dst []byte, prefix string, n int) []byte {
	dst = append(dst, prefix...)
	dst = append(dst, l.answer...)
	if n < 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// setCallID sets the id of a call. An id that is missing or already used in this answer is replaced, because clients
// identify calls by their ids.
func (l *outputList) setCallID(out *output, id []byte) {
	taken := len(id) == 0
	for i := range l.outputs[:out.index] {
		taken = taken || bytes.Equal(l.outputs[i].callID, id)
	}
	if taken {
		out.callID = l.appendID(out.callID[:0], "call_", out.index)
		return
	}
	out.callID = append(out.callID[:0], id...)
}

// finishItem writes the done event of an item and keeps its JSON for the end.
func (l *outputList) finishItem(dst []byte, out *output, status string) []byte {
	if out.done {
		return dst
	}
	dst = l.finishBody(dst, out)
	out.done = true
	out.from = len(l.done)
	l.done = appendItem(l.done, out, status)
	out.to = len(l.done)
	dst = l.itemEvent(dst, "response.output_item.done", out)
	dst = append(dst, l.done[out.from:out.to]...)
	return finish(dst)
}

func (l *outputList) wholeItem(dst []byte, out *output, prefix string, members []byte) []byte {
	out.raw = members
	out.id = l.appendID(out.id[:0], prefix, out.index)
	dst = l.added(dst, out)
	return l.closeItem(dst, out)
}

// closeItem ends an item as soon as all items before it have ended.
func (l *outputList) closeItem(dst []byte, out *output) []byte {
	out.waits = true
	return l.finishWhile(dst, func(out *output) bool { return out.waits && l.surelyWhole(out) })
}

// sealMessage ends the message that accepts further parts, if there is one.
func (l *outputList) sealMessage(dst []byte) []byte {
	if l.message < 0 {
		return dst
	}
	out := &l.outputs[l.message]
	l.message = -1
	return l.closeItem(dst, out)
}

// finishWaiting ends the items that are closed and waiting, because the model has continued with another item.
func (l *outputList) finishWaiting(dst []byte) []byte {
	return l.finishWhile(dst, func(out *output) bool { return out.waits })
}

// finishWhile ends items in order, up to the first that may not end yet.
func (l *outputList) finishWhile(dst []byte, ends func(*output) bool) []byte {
	for i := range l.outputs {
		out := &l.outputs[i]
		if !out.done && !ends(out) {
			break
		}
		dst = l.finishItem(dst, out, statusCompleted)
	}
	return dst
}

// surelyWhole reports whether a closed item cannot be truncated, as only calls can be. A call whose arguments are a
// JSON value is not. For free text that is unknown, and a call without arguments looks like one that was truncated at
// once.
func (l *outputList) surelyWhole(out *output) bool {
	switch out.kind {
	case outputCall:
	case outputCustomCall:
		return false
	default:
		return true
	}
	l.scratch = scan.Unescape(l.scratch[:0], out.text)
	return scan.Valid(l.scratch)
}

// finishAll ends the open items in order. Those that the provider left open in a truncated answer are incomplete
// themselves. A call that may be cut off gets no done event, because clients run what has one whatever its status: it is
// only in the terminal event.
func (l *outputList) finishAll(dst []byte, status string) []byte {
	last := l.message
	l.message = -1
	for i := range l.outputs {
		out, itemStatus := &l.outputs[i], status
		if i == last && out.partsClosed() || out.waits && l.surelyWhole(out) {
			itemStatus = statusCompleted
		}
		if itemStatus != statusCompleted && (out.kind == outputCall || out.kind == outputCustomCall) {
			continue
		}
		dst = l.finishItem(dst, out, itemStatus)
	}
	return dst
}

// append writes the items in their present state.
func (l *outputList) append(dst []byte) []byte {
	for i := range l.outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if out := &l.outputs[i]; out.done {
			dst = append(dst, l.done[out.from:out.to]...)
		} else {
			dst = appendItem(dst, out, statusIncomplete)
		}
	}
	return dst
}
