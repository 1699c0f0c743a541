package provider

// A geminiStream writes frames; each is a response object with only what is new.
type geminiStream struct {
	*stream
	*geminiWriter
	tailed []byte // what ends a frame before the last
}

func (f geminiFormat) stream(s *stream, a *answer, p *prompt) {
	s.nl = "\r\n" // as Google frames its streams
	g := &geminiStream{stream: s, geminiWriter: newGeminiWriter(a, p)}
	g.tailed = append(g.tail([]byte(`]},"index":0}]`), false), s.nl+s.nl...)
	s.ping = func(dst []byte) []byte { return dst } // Google sends none, and its Go SDK takes no comment lines
	s.inside = func(dst []byte) []byte {
		dst = a.insideFault.geminiError(append(dst, "data: "...))
		return append(dst, s.nl+s.nl...)
	}
	s.queue()
	if a.blocked {
		s.buf = append(g.geminiWriter.blocked(append(s.buf, "data: "...)), s.nl+s.nl...)
		s.end()
		return
	}
	for i := 0; i < len(a.parts) && !s.over; i++ {
		g.piecewise(&a.parts[i])
	}
	if !s.terminal() {
		return
	}
	part, ok := g.closing(nil)
	if !ok {
		part = []byte(`{"text":""}`) // without a part, Google's SDK for Python takes the whole answer for invalid
	}
	s.buf = append(append(append(s.buf, `data: {"candidates":[{"content":{"role":"model","parts":[`...), part...), `]}`...)
	s.buf = g.ending(s.buf)
	s.buf = append(s.buf, `,"index":0}]`...)
	s.buf = append(g.tail(s.buf, true), s.nl+s.nl...)
	s.end()
}

const geminiFrameHead = `data: {"candidates":[{"content":{"role":"model","parts":[`

// piecewise writes one part: text in deltas, everything else in one frame.
func (g *geminiStream) piecewise(pt *part) {
	text := pt.escaped
	for {
		piece := ""
		if pt.kind == partText || pt.kind == partReasoning {
			piece, text = cutEscaped(text, pt.size)
		}
		start := len(g.buf)
		frame, ok := g.part(append(g.buf, geminiFrameHead...), pt, piece)
		if !ok {
			g.buf = g.buf[:start]
			return
		}
		g.buf = append(frame, g.tailed...)
		if !g.end() || piece == "" || text == "" {
			return
		}
	}
}
