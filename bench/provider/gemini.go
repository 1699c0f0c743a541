package provider

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// geminiFormat is generateContent and streamGenerateContent; model and method come from the path.
type geminiFormat struct {
	geminiErrors
	model    string
	streamed bool
	array    bool // a stream without alt=sse: one JSON array
}

type geminiErrors struct{}

func (geminiErrors) status(f *fault) int { return f.geminiStatus() }

func (geminiErrors) errorBody(f *fault, _ string) []byte { return f.geminiError(nil) }

func (geminiFormat) authorize(r *http.Request) *fault {
	if r.Header.Get("X-Goog-Api-Key") != "" || r.URL.Query().Get("key") != "" ||
		strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return nil
	}
	return &fault{class: classPermission, message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API."}
}

func (geminiFormat) header(h http.Header, _ string) {
	h.Set("Server-Timing", "gfet4t7; dur=1")
	h.Set("X-Content-Type-Options", "nosniff")
}

// gemini answers POST /{version}/models/{model}:{method}.
func (s *Server) gemini() http.Handler {
	handlers := map[string]func(*call, string) error{
		"generateContent": func(c *call, model string) error { return c.generate(geminiFormat{model: model}) },
		"streamGenerateContent": func(c *call, model string) error {
			return c.generate(geminiFormat{model: model, streamed: true, array: c.r.URL.Query().Get("alt") != "sse"})
		},
		"countTokens":        s.countGeminiTokens,
		"embedContent":       s.embedContent,
		"batchEmbedContents": s.batchEmbedContents,
	}
	return s.handle(geminiErrors{}, func(c *call) error {
		path := c.r.PathValue("call")
		colon := strings.LastIndexByte(path, ':')
		if colon < 0 {
			return &fault{class: classNotFound}
		}
		handler, known := handlers[path[colon+1:]]
		if !known {
			return &fault{class: classNotFound, message: "Method " + path[colon+1:] + " is not known."}
		}
		return handler(c, path[:colon])
	})
}

func (f geminiFormat) read(c *call, strict bool) (*prompt, *fault) {
	p := &prompt{members: c.object, stream: f.streamed && !f.array}
	p.model, p.marker = cutMarker(f.model)
	contents := c.object.list("contents")
	if strict {
		if refusal := checkGemini(c.object, p.model, contents); refusal != nil {
			return nil, refusal
		}
	}
	config := c.object.object("generationConfig")
	p.hideReasoning = string(config.object("thinkingConfig")["includeThoughts"]) == "false"
	if config.text("responseMimeType") == "application/json" {
		p.schema = raw("{}")
		for _, name := range []string{"responseJsonSchema", "responseSchema"} {
			if config.has(name) {
				p.schema = config[name]
			}
		}
	}
	for _, value := range c.object.list("tools") {
		o, _ := parseObject(value)
		for _, value := range o.list("functionDeclarations") {
			declaration, _ := parseObject(value)
			schema := declaration["parametersJsonSchema"]
			if schema == nil {
				schema = declaration["parameters"]
			}
			p.tools = append(p.tools, tool{name: declaration.text("name"), schema: schema})
		}
	}
	p.locate(len(contents), func(i int) turn { return geminiTurn(contents[i]) })
	hops, known := continuationHops(c.object.text("continuationToken"))
	if !known {
		return nil, refuse("continuationToken", "Invalid continuation token.")
	}
	p.step += hops
	return p, nil
}

func geminiTurn(value raw) turn {
	content, _ := parseObject(value)
	if content.text("role") == "model" {
		return turn{speaker: speakerModel}
	}
	t := turn{speaker: speakerUser}
	var texts []string
	for _, value := range content.list("parts") {
		part, _ := parseObject(value)
		if part.has("functionResponse") {
			t.speaker = speakerTool
			t.results++
		}
		if part.has("text") {
			texts = append(texts, part.text("text"))
		}
	}
	t.text = strings.Join(texts, "\n")
	return t
}

// A continuation token says how many answers of the same turn came before.
const continuationStem = "simulated continuation "

func continuationToken(hops int) string {
	return base64.StdEncoding.EncodeToString([]byte(continuationStem + strconv.Itoa(hops)))
}

func continuationHops(token string) (int, bool) {
	if token == "" {
		return 0, true
	}
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(text), continuationStem)
	hops, err := strconv.Atoi(digits)
	return hops, ok && err == nil && hops > 0 && hops <= maxSteps
}

// A geminiWriter renders the parts of one answer.
type geminiWriter struct {
	a      *answer
	p      *prompt
	signed bool // the first call, or else the end of the text, carries a thought signature
}

