package transcript

import (
	"encoding/json"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// shareGPT is a line of JSON for each conversation, in the form that trainers know by this name, with its roles for tools.
type shareGPT struct{ out jsonList }

type shareGPTMessage struct {
	From  string `json:"from"` // human, gpt, system, function_call, observation
	Value string `json:"value"`
}

var shareGPTRoles = map[string]string{"user": "human", "tool": "human", "assistant": "gpt", "system": "system"}

func (f *shareGPT) begin(c *Conversation) {
	f.out.begun = false
	_, _ = f.out.out.WriteString(`{"id":`)
	_, _ = f.out.out.Write(encode(c.ID))
	_, _ = f.out.out.WriteString(`,"conversations":[`)
}

func (f *shareGPT) end() { _, _ = f.out.out.WriteString("]}\n") }

func (f *shareGPT) message(m *record.Message, _ time.Time, _ string) {
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == "result" {
			f.out.add(shareGPTMessage{"observation", p.Text})
		}
	}
	if text := said(m); text != "" {
		f.out.add(shareGPTMessage{shareGPTRoles[m.Role], text})
	}
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != "call" {
			continue
		}
		arguments := json.RawMessage(argumentsOf(p))
		if !json.Valid(arguments) {
			arguments = encode(string(arguments))
		}
		f.out.add(shareGPTMessage{"function_call", string(encode(struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}{p.Name, arguments}))})
	}
}
