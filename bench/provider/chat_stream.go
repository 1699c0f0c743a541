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
	tail      []byte // behind the inside of delta, up to the end of the frame or to the obfuscation
	obfuscate bool
	deepseek  bool
}

func (f chatFormat) stream(s *stream, a *answer, p *prompt) {
	options := p.members.object("stream_options")
	c := &chatStream{stream: s, a: a, p: p, deepseek: isDeepSeekModel(a.model)}
	c.obfuscate = !c.deepseek && string(options["include_obfuscation"]) != "false"
	withUsage := options.flag("include_usage") && !a.omit["usage"]
	head := f.head([]byte("data: "), a, "chat.completion.chunk")
	c.head = append(head[:len(head):len(head)], `,"choices":[{"index":0,"delta":{`...)
	c.tail = []byte(`},"logprobs":null,"finish_reason":null}]`)
	if withUsage {
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
		if c.deepseek {
			s.buf = append(s.buf, `"content":""`...)
		}
		s.buf = append(s.buf, `},"logprobs":null,"finish_reason":`...)
		s.buf = f.finish(s.buf, a)
		s.buf = append(s.buf, `}]`...)
		if withUsage {
			s.buf = append(s.buf, `,"usage":null`...)
		}
		s.buf = append(s.buf, "}"+s.nl+s.nl...)
		s.end()
	}
	if withUsage {
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
			c.pieces(before, pt.escaped, after, pt.size)
			if len(pt.citations) > 0 {
				c.delta(`"annotations":`, string(chatFormat{}.annotations(nil, c.a.parts[:i+1], i)), "")
			}
		case partReasoning:
			if !c.p.hideReasoning {
				c.pieces(`"content":null,"reasoning_content":"`, pt.escaped, `"`, pt.size)
			}
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
		if !c.delta(before, piece, after) {
			return
		}
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
	before := `"tool_calls":[{"index":` + strconv.Itoa(pt.call) + `,`
	c.delta(before, string(chatFormat{}.callStart(nil, pt, "", "")), `}]`)
}

// fragment is what surrounds a piece of a call's arguments or input.
func (c *chatStream) fragment(pt *part) (before, after string) {
	member := `"function":{"arguments":"`
	if pt.kind == partCustom {
		member = `"custom":{"input":"`
	}
	return `"tool_calls":[{"index":` + strconv.Itoa(pt.call) + `,` + member, `"}}]`
}

func (c *chatStream) arguments(pt *part) {
	before, after := c.fragment(pt)
	c.pieces(before, callText(pt), after, pt.size)
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
			before, after := c.fragment(&calls[i])
			if !c.delta(before, piece, after) {
				return
			}
		}
	}
}