func newGeminiWriter(a *answer, p *prompt) *geminiWriter {
	signed := needsThoughtSignature(a.model) || a.has(partReasoning) || a.has(partRedacted)
	return &geminiWriter{a: a, p: p, signed: signed && !a.omit["signature"]}
}

// needsThoughtSignature tells the models from Gemini 3 on, which insist on signatures in tool loops.
func needsThoughtSignature(model string) bool {
	version, ok := strings.CutPrefix(model, "gemini-")
	if !ok || version == "" {
		return false
	}
	return version[0] < '0' || version[0] > '2' // names without a number are the newest
}

// part appends one piece of an answer as a part; piece is the text to send now. It reports whether there is one.
func (w *geminiWriter) part(dst []byte, pt *part, piece string) ([]byte, bool) {
	switch pt.kind {
	case partText:
		dst = append(dst, `{"text":"`...)
		dst = append(dst, piece...)
		dst = append(dst, '"')
		if w.a.unknown {
			dst = append(dst, `,"novelty":{"deep":[1,2,3]}`...)
		}
		return append(dst, '}'), true
	case partReasoning:
		if w.p.hideReasoning {
			return dst, false
		}
		dst = append(dst, `{"text":"`...)
		dst = append(dst, piece...)
		return append(dst, `","thought":true}`...), true
	case partCall, partCustom:
		return w.call(dst, pt)
	}
	return dst, false
}

// call appends a function call. Calls come whole or not at all.
func (w *geminiWriter) call(dst []byte, pt *part) ([]byte, bool) {
	if pt.malformed || pt.open {
		return dst, false
	}
	dst = append(dst, `{"functionCall":{`...)
	if !w.a.omit["ids"] {
		dst = append(dst, `"id":"`+pt.callID+`",`...)
	}
	dst = append(dst, `"name":`...)
	dst = appendString(dst, pt.name)
	switch {
	case pt.kind == partCustom:
		dst = append(dst, `,"args":{"input":`+quote(pt.text)+`}`...)
	case pt.text != "":
		dst = append(dst, `,"args":`+oneLine(pt.text)...)
	}
	dst = append(dst, '}')
	if w.signed && pt.call == 0 {
		dst = append(dst, `,"thoughtSignature":"`+opaque(stateThought, w.a.id, 0)+`"`...)
	}
	return append(dst, '}'), true
}

// closing appends the empty text part that carries the signature of an answer without calls.
func (w *geminiWriter) closing(dst []byte) ([]byte, bool) {
	if !w.signed || w.a.calls > 0 {
		return dst, false
	}
	return append(dst, `{"text":"","thoughtSignature":"`+opaque(stateThought, w.a.id, 0)+`"}`...), true
}

// finish gives the finish reason and a message to go with it.
func (w *geminiWriter) finish() (reason, message string) {
	for i := range w.a.parts {
		if pt := &w.a.parts[i]; pt.kind == partCall && pt.malformed && !pt.open {
			return "MALFORMED_FUNCTION_CALL", "Malformed function call: " + pt.name + "(" + pt.text + ")"
		}
	}
	switch w.a.stop {
	case stopLength, stopContext:
		return "MAX_TOKENS", ""
	case stopRefusal, stopFilter:
		return "SAFETY", w.a.text(partRefusal)
	case stopPause:
		return "CONTINUATION", ""
	case stopMalformed:
		return "MALFORMED_FUNCTION_CALL", "Malformed function call."
	}
	return "STOP", ""
}

// ending appends the members of a candidate that come with its finish reason.
func (w *geminiWriter) ending(dst []byte) []byte {
	if !w.a.omit["finish"] {
		reason, message := w.finish()
		dst = append(dst, `,"finishReason":"`+reason+`"`...)
		if message != "" {
			dst = append(dst, `,"finishMessage":`+quote(message)...)
		}
	}
	if w.a.stop == stopPause {
		dst = append(dst, `,"continuationToken":"`+continuationToken(w.p.step+1)+`"`...)
	}
	return w.grounding(dst)
}

