package history

import (
	"bytes"
	"encoding/json"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
)

// shape is how a surface writes a request and its answer.
type shape struct {
	surface  codec.Format
	request  func(model string, input [][]byte) []byte
	response func(id, model string, parts [][]byte) []byte
}

var messagesShape = shape{
	surface: codec.Messages,
	request: func(model string, input [][]byte) []byte {
		return object("model", text(model), "messages", list(input))
	},
	response: func(id, model string, parts [][]byte) []byte {
		return object("id", text(id), "type", text("message"), "role", text("assistant"), "model", text(model), "content", list(parts))
	},
}

var responsesShape = shape{
	surface: codec.Responses,
	request: func(model string, input [][]byte) []byte {
		return object("model", text(model), "input", list(input))
	},
	response: func(id, model string, parts [][]byte) []byte {
		return object("id", text(id), "object", text("response"), "status", text("completed"), "model", text(model), "output", list(parts))
	},
}

// chatShape requires an answer to be a single message.
var chatShape = shape{
	surface: codec.Chat,
	request: func(model string, input [][]byte) []byte {
		return object("model", text(model), "messages", list(input))
	},
	response: func(id, model string, parts [][]byte) []byte {
		choice := object("index", []byte("0"), "message", parts[0], "finish_reason", text("stop"))
		return object("id", text(id), "object", text("chat.completion"), "model", text(model), "choices", list([][]byte{choice}))
	},
}

// object writes names and their values, which are JSON.
func object(members ...any) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := 0; i < len(members); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(text(members[i].(string)))
		b.WriteByte(':')
		b.Write(members[i+1].([]byte))
	}
	b.WriteByte('}')
	return b.Bytes()
}

func list(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

func text(s string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string can always be encoded
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// chatMessage is a message of the chat surface.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	Calls     []chat.Call     `json:"tool_calls,omitempty"`
	CallID    string          `json:"tool_call_id,omitempty"`
}

func (m *chatMessage) encode() []byte {
	if m.Content == nil {
		m.Content = json.RawMessage("null")
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(m) // of strings and JSON that was read
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}
