package messages

import (
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
	index := int64(0)
	for el := scan.Array(blocks); el.Next(); index++ {
		dst = d.blockStart(dst, index, el.Value)
		dst = d.blockStop(dst, index)
	}
	dst = d.finish(dst, message)
	if usage := scan.Get(message, "usage"); scan.IsObject(usage) {
		dst = append(dst, codec.Event{Kind: codec.EventUsage, Usage: d.usage})
	}
	d.ended = true
	return append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}
