package provider

import (
	"strconv"
)

// A chatStream writes chunks. Everything around a delta is rendered once.
type chatStream struct {
	*stream
	a         *answer
	p         *prompt
	head      []byte // up to the inside of delta
	tail      []byte // after the inside of delta, up to the end of the frame or to the obfuscation
	obfuscate bool
	deepseek  bool
	hold      bool   // the last piece of the text being written travels with the finish reason
	held      string // that piece with its member
}

func (f chatFormat) stream(s *stream, a *answer, p *prompt) {
	options := p.members.object("stream_options")
	c := &chatStream{stream: s, a: a, p: p, deepseek: isDeepSeekModel(a.model)}
	c.obfuscate = !c.deepseek && string(options["include_obfuscation"]) != "false"
	withUsage := options.flag("include_usage") && !a.omit["usage"]
	head := f.head([]byte("data: "), a, "chat.completion.chunk")
	c.head = append(head[:len(head):len(head)], `,"choices":[{"index":0,"delta":{`...)
	c.tail = []byte(`},"logprobs":null,"finish_reason":null}]`)
	switch {
	case a.quirk["usage-everywhere"]:
		c.tail = f.usage(append(c.tail, `,"usage":`...), a)
	case withUsage:
		c.tail = append(c.tail, `,"usage":null`...)
	}
	if c.obfuscate {
		c.tail = append(c.tail, `,"obfuscation":"`...)
	} else {
		c.tail = append(append(c.tail, '}'), s.nl+s.nl...)
	}
	s.ping = func(dst []byte) []byte { return append(dst, ": keep-alive"+s.nl+s.nl...) }
	s.inside = func(dst []byte) []byte {
		dst = a.insideFault.openaiError(append(dst, `data: {"error":`...))
		return append(append(dst, '}'), s.nl+s.nl...)
	}
	s.queue()
	c.opening()
	c.parts()
	if !s.terminal() {
		return
	}
	if !a.omit["finish"] {
		s.buf = append(s.buf, c.head...)
		if c.deepseek && c.held == "" {
			s.buf = append(s.buf, `"content":""`...)
		}
		s.buf = append(s.buf, c.held...)
		s.buf = append(s.buf, `},"logprobs":null,"finish_reason":`...)
		s.buf = f.finish(s.buf, a)
		s.buf = append(s.buf, `}]`...)
		switch {
		case a.quirk["usage-with-finish"] || a.quirk["usage-everywhere"]:
			s.buf = f.usage(append(s.buf, `,"usage":`...), a)
		case withUsage:
			s.buf = append(s.buf, `,"usage":null`...)
		}
		s.buf = append(s.buf, "}"+s.nl+s.nl...)
		s.end()
	}
	if withUsage && !a.quirk["usage-with-finish"] {
		s.buf = append(s.buf, head...)
		s.buf = append(s.buf, `,"choices":[],"usage":`...)
		s.buf = f.usage(s.buf, a)
		s.buf = append(s.buf, "}"+s.nl+s.nl...)
		s.end()
	}
	if !a.omit["done"] {
		s.buf = append(s.buf, "data: [DONE]"+s.nl+s.nl...)
		s.end()
	}
}

// opening writes the chunk with the role.
func (c *chatStream) opening() {
	switch {
	case c.deepseek && c.a.has(partReasoning):
		c.delta(`"role":"assistant","content":null,"reasoning_content":"`, "", `"`)
	case c.a.calls > 0 && !c.a.has(partText):
		c.delta(`"role":"assistant","content":null,"refusal":null`, "", "")
	default:
		c.delta(`"role":"assistant","content":"`, "", `","refusal":null`)
	}
}

func (c *chatStream) parts() {
	for i := 0; i < len(c.a.parts) && !c.over; i++ {
		pt := &c.a.parts[i]
		switch pt.kind {
		case partText:
			before, after := `"content":"`, `"`
			if c.deepseek {
				after = `","reasoning_content":null`
			}
			if c.a.unknown {
				after += `,"novelty":[1,{"deep":true}]`
			}
			c.hold = i == len(c.a.parts)-1 && c.a.quirk["finish-with-text"]
			c.pieces(before, pt.escaped, after, pt.size)
			if len(pt.citations) > 0 {
				c.delta(`"annotations":`, string(chatFormat{}.annotations(nil, c.a.parts[:i+1], i)), "")
			}
		case partReasoning:
			c.reasoning(pt)
		case partRefusal:
			c.pieces(`"refusal":"`, pt.escaped, `"`, pt.size)
		case partCall, partCustom:
			n := c.a.run(i)
			if c.a.interleave {
				c.interleaved(c.a.parts[i : i+n])
			} else {
				for j := range n {
					c.openCall(&c.a.parts[i+j])
					c.arguments(&c.a.parts[i+j])
				}
			}
			i += n - 1
		}
	}
}

