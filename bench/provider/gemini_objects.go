package provider

import (
	"strconv"
	"strings"
)

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

// finish returns the finish reason and its message.
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
