package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// speaker writes the requests of one format, and reads its answers.
type speaker struct {
	path string
	// body is a request.
	body func(t *talk, system string, items []any) map[string]any
	// read returns the items that an answer adds to the conversation, and the id of its tool call; "" without one.
	read func(answer []byte) (items []any, call string, err error)
	// result returns an item with the result of a call.
	result func(call, text string, failed bool) any
}

type object = map[string]any

var schema = object{"type": "object", "properties": object{
	"command": object{"type": "string"}, "path": object{"type": "string"}, "old_string": object{"type": "string"}, "new_string": object{"type": "string"},
}}

var tools = [][2]string{
	{"shell", "Run a command in the working directory and give what it writes. Commands that change anything outside of it are refused."},
	{"read", "Read a file, with numbers before its lines."},
	{"edit", "Replace a piece of a file that occurs once."},
}

var speakChat = speaker{
	path: "/v1/chat/completions",
	body: func(t *talk, system string, items []any) object {
		return object{"model": t.model, "stream": true, "stream_options": object{"include_usage": true}, "messages": append([]any{object{"role": "system", "content": system}}, items...)}
	},
	read: func(answer []byte) ([]any, string, error) {
		var text string
		err := eachEvent(answer, func(data []byte) error {
			var chunk struct {
				Choices []struct{ Delta struct{ Content string } }
			}
			err := json.Unmarshal(data, &chunk)
			for _, c := range chunk.Choices {
				text += c.Delta.Content
			}
			return err
		})
		return []any{object{"role": "assistant", "content": text}}, "", err
	},
}

var speakResponses = speaker{
	path: "/v1/responses",
	body: func(t *talk, system string, items []any) object {
		declared := make([]any, len(tools))
		for i, tool := range tools {
			declared[i] = object{"type": "function", "name": tool[0], "description": tool[1], "parameters": schema}
		}
		return object{"model": t.model, "stream": true, "store": false, "instructions": system, "tools": declared, "input": items}
	},
	read: func(answer []byte) (items []any, call string, err error) {
		err = eachEvent(answer, func(data []byte) error {
			var event struct {
				Type string
				Item json.RawMessage
			}
			if err := json.Unmarshal(data, &event); err != nil || event.Type != "response.output_item.done" {
				return err
			}
			var item struct {
				CallID string `json:"call_id"`
			}
			if err := json.Unmarshal(event.Item, &item); err != nil {
				return err
			}
			if item.CallID != "" {
				call = item.CallID
			}
			items = append(items, event.Item)
			return nil
		})
		return items, call, err
	},
	result: func(call, text string, _ bool) any {
		return object{"type": "function_call_output", "call_id": call, "output": text}
	},
}

var speakMessages = speaker{
	path: "/v1/messages",
	body: func(t *talk, system string, items []any) object {
		declared := make([]any, len(tools))
		for i, tool := range tools {
			declared[i] = object{"name": tool[0], "description": tool[1], "input_schema": schema}
		}
		return object{
			"model": t.model, "max_tokens": 32000, "top_k": 40, "tools": declared, "messages": items,
			"system": []any{object{"type": "text", "text": system, "cache_control": object{"type": "ephemeral"}}},
		}
	},
	read: func(answer []byte) ([]any, string, error) {
		var message struct{ Content []json.RawMessage }
		if err := json.Unmarshal(answer, &message); err != nil {
			return nil, "", err
		}
		call := ""
		for _, block := range message.Content {
			var b struct{ Type, ID string }
			if err := json.Unmarshal(block, &b); err != nil {
				return nil, "", err
			}
			if b.Type == "tool_use" {
				call = b.ID
			}
		}
		return []any{object{"role": "assistant", "content": message.Content}}, call, nil
	},
	result: func(call, text string, failed bool) any {
		return object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}}}
	},
}

// eachEvent visits the data of each event of a stream.
func eachEvent(stream []byte, give func(data []byte) error) error {
	for line := range bytes.Lines(stream) {
		data, is := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !is || string(data) == "[DONE]" {
			continue
		}
		if err := give(data); err != nil {
			return err
		}
	}
	return nil
}

// playAll plays the conversations one after the other, and returns their sessions by name.
func (m *mneme) playAll(ctx context.Context, talks []talk) (map[string]string, error) {
	sessions := make(map[string]string)
	for i := range talks {
		session, err := m.play(ctx, &talks[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", talks[i].name, err)
		}
		sessions[talks[i].name] = session
	}
	return sessions, nil
}

func (m *mneme) play(ctx context.Context, t *talk) (session string, err error) {
	system := t.system
	var items []any
	var begins []int // index in items of each turn
	for _, turn := range t.turns {
		if turn.back > 0 {
			items = slices.Clone(items[:begins[len(begins)-turn.back]])
		}
		begins = append(begins, len(items))
		if turn.system != "" {
			system = turn.system
		}
		items = append(items, object{"role": "user", "content": turn.content()})
		for _, s := range turn.steps {
			answer, id, err := m.ask(ctx, t, t.speaks.body(t, system, items))
			if err != nil {
				return "", err
			}
			session = id
			if answer == nil {
				break
			}
			added, call, err := t.speaks.read(answer)
			if err != nil {
				return "", err
			}
			items = append(items, added...)
			if call != "" {
				items = append(items, t.speaks.result(call, s.result, s.failed))
			}
		}
	}
	if t.remarks != nil {
		return session, m.describe(ctx, session, t.remarks)
	}
	return session, nil
}

// describe sets a session's title, tags or note.
func (m *mneme) describe(ctx context.Context, session string, remarks object) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPatch, m.URL+"/v1/memory/sessions/"+session, bytes.NewReader([]byte(quoted(remarks))))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+m.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the session cannot be described: %s", response.Status)
	}
	return nil
}

// ask sends a request. The answer is nil if the provider fails.
func (m *mneme) ask(ctx context.Context, t *talk, body object) (answer []byte, session string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL+t.speaks.path, bytes.NewReader([]byte(quoted(body))))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+m.key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", t.agent)
	r.Header.Set("X-Service-Project", t.project)
	for name, value := range t.header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		answer = nil
	}
	return answer, response.Header.Get("X-Service-Session-ID"), err
}
