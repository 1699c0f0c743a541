package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Chat checks that stream is one complete stream of the Chat Completions format, as strictly as the strictest
// accumulators of its SDKs: only data lines and comments; one id, time and model; the role once and first; id, type and
// name of a call once and first, and its arguments not empty at the end; one finish reason after all content; usage at
// most once and last; [DONE] as the last frame. Or else an error as the last frame, without a finish reason and without
// [DONE].
func Chat(stream []byte) error {
	var c chatChecker
	if err := eachFrame(stream, c.frame); err != nil {
		return err
	}
	if !c.over {
		return errors.New("the stream ends without [DONE] and without an error")
	}
	return nil
}

type chatChecker struct {
	begun    bool
	head     chatHead
	calls    []chatCall
	function *chatCall // the legacy form
	finish   string
	counted  bool
	over     bool
}

type chatHead struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

type chatCall struct {
	custom bool
	input  string
}

type chatChunk struct {
	chatHead
	Choices json.RawMessage `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index  *int                       `json:"index"`
	Delta  map[string]json.RawMessage `json:"delta"`
	Finish *string                    `json:"finish_reason"`
}

type chatFragment struct {
	Index    *int            `json:"index"`
	ID       *string         `json:"id"`
	Type     *string         `json:"type"`
	Function *chatFunction   `json:"function"`
	Custom   *chatCustom     `json:"custom"`
	Extra    json.RawMessage `json:"extra_content"`
}

type chatFunction struct {
	Name      *string `json:"name"`
	Arguments *string `json:"arguments"`
}

type chatCustom struct {
	Name  *string `json:"name"`
	Input *string `json:"input"`
}

func (c *chatChecker) frame(frame []byte) error {
	if bytes.ContainsAny(frame, "\n\r") {
		return errors.New("more than one line")
	}
	if c.over {
		return errors.New("something after the end")
	}
	if bytes.HasPrefix(frame, []byte(":")) {
		return nil
	}
	data, ok := bytes.CutPrefix(frame, []byte("data: "))
	if !ok {
		return errors.New("neither a data line nor a comment")
	}
	if string(data) == "[DONE]" {
		return c.done()
	}
	var chunk chatChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return err
	}
	if chunk.Error != nil {
		return c.failure(&chunk)
	}
	return c.chunk(&chunk)
}

func (c *chatChecker) failure(chunk *chatChunk) error {
	var e struct {
		Message *string          `json:"message"`
		Type    *string          `json:"type"`
		Param   *json.RawMessage `json:"param"`
		Code    *json.RawMessage `json:"code"`
	}
	var members map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(chunk.Error, &e), json.Unmarshal(chunk.Error, &members)); err != nil {
		return err
	}
	for _, name := range []string{"message", "type", "param", "code"} {
		if _, ok := members[name]; !ok {
			return fmt.Errorf("the error has no member %s", name)
		}
	}
	switch {
	case e.Message == nil || *e.Message == "" || e.Type == nil || *e.Type == "":
		return errors.New("the error has no message or no type")
	case chunk.Choices != nil:
		return errors.New("the error has choices")
	case c.finish != "":
		return errors.New("an error after the finish reason")
	}
	c.over = true
	return nil
}

func (c *chatChecker) done() error {
	if c.finish == "" {
		return errors.New("[DONE] without a finish reason")
	}
	c.over = true
	return nil
}

func (c *chatChecker) chunk(chunk *chatChunk) error {
	if !c.begun {
		c.head = chunk.chatHead
		if c.head.ID == "" || c.head.Object != "chat.completion.chunk" {
			return errors.New("the first chunk has no id or is of another object")
		}
	}
	if chunk.chatHead != c.head {
		return errors.New("id, object, created or model differ from the first chunk's")
	}
	var choices []chatChoice
	if err := json.Unmarshal(chunk.Choices, &choices); err != nil {
		return fmt.Errorf("choices: %w", err)
	}
	if choices == nil {
		return errors.New("choices is null")
	}
	if len(choices) == 0 {
		return c.usage(chunk)
	}
	switch {
	case len(choices) > 1 || choices[0].Index == nil || *choices[0].Index != 0:
		return errors.New("not exactly the choice 0")
	case chunk.Usage != nil && string(chunk.Usage) != "null":
		return errors.New("usage together with a choice")
	case c.finish != "":
		return errors.New("a choice after the finish reason")
	case choices[0].Delta == nil:
		return errors.New("a choice without a delta")
	}
	if choices[0].Finish != nil {
		return c.stop(&choices[0])
	}
	return c.delta(choices[0].Delta)
}

func (c *chatChecker) usage(chunk *chatChunk) error {
	var u struct {
		Prompt     *int64 `json:"prompt_tokens"`
		Completion *int64 `json:"completion_tokens"`
		Total      *int64 `json:"total_tokens"`
	}
	switch {
	case c.finish == "":
		return errors.New("usage before the finish reason")
	case c.counted:
		return errors.New("usage a second time")
	}
	if err := json.Unmarshal(chunk.Usage, &u); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	if u.Prompt == nil || u.Completion == nil || u.Total == nil {
		return errors.New("usage lacks a counter")
	}
	c.counted = true
	return nil
}

func (c *chatChecker) stop(choice *chatChoice) error {
	if len(choice.Delta) > 0 {
		return errors.New("content together with the finish reason")
	}
	if !c.begun {
		return errors.New("a finish reason before the role")
	}
	for i, call := range c.calls {
		if !call.custom && call.input == "" {
			return fmt.Errorf("call %d has no arguments", i)
		}
	}
	called := len(c.calls) > 0
	switch c.finish = *choice.Finish; c.finish {
	case "length":
	case "tool_calls":
		if !called {
			return errors.New("tool_calls without a call")
		}
	case "function_call":
		if c.function == nil || c.function.input == "" {
			return errors.New("function_call without a call that has arguments")
		}
	case "stop", "content_filter":
		if called || c.function != nil {
			return errors.New("calls, and another finish reason")
		}
	default:
		return errors.New("no finish reason of this format")
	}
	return nil
}

func (c *chatChecker) delta(delta map[string]json.RawMessage) error {
	first := !c.begun
	c.begun = true
	if _, ok := delta["role"]; ok != first {
		return errors.New("the role has to be in the first delta and there only")
	}
	if len(delta) == 0 {
		return errors.New("an empty delta")
	}
	for name, value := range delta {
		if err := c.member(name, value, first); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *chatChecker) member(name string, value json.RawMessage, first bool) error {
	switch name {
	case "role":
		if string(value) != `"assistant"` {
			return errors.New("not the assistant")
		}
	case "content", "refusal", "reasoning_content":
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		if text == "" && !first {
			return errors.New("an empty delta")
		}
	case "tool_calls":
		var fragments []chatFragment
		if err := json.Unmarshal(value, &fragments); err != nil {
			return err
		}
		if len(fragments) == 0 {
			return errors.New("an empty list")
		}
		for i := range fragments {
			if err := c.fragment(&fragments[i]); err != nil {
				return err
			}
		}
	case "function_call":
		return c.legacy(value)
	case "thinking_blocks", "annotations", "images":
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("an empty list")
		}
	case "extra_content":
	default:
		return errors.New("no member of a delta")
	}
	return nil
}

func (c *chatChecker) fragment(f *chatFragment) error {
	if f.Index == nil {
		return errors.New("no index")
	}
	switch n := *f.Index; {
	case n < 0 || n > len(c.calls):
		return fmt.Errorf("index %d leaves a gap", n)
	case n == len(c.calls):
		return c.opening(f)
	default:
		return c.calls[n].fragment(f)
	}
}

func (c *chatChecker) opening(f *chatFragment) error {
	if f.ID == nil || *f.ID == "" || f.Type == nil {
		return errors.New("a call starts without id or type")
	}
	switch {
	case *f.Type == "function" && f.Function != nil && f.Custom == nil && f.Function.Name != nil && f.Function.Arguments != nil:
		c.calls = append(c.calls, chatCall{input: *f.Function.Arguments})
	case *f.Type == "custom" && f.Custom != nil && f.Function == nil && f.Custom.Name != nil && f.Custom.Input != nil:
		c.calls = append(c.calls, chatCall{custom: true, input: *f.Custom.Input})
	default:
		return errors.New("a call starts without the name and the input of its type")
	}
	return nil
}

func (call *chatCall) fragment(f *chatFragment) error {
	switch {
	case f.ID != nil || f.Type != nil:
		return errors.New("id or type a second time")
	case f.Extra != nil && !call.custom && f.Function != nil && *f.Function == (chatFunction{}),
		f.Extra != nil && call.custom && f.Custom != nil && *f.Custom == (chatCustom{}):
		return nil // the AI SDK refuses a fragment without the member
	case !call.custom && f.Function != nil && f.Custom == nil && f.Function.Name == nil:
		return call.add(f.Function.Arguments)
	case call.custom && f.Custom != nil && f.Function == nil && f.Custom.Name == nil:
		return call.add(f.Custom.Input)
	}
	return errors.New("neither arguments nor input of the call's type")
}

func (call *chatCall) add(fragment *string) error {
	if fragment == nil || *fragment == "" {
		return errors.New("an empty fragment")
	}
	call.input += *fragment
	return nil
}

func (c *chatChecker) legacy(value json.RawMessage) error {
	var f chatFunction
	if err := json.Unmarshal(value, &f); err != nil {
		return err
	}
	if c.function == nil {
		if f.Name == nil || f.Arguments == nil {
			return errors.New("opens without name or arguments")
		}
		c.function = &chatCall{input: *f.Arguments}
		return nil
	}
	if f.Name != nil {
		return errors.New("the name a second time")
	}
	return c.function.add(f.Arguments)
}
