package main

import (
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// agent is the session of a coding agent: a large opening, tools, and one more call and its result with every turn.
type agent struct {
	turn     int
	opening  string // the tools, and the first messages
	messages []byte // behind those
	envelope codec.Envelope
}

// nextOfAgent generates the next request of the session, or the first one of another session, and its answer.
func (w *writer) nextOfAgent() {
	a := &w.agent
	if a.turn%w.shape.perSession() == 0 {
		var tools []string
		for i := range 12 {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool%d","description":"%s","parameters":{"type":"object",`+
				`"properties":{"path":{"type":"string","description":"%s"}},"required":["path"]}}}`, i, w.some(4000), w.some(200)))
		}
		a.opening = fmt.Sprintf(`{"model":"m","tools":[%s],"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}`,
			strings.Join(tools, ","), w.some(27_000), w.some(6300))
		a.messages = a.messages[:0]
	} else {
		a.messages = fmt.Appendf(a.messages, `,{"role":"tool","tool_call_id":"call_%d","content":"%s"}`,
			a.turn-1, w.some(w.shape.prompt/9+w.random.IntN(w.shape.prompt*16/9))) // 1 to 17 KB
	}
	w.request = append(append(append(w.request[:0], a.opening...), a.messages...), "]}"...)
	message := fmt.Sprintf(`{"role":"assistant","content":"%s","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool3",`+
		`"arguments":"{\"path\":\"%s\"}"}}]}`, w.some(w.shape.answer), a.turn, w.some(40))
	a.messages = append(append(a.messages, ','), message...)
	w.answer = fmt.Appendf(w.answer[:0], `{"id":"chatcmpl-%d","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,`+
		`"message":%s,"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":12,"total_tokens":21}}`, w.random.Uint64(), message)
	a.turn++
	a.envelope = codec.Envelope{}
	if err := a.envelope.Read(w.request); err != nil {
		panic(err) // a mistake above
	}
	w.spans, w.items = a.envelope.Blocks(w.spans[:0]), a.envelope.Items
}
