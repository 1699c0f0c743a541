package messages

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeAnswer decodes a complete answer with the stream decoder. Views in the events point into body or into memory
// allocated for this call.
func (provider) DecodeAnswer(dst []codec.Event, body []byte, _ string) []codec.Event {
	d := new(decoder)
	if !scan.Valid(body) || !scan.IsObject(body) {
		dst = d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer is not JSON"))
		return d.Finish(dst, codec.EndBroken, nil)
	}
	f := readFrame(nil, body)
	if string(f.kind) == "error" || !scan.IsNull(f.err) {
		dst = d.fail(dst, decodeEventError(body))
		return d.Finish(dst, codec.EndBroken, nil)
	}
	dst = d.message(dst, body)
	return d.Finish(dst, codec.EndEOF, nil)
}

// message decodes a complete answer: the same steps as a stream, with blocks that are complete from the start.
func (d *decoder) message(dst []codec.Event, message []byte) []codec.Event {
	if d.started {
		return dst
	}
	blocks := scan.Get(message, "content")
	if !scan.IsArray(blocks) {
		return d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer has no content"))
	}
	dst = d.messageStart(dst, message)
	index, cut := int64(0), int64(-1)
	if stoppedShort(message) {
		cut = int64(scan.Count(blocks)) - 1
	}
	for el := scan.Array(blocks); el.Next(); index++ {
		dst = d.blockStart(dst, index, el.Value)
		if index == cut {
			dst = d.openCall(dst, d.find(index))
		}
		dst = d.blockStop(dst, index)
	}
	dst = d.finish(dst, message)
	if usage := scan.Get(message, "usage"); scan.IsObject(usage) {
		dst = append(dst, codec.Event{Kind: codec.EventUsage, Usage: d.usage})
	}
	d.ended = true
	return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}

// stoppedShort reports whether the last call of a complete answer may have been cut.
func stoppedShort(message []byte) bool {
	finish := finishOf(scan.Body(scan.Get(message, "stop_reason")))
	return finish == codec.FinishLength || finish == codec.FinishContext || finish == codec.FinishFilter
}

// openCall reports the arguments of a call that may have been cut, as a stream would have: without their end. The block has an
// object that is closed in any case, often an empty one, and clients of other formats would run a call with that.
func (d *decoder) openCall(dst []codec.Event, b *block) []codec.Event {
	if b == nil || b.kind != codec.ItemToolCall {
		return dst
	}
	whole := []byte("{")
	if scan.IsObject(b.whole) {
		whole = bytes.TrimSuffix(bytes.TrimSpace(b.whole), []byte("}"))
	}
	return arguments(dst, b, d.keep(scan.Escape, whole))
}
