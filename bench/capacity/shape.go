package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// shape is a kind of exchange: the sizes of the prompt and the answer.
type shape struct {
	prompt, answer int // bytes of text
	stream         bool
	agent          bool // a prompt is the result of a tool, and each request has all that the session said before
}

// perSession is how many exchanges a session has.
func (s *shape) perSession() int {
	if s.agent {
		return 100
	}
	return 10
}

var shapes = map[string]shape{
	"small":  {prompt: 260, answer: 400},                // 1 KB
	"medium": {prompt: 900, answer: 1800},               // 3 KB
	"stream": {prompt: 260, answer: 2400, stream: true}, // 200 events
	"large":  {prompt: 30_000, answer: 10_000},          // all new, 40 KB
	"agent":  {prompt: 9_000, answer: 250, agent: true}, // sessions of 58 MB
}

func shapeNames() string { return strings.Join(slices.Sorted(maps.Keys(shapes)), ", ") }

// eventText is how much text an event of a stream has, in bytes.
const eventText = 12

// writer generates the exchanges of one goroutine.
type writer struct {
	shape           *shape
	random          *rand.Rand
	text            string // source of prompts and answers, which are cut at random places
	request, answer []byte
	spans, items    []codec.Span // in request
	agent           agent
}

// newWriter returns the n-th writer; each generates different exchanges.
func newWriter(s *shape, n int, text string) *writer {
	return &writer{shape: s, random: rand.New(rand.NewPCG(1, uint64(n))), text: text}
}

// corpus returns text with word frequencies as in a language: a few words are frequent, most are rare.
func corpus(size int) string {
	random := rand.New(rand.NewPCG(1, 1))
	words := make([]string, 20_000)
	for i := range words {
		word := make([]byte, 2+random.IntN(9))
		for j := range word {
			word[j] = "etaoinshrdlucmfwypvbgkjqxz"[min(int(random.ExpFloat64()*6), 25)]
		}
		words[i] = string(word)
	}
	often := rand.NewZipf(random, 1.1, 8, uint64(len(words)-1))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[often.Uint64()])
		b.WriteByte(' ')
	}
	return b.String()
}

func (w *writer) some(size int) string {
	at := w.random.IntN(len(w.text) - size)
	return w.text[at : at+size]
}

// next generates a unique request and its answer.
func (w *writer) next() {
	if w.shape.agent {
		w.nextOfAgent()
		return
	}
	w.request = append(w.request[:0], `{"model":"m","messages":[`...)
	start := len(w.request)
	w.request = fmt.Appendf(w.request, `{"role":"user","content":"%s"}`, w.some(w.shape.prompt))
	w.spans = append(w.spans[:0], codec.Span{Start: start, End: len(w.request)})
	w.items = w.spans
	w.request = append(w.request, "]}"...)
	w.answer = w.answer[:0]
	text := w.some(w.shape.answer)
	if !w.shape.stream {
		w.answer = fmt.Appendf(w.answer, `{"id":"chatcmpl-%d","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`,
			w.random.Uint64(), text)
		return
	}
	id := w.random.Uint64()
	for ; len(text) > 0; text = text[min(eventText, len(text)):] {
		w.event(id, text[:min(eventText, len(text))], "null")
	}
	w.event(id, "", `"stop"`)
	w.answer = append(w.answer, "data: [DONE]\n\n"...)
}

func (w *writer) event(id uint64, text, finish string) {
	w.answer = fmt.Appendf(w.answer, `data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1700000000,"model":"m",`+
		`"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}`+"\n\n", id, text, finish)
}

// bytes returns the mean length of a request and its answer together.
func (s *shape) bytes() (size int) {
	w := newWriter(s, 1, corpus(s.corpus()))
	for range s.perSession() {
		w.next()
		size += len(w.request) + len(w.answer)
	}
	return size / s.perSession()
}

// corpus returns the length of the text that prompts and answers are cut from.
func (s *shape) corpus() int { return max(1<<20, 4*(s.prompt+s.answer)) }