// grounding appends searches and citations. Indexes count bytes of UTF-8.
func (w *geminiWriter) grounding(dst []byte) []byte {
	var queries, chunks, supports []string
	offset := 0
	for i := range w.a.parts {
		pt := &w.a.parts[i]
		switch pt.kind {
		case partSearch:
			queries = append(queries, quote(pt.text))
			chunks = append(chunks, `{"web":{"uri":`+quote(pt.url)+`,"title":`+quote(pt.title)+`}}`)
		case partText:
			for _, c := range pt.citations {
				supports = append(supports, `{"segment":{"startIndex":`+strconv.Itoa(offset)+`,"endIndex":`+strconv.Itoa(offset+len(pt.text))+
					`,"text":`+quote(pt.text)+`},"groundingChunkIndices":[`+strconv.Itoa(len(chunks))+`],"confidenceScores":[1]}`)
				chunks = append(chunks, `{"web":{"uri":`+quote(c.url)+`,"title":`+quote(c.title)+`}}`)
			}
			offset += len(pt.text)
		}
	}
	if len(chunks) == 0 {
		return dst
	}
	return append(dst, `,"groundingMetadata":{"webSearchQueries":[`+strings.Join(queries, ",")+`],"groundingChunks":[`+
		strings.Join(chunks, ",")+`],"groundingSupports":[`+strings.Join(supports, ",")+`]}`...)
}

// usage appends usageMetadata; before the end it knows the prompt only.
func (w *geminiWriter) usage(dst []byte, ended bool) []byte {
	u := w.a.usage
	prompt := strconv.Itoa(u.input)
	dst = append(dst, `,"usageMetadata":{"promptTokenCount":`+prompt...)
	if ended {
		if u.cached > 0 {
			cached := strconv.Itoa(u.cached)
			dst = append(dst, `,"cachedContentTokenCount":`+cached+`,"cacheTokensDetails":[{"modality":"TEXT","tokenCount":`+cached+`}]`...)
		}
		if visible := u.output - u.reasoning; visible > 0 {
			dst = append(dst, `,"candidatesTokenCount":`+strconv.Itoa(visible)...)
		}
		if u.reasoning > 0 {
			dst = append(dst, `,"thoughtsTokenCount":`+strconv.Itoa(u.reasoning)...)
		}
		dst = append(dst, `,"totalTokenCount":`+strconv.Itoa(u.input+u.output)...)
	} else {
		dst = append(dst, `,"totalTokenCount":`+prompt...)
	}
	return append(dst, `,"promptTokensDetails":[{"modality":"TEXT","tokenCount":`+prompt+`}]}`...)
}

// tail appends what ends every response object.
func (w *geminiWriter) tail(dst []byte, ended bool) []byte {
	if !w.a.omit["usage"] {
		dst = w.usage(dst, ended)
	}
	dst = append(dst, `,"modelVersion":`+quote(w.a.model)+`,"responseId":"`+w.a.id+`"`...)
	if w.a.unknown {
		dst = append(dst, `,"novelty":{"from":"simulated provider"}`...)
	}
	return append(dst, '}')
}

// blocked appends the answer to a prompt that was blocked.
func (w *geminiWriter) blocked(dst []byte) []byte {
	dst = append(dst, `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}`...)
	return w.tail(dst, false)
}

func (f geminiFormat) complete(dst []byte, a *answer, p *prompt) []byte {
	if f.array {
		f.array = false
		return append(f.complete(append(dst, '['), a, p), ']')
	}
	w := newGeminiWriter(a, p)
	if a.blocked {
		return w.blocked(dst)
	}
	dst = append(dst, `{"candidates":[{"content":{"role":"model"`...)
	start := len(dst)
	dst = append(dst, `,"parts":[`...)
	first := true
	add := func(appended []byte, ok bool) {
		if ok {
			dst, first = append(appended, ','), false
		}
	}
	for i := range a.parts {
		add(w.part(dst, &a.parts[i], a.parts[i].escaped))
	}
	add(w.closing(dst))
	if first {
		dst = dst[:start]
	} else {
		dst[len(dst)-1] = ']'
	}
	dst = append(dst, '}')
	dst = w.ending(dst)
	dst = append(dst, `,"index":0}]`...)
	return w.tail(dst, true)
}

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
	s.buf = append(s.buf, `data: {"candidates":[{"content":{"role":"model"`...)
	if part, ok := g.closing(nil); ok {
		s.buf = append(append(append(s.buf, `,"parts":[`...), part...), ']')
	}
	s.buf = append(s.buf, '}')
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

func (s *Server) countGeminiTokens(c *call, _ string) error {
	if err := c.geminiBody(); err != nil {
		return err
	}
	tokens := strconv.Itoa(len(c.body)/4 + 1)
	return deliver(c.w, &delivery{}, http.StatusOK,
		[]byte(`{"totalTokens":`+tokens+`,"promptTokensDetails":[{"modality":"TEXT","tokenCount":`+tokens+`}]}`))
}

// geminiBody checks the credential and parses the body of a request that is no generation.
func (c *call) geminiBody() error {
	f := geminiFormat{}
	f.header(c.w.Header(), "")
	if c.server.options.Strict {
		if refusal := f.authorize(c.r); refusal != nil {
			return refusal
		}
	}
	return c.parse()
}
