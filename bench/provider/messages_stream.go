package provider

import (
	"strconv"
)

// A messagesStream writes the events of one message.
type messagesStream struct {
	*stream
	messagesFormat
	a     *answer
	p     *prompt
	named bool // events have their event: line
	index int
}

func (f messagesFormat) stream(s *stream, a *answer, p *prompt) {
	m := &messagesStream{stream: s, a: a, p: p, named: !a.omit["event-lines"]}
	s.ping = func(dst []byte) []byte {
		dst = m.begin(dst, "ping")
		dst = append(dst, `{"type": "ping"}`...)
		return append(dst, s.nl+s.nl...)
	}
	s.inside = func(dst []byte) []byte {
		dst = m.begin(dst, "error")
		dst = a.insideFault.messagesError(dst, "req_"+a.id)
		return append(dst, s.nl+s.nl...)
	}
	s.queue()
	s.buf = m.begin(s.buf, "message_start")
	s.buf = append(s.buf, `{"type":"message_start","message":`...)
	s.buf = f.envelope(s.buf, a)
	s.buf = append(s.buf, `],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"diagnostics":null,"usage":`...)
	s.buf = f.usage(s.buf, a, min(1, a.usage.output), 0)
	m.finish("}}")
	m.blocks()
	if !s.terminal() {
		return
	}
	if !a.omit["finish"] {
		s.buf = m.begin(s.buf, "message_delta")
		s.buf = append(s.buf, `{"type":"message_delta","delta":{`...)
		s.buf = f.stop(s.buf, a)
		s.buf = append(s.buf, `,"container":null},"usage":{`...)
		s.buf = f.counts(s.buf, a, a.usage.output, a.usage.reasoning)
		m.finish("}}")
	}
	if !a.omit["done"] {
		s.buf = m.begin(s.buf, "message_stop")
		s.buf = append(s.buf, `{"type":"message_stop"`...)
		m.finish("}")
	}
}

// begin appends the framing before an event's data.
func (m *messagesStream) begin(dst []byte, event string) []byte {
	if m.named {
		dst = append(dst, "event: "...)
		dst = append(dst, event...)
		dst = append(dst, m.nl...)
	}
	return append(dst, "data: "...)
}

func (m *messagesStream) finish(closing string) bool {
	m.buf = append(m.buf, closing...)
	m.buf = append(m.buf, m.nl...)
	m.buf = append(m.buf, m.nl...)
	return m.end()
}

func (m *messagesStream) blocks() {
	if m.a.interleave && m.a.calls > 1 && m.a.calls == len(m.a.parts) {
		m.interleaved()
		return
	}
	m.messagesFormat.blocks(m.a, func(b *block) bool {
		m.open(b)
		if m.index == 0 {
			m.buf = m.ping(m.buf)
			m.start = len(m.buf)
		}
		m.content(b, m.index)
		m.closeBlock(m.index)
		m.index++
		return !m.over
	})
}

// open writes content_block_start for the block at m.index.
func (m *messagesStream) open(b *block) {
	m.buf = m.begin(m.buf, "content_block_start")
	m.buf = append(m.buf, `{"type":"content_block_start","index":`...)
	m.buf = strconv.AppendInt(m.buf, int64(m.index), 10)
	m.buf = append(m.buf, `,"content_block":`...)
	switch b.kind {
	case blockText:
		m.buf = append(m.buf, `{"type":"text","text":""}`...)
	case blockThinking:
		m.buf = append(m.buf, `{"type":"thinking","thinking":"","signature":""}`...)
	case blockToolUse, blockServerToolUse:
		m.buf = m.callStart(m.buf, b)
		m.buf = append(m.buf, `{},"caller":{"type":"direct"}}`...)
	default:
		m.buf = m.ready(m.buf, m.a, b)
	}
	m.finish("}")
}

