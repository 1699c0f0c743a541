package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeAnswer reads a complete answer: its message is a delta that holds everything. Hosts may send empty lines before
// the document to keep the connection alive, and may report an error with status 200.
func (p provider) DecodeAnswer(dst []codec.Event, body []byte, _ string) []codec.Event {
	d := decoder{endsWithoutFinish: p.endsWithoutFinish}
	body = bytes.Trim(body, " \t\r\n") // JSON white space only
	if !scan.Valid(body) {
		dst = d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer cannot be read: it %s", scan.Explain(body)))
		return d.end(dst, codec.EndBroken)
	}
	return d.answer(dst, body)
}

func (d *decoder) answer(dst []codec.Event, body []byte) []codec.Event {
	c := readChunk(body)
	if c.failed(nil) {
		dst = d.fail(dst, readError(0, 0, body))
		return d.end(dst, codec.EndBroken)
	}
	d.tier = codec.ReadTier(c.tier)
	if scan.IsObject(c.usage) {
		d.count(c.usage)
	}
	choices := scan.Array(c.choices)
	message, finish := []byte(nil), []byte(nil)
	if choices.Next() {
		for m := scan.Object(choices.Value); m.Next(); {
			switch string(m.Key) {
			case "message":
				message = m.Value
			case "finish_reason":
				finish = scan.Body(m.Value)
			}
		}
	}
	if !scan.IsObject(message) {
		dst = d.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer holds no message"))
		return d.end(dst, codec.EndBroken)
	}
	dst = d.start(dst, &c)
	dst = d.delta(dst, message, true)
	if !d.over {
		dst = d.stop(dst, finish)
	}
	if d.over {
		return d.end(dst, codec.EndBroken)
	}
	d.finished = true // a whole body is complete, even if it does not say so
	if dst = d.terminal(dst); d.ended {
		return dst
	}
	return d.end(dst, codec.EndBroken)
}
