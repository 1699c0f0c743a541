package transcript

import (
	"time"

	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/store/record"
)

// openAIChat is a line of JSON for each conversation, with the messages of Chat Completions: what fine-tuning takes.
type openAIChat struct{ out jsonList }

type chatMessage struct {
	Role    string      `json:"role"`
	Content *string     `json:"content"` // null beside calls
	Calls   []chat.Call `json:"tool_calls,omitempty"`
	CallID  string      `json:"tool_call_id,omitempty"`
}

func (f *openAIChat) begin(*Conversation) {
	f.out.begun = false
	_, _ = f.out.out.WriteString(`{"messages":[`)
}

func (f *openAIChat) end() { _, _ = f.out.out.WriteString("]}\n") }

func (f *openAIChat) message(m *record.Message, _ time.Time, _ string) {
	whole := chatMessage{Role: m.Role}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case "call":
			whole.Calls = append(whole.Calls, chat.NewCall(p.CallID, p.Name, argumentsOf(p)))
		case "result":
			f.out.add(chatMessage{Role: "tool", Content: &p.Text, CallID: p.CallID})
		}
	}
	text := said(m)
	if text != "" {
		whole.Content = &text
	}
	if whole.Role == "tool" { // words beside a result
		whole.Role = "user"
	}
	if text != "" || len(whole.Calls) > 0 {
		f.out.add(whole)
	}
}

// argumentsOf is the arguments of a call as JSON, also where it was given a text.
func argumentsOf(p *record.Part) string {
	if p.Arguments == "" {
		return string(encode(map[string]string{"input": p.Text}))
	}
	return p.Arguments
}