func (m *messagesStream) closeBlock(index int) {
	m.buf = m.begin(m.buf, "content_block_stop")
	m.buf = append(m.buf, `{"type":"content_block_stop","index":`...)
	m.buf = strconv.AppendInt(m.buf, int64(index), 10)
	m.finish("}")
}

// content writes the deltas of a block.
func (m *messagesStream) content(b *block, index int) {
	switch b.kind {
	case blockText:
		m.novelty(index)
		m.pieces(m.deltaHead(index, "text_delta", "text"), b.escaped, b.size)
		for _, c := range b.citations {
			m.buf = append(m.buf, m.deltaHead(index, "citations_delta", "")...)
			m.buf = m.citation(m.buf, m.a, b, c)
			m.finish("}}")
		}
	case blockThinking:
		if !m.p.hideReasoning {
			m.pieces(m.deltaHead(index, "thinking_delta", "thinking"), b.escaped, b.size)
		}
		if signature := m.signature(m.a, b); signature != "" {
			m.buf = append(m.buf, m.deltaHead(index, "signature_delta", "signature")...)
			m.buf = append(m.buf, signature...)
			m.finish(`"}}`)
		}
	case blockToolUse, blockServerToolUse:
		head := m.deltaHead(index, "input_json_delta", "partial_json")
		m.buf = append(m.buf, head...)
		m.finish(`"}}`)
		m.pieces(head, m.escapedInput(b), b.size)
	}
}

func (m *messagesStream) escapedInput(b *block) string {
	if b.part.kind == partCall {
		return b.escaped
	}
	return string(appendEscaped(nil, m.partialJSON(b), m.a.splitPairs))
}

// novelty writes an event and a delta that no version of the format defines.
func (m *messagesStream) novelty(index int) {
	if !m.a.unknown {
		return
	}
	m.buf = m.begin(m.buf, "novelty")
	m.buf = append(m.buf, `{"type":"novelty","payload":{"deep":[1,2,3]}`...)
	m.finish("}")
	m.buf = append(m.buf, m.deltaHead(index, "novelty_delta", "novelty")...)
	m.finish(`new"}}`)
}

// deltaHead renders a delta up to the inside of its text member, or, without a member, up to the value.
func (m *messagesStream) deltaHead(index int, kind, member string) []byte {
	head := m.begin(nil, "content_block_delta")
	head = append(head, `{"type":"content_block_delta","index":`...)
	head = strconv.AppendInt(head, int64(index), 10)
	head = append(head, `,"delta":{"type":"`+kind+`",`...)
	if member == "" {
		return append(head, `"citation":`...)
	}
	return append(head, `"`+member+`":"`...)
}

// pieces writes a text as deltas.
func (m *messagesStream) pieces(head []byte, escaped string, size int) {
	for escaped != "" {
		var piece string
		piece, escaped = cutEscaped(escaped, size)
		m.buf = append(m.buf, head...)
		m.buf = append(m.buf, piece...)
		if !m.finish(`"}}`) {
			return
		}
	}
}

// interleaved opens all calls and then takes one fragment of each in turn.
func (m *messagesStream) interleaved() {
	var rest []string
	var heads [][]byte
	m.messagesFormat.blocks(m.a, func(b *block) bool {
		m.open(b)
		rest = append(rest, m.escapedInput(b))
		heads = append(heads, m.deltaHead(m.index, "input_json_delta", "partial_json"))
		m.index++
		return !m.over
	})
	for left := len(rest); left > 0 && !m.over; {
		left = 0
		for i := range rest {
			if rest[i] == "" {
				continue
			}
			left++
			var piece string
			piece, rest[i] = cutEscaped(rest[i], m.a.parts[i].size)
			m.buf = append(m.buf, heads[i]...)
			m.buf = append(m.buf, piece...)
			if !m.finish(`"}}`) {
				return
			}
		}
	}
	for i := range m.index {
		m.closeBlock(i)
	}
}
