package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
)

// text writes a piece of a text or a refusal.
func (e *streamEncoder) text(dst []byte, ev *codec.Event) []byte {
	s := e.slot(ev.Item)
	if s == nil || len(ev.Raw) == 0 || s.kind != textKind(ev.Kind) {
		return dst
	}
	dst, out, p := e.messagePart(dst, s)
	p.text = append(p.text, ev.Raw...)
	e.size += int64(len(ev.Raw))
	if p.refusal {
		dst = e.event(dst, "response.refusal.delta")
	} else {
		dst = e.event(dst, "response.output_text.delta")
	}
	dst = append(dst, out.where...)
	dst = append(dst, `,"content_index":`...)
	dst = strconv.AppendInt(dst, int64(s.part), 10)
	dst = append(dst, `,"delta":"`...)
	dst = append(dst, ev.Raw...)
	if p.refusal {
		return append(dst, "\"}\n\n"...)
	}
	return append(dst, "\",\"logprobs\":[]}\n\n"...)
}

func textKind(kind codec.EventKind) codec.ItemType {
	if kind == codec.EventRefusal {
		return codec.ItemRefusal
	}
	return codec.ItemText
}

// messagePart returns the open part of a text item. Text that continues after its message has ended, because a call
// came in between, continues in a new message.
func (e *streamEncoder) messagePart(dst []byte, s *slot) ([]byte, *output, *part) {
	if s.output >= 0 && !e.outputs[s.output].parts[s.part].closed {
		out := &e.outputs[s.output]
		return dst, out, &out.parts[s.part]
	}
	if e.message < 0 {
		dst = e.newOutput(dst, s, outputMessage)
		dst = e.added(dst, &e.outputs[s.output])
	}
	s.output = e.message
	out := &e.outputs[s.output]
	s.part = len(out.parts)
	p := out.addPart()
	p.refusal = s.kind == codec.ItemRefusal && !e.o.RefusalAsText
	e.refused = e.refused || s.kind == codec.ItemRefusal
	dst = e.partEvent(dst, "response.content_part.added", out, s.part)
	dst = appendPart(append(dst, `,"part":`...), p, false)
	return finish(dst), out, p
}

// annotation writes a citation if its shape has a counterpart in this format.
func (e *streamEncoder) annotation(dst []byte, ev *codec.Event) []byte {
	s := e.slot(ev.Item)
	if s == nil || s.kind != codec.ItemText {
		return dst
	}
	var length int
	if s.output >= 0 {
		length = characters(e.outputs[s.output].parts[s.part].text)
	}
	e.scratch = appendAnnotation(e.scratch[:0], ev.Raw, ev.Origin, length)
	if len(e.scratch) == 0 {
		return dst
	}
	dst, out, p := e.messagePart(dst, s)
	if p.cited > 0 {
		p.annotations = append(p.annotations, ',')
	}
	p.annotations = append(p.annotations, e.scratch...)
	dst = e.partEvent(dst, "response.output_text.annotation.added", out, s.part)
	dst = append(dst, `,"annotation_index":`...)
	dst = strconv.AppendInt(dst, int64(p.cited), 10)
	p.cited++
	dst = append(dst, `,"annotation":`...)
	return finish(append(dst, e.scratch...))
}