// pieces writes a text as deltas.
func (c *chatStream) pieces(before, escaped, after string, size int) {
	for escaped != "" {
		var piece string
		piece, escaped = cutEscaped(escaped, size)
		if escaped == "" && c.hold {
			c.held = before + piece + after
			return
		}
		if !c.delta(before, piece, after) {
			return
		}
		if c.a.quirk["empty-deltas"] {
			c.delta(before, "", after)
		}
	}
}

func (c *chatStream) reasoning(pt *part) {
	switch {
	case c.p.hideReasoning:
	case c.a.quirk["thinking-parts"]:
		c.pieces(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"`, pt.escaped, `"}]}]`, pt.size)
	default:
		c.pieces(`"content":null,"`+chatFormat{}.reasoningMember(c.a)+`":"`, pt.escaped, `"`, pt.size)
	}
}

// delta writes one chunk.
func (c *chatStream) delta(before, inside, after string) bool {
	c.buf = append(c.buf, c.head...)
	c.buf = append(c.buf, before...)
	c.buf = append(c.buf, inside...)
	c.buf = append(c.buf, after...)
	c.buf = append(c.buf, c.tail...)
	if c.obfuscate {
		c.buf = append(c.buf, padding(c.events)...)
		c.buf = append(append(c.buf, `"}`...), c.nl...)
		c.buf = append(c.buf, c.nl...)
	}
	return c.end()
}

// padding stands in for the random obfuscation members, and depends only on the event's number.
func padding(event int) string {
	const letters = "Zq3xW8nLp0VtB7dKfR2mYs5cHj9gTa4E"
	return letters[event%16 : event%16+4+event%13]
}

func (c *chatStream) openCall(pt *part) {
	switch {
	case c.a.quirk["whole-calls"]:
		c.delta(c.callIndex(pt), string(chatFormat{}.callStart(nil, pt, callText(pt), callText(pt))), `}]`)
	case c.a.quirk["late-names"] && pt.kind == partCall:
		c.delta(c.callIndex(pt), `"id":"call_`+pt.callID+`","type":"function","function":{"arguments":""}`, `}]`)
		c.delta(c.callIndex(pt), `"function":{"name":`+quote(pt.name)+`,"arguments":""}`, `}]`)
	default:
		c.delta(c.callIndex(pt), string(chatFormat{}.callStart(nil, pt, "", "")), `}]`)
	}
}

// callIndex opens the member that says which call a delta belongs to.
func (c *chatStream) callIndex(pt *part) string {
	index := pt.call
	if c.a.quirk["same-index"] {
		index = 0
	}
	return `"tool_calls":[{"index":` + strconv.Itoa(index) + `,`
}

// fragmentEnd closes a delta that holds a piece of a call.
const fragmentEnd = `"}}]`

// fragment is what stands before a piece of a call's arguments or input.
func (c *chatStream) fragment(pt *part) string {
	switch {
	case c.a.quirk["repeated-names"]:
		start := chatFormat{}.callStart(nil, pt, "", "")
		return c.callIndex(pt) + string(start[:len(start)-len(`"}`)])
	case pt.kind == partCustom:
		return c.callIndex(pt) + `"custom":{"input":"`
	}
	return c.callIndex(pt) + `"function":{"arguments":"`
}

func (c *chatStream) arguments(pt *part) {
	if c.a.quirk["whole-calls"] {
		return
	}
	c.pieces(c.fragment(pt), callText(pt), fragmentEnd, pt.size)
}

// callText is what a call streams, escaped once.
func callText(pt *part) string {
	if pt.kind == partCustom {
		return pt.escaped
	}
	return pt.escapedArguments()
}

// interleaved opens all calls and then takes one fragment of each in turn.
func (c *chatStream) interleaved(calls []part) {
	rest := make([]string, len(calls))
	for i := range calls {
		c.openCall(&calls[i])
		rest[i] = callText(&calls[i])
	}
	for left := len(calls); left > 0; {
		left = 0
		for i := range calls {
			if rest[i] == "" {
				continue
			}
			left++
			var piece string
			piece, rest[i] = cutEscaped(rest[i], calls[i].size)
			if !c.delta(c.fragment(&calls[i]), piece, fragmentEnd) {
				return
			}
		}
	}
}
