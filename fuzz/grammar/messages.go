package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Messages checks that stream is one complete stream of the Messages format, as strictly as the strictest of its
// clients: an event line in every frame, blocks numbered without gaps and open one at a time, no empty block, one
// message_delta after the last block, message_stop as the last frame; or an error event as the last frame.
func Messages(stream []byte) error {
	c := messagesChecker{open: -1}
	for n, frame := range bytes.SplitAfter(stream, []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		if err := c.frame(frame); err != nil {
			return fmt.Errorf("frame %d: %w\n%s", n, err, frame)
		}
	}
	if !c.ended {
		return fmt.Errorf("the stream ends without message_stop or error")
	}
	return nil
}

type messagesChecker struct {
	started, closing, ended bool

	next  int // index of the next block
	open  int // index of the open block, -1 when there is none
	block messagesBlock
	calls int
	said  int // payload in the open block
	proof bool
}

type messagesBlock struct {
	Type      string          `json:"type"`
	Text      *string         `json:"text"`
	Thinking  *string         `json:"thinking"`
	Signature *string         `json:"signature"`
	Data      *string         `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

type messagesUsage struct {
	Input      *int64 `json:"input_tokens"`
	CacheRead  int64  `json:"cache_read_input_tokens"`
	CacheWrite int64  `json:"cache_creation_input_tokens"`
	Output     *int64 `json:"output_tokens"`
}

type messagesEvent struct {
	Type    string          `json:"type"`
	Index   *int            `json:"index"`
	Block   *messagesBlock  `json:"content_block"`
	Delta   json.RawMessage `json:"delta"`
	Message json.RawMessage `json:"message"`
	Usage   *messagesUsage  `json:"usage"`
	Error   *struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func (c *messagesChecker) frame(frame []byte) error {
	if c.ended {
		return fmt.Errorf("something follows the last frame")
	}
	text, whole := strings.CutSuffix(string(frame), "\n\n")
	if !whole {
		return fmt.Errorf("the last frame is not followed by a blank line")
	}
	if strings.HasPrefix(text, ":") && !strings.Contains(text, "\n") {
		return nil
	}
	name, data, two := strings.Cut(text, "\n")
	name, named := strings.CutPrefix(name, "event: ")
	data, filled := strings.CutPrefix(data, "data: ")
	if !two || !named || !filled || strings.ContainsAny(data, "\r\n") {
		return fmt.Errorf("a frame is an event line and a data line")
	}
	if !utf8.ValidString(data) {
		return fmt.Errorf("invalid UTF-8")
	}
	var ev messagesEvent
	if err := json.Unmarshal([]byte(data), &ev); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if ev.Type != name {
		return fmt.Errorf("event line %q, type %q", name, ev.Type)
	}
	return c.event(&ev)
}

func (c *messagesChecker) event(ev *messagesEvent) error {
	switch ev.Type {
	case "ping":
		return nil
	case "error":
		c.ended = true
		if ev.Error == nil || ev.Error.Message == "" || !messagesErrors[ev.Error.Type] {
			return fmt.Errorf("an error needs a message and a type of the closed set")
		}
		return nil
	case "message_start":
		return c.start(ev)
	}
	if !c.started {
		return fmt.Errorf("%s before message_start", ev.Type)
	}
	if c.closing && ev.Type != "message_stop" {
		return fmt.Errorf("%s after message_delta", ev.Type)
	}
	switch ev.Type {
	case "content_block_start":
		return c.blockStart(ev)
	case "content_block_delta":
		return c.blockDelta(ev)
	case "content_block_stop":
		return c.blockStop(ev)
	case "message_delta":
		return c.messageDelta(ev)
	case "message_stop":
		if !c.closing {
			return fmt.Errorf("message_stop without message_delta")
		}
		c.ended = true
		return nil
	}
	return fmt.Errorf("unknown event")
}

var messagesErrors = map[string]bool{
	"invalid_request_error": true, "authentication_error": true, "billing_error": true, "permission_error": true,
	"not_found_error": true, "conflict_error": true, "request_too_large": true, "rate_limit_error": true,
	"api_error": true, "timeout_error": true, "overloaded_error": true,
}

func (c *messagesChecker) start(ev *messagesEvent) error {
	if c.started {
		return fmt.Errorf("a second message_start")
	}
	c.started = true
	var m struct {
		ID, Type, Role string
		Content        *[]json.RawMessage
		Usage          *messagesUsage
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(ev.Message, &m); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if err := json.Unmarshal(ev.Message, &fields); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	switch {
	case m.ID == "" || m.Type != "message" || m.Role != "assistant":
		return fmt.Errorf("a message needs id, type and role")
	case fields["model"] == nil:
		return fmt.Errorf("a message needs a model")
	case m.Content == nil || len(*m.Content) != 0:
		return fmt.Errorf("a message starts with an empty content")
	case string(fields["stop_reason"]) != "null" || string(fields["stop_sequence"]) != "null":
		return fmt.Errorf("a message starts with stop_reason and stop_sequence null")
	}
	return checkMessagesUsage(m.Usage)
}

func checkMessagesUsage(u *messagesUsage) error {
	if u == nil || u.Input == nil || u.Output == nil {
		return fmt.Errorf("usage needs input_tokens and output_tokens")
	}
	if *u.Input+u.CacheRead+u.CacheWrite <= 0 || *u.Output < 0 {
		return fmt.Errorf("usage counts nothing")
	}
	return nil
}

var messagesCallID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

func (c *messagesChecker) blockStart(ev *messagesEvent) error {
	if c.open >= 0 {
		return fmt.Errorf("block %d is still open", c.open)
	}
	if ev.Index == nil || *ev.Index != c.next {
		return fmt.Errorf("expected index %d", c.next)
	}
	if ev.Block == nil {
		return fmt.Errorf("no content_block")
	}
	c.open, c.next = c.next, c.next+1
	c.block, c.said, c.proof = *ev.Block, 0, false
	b := ev.Block
	switch b.Type {
	case "text":
		if b.Text == nil || *b.Text != "" {
			return fmt.Errorf("a text block starts with text \"\"")
		}
	case "thinking":
		if b.Thinking == nil || b.Signature == nil || *b.Thinking != "" || *b.Signature != "" {
			return fmt.Errorf("a thinking block starts with thinking and signature \"\"")
		}
	case "redacted_thinking":
		if b.Data == nil || *b.Data == "" {
			return fmt.Errorf("a redacted_thinking block needs data")
		}
	case "tool_use", "server_tool_use", "mcp_tool_use":
		if b.Type == "tool_use" {
			c.calls++
		}
		if !messagesCallID.MatchString(b.ID) || b.Name == "" || string(b.Input) != "{}" {
			return fmt.Errorf("a %s block starts with id, name and input {}", b.Type)
		}
	case "":
		return fmt.Errorf("a block without a type")
	default:
		if strings.HasSuffix(b.Type, "_tool_result") && (b.ToolUseID == "" || b.Content == nil) {
			return fmt.Errorf("a result needs tool_use_id and content")
		}
	}
	return nil
}

func (c *messagesChecker) blockDelta(ev *messagesEvent) error {
	if ev.Index == nil || *ev.Index != c.open || c.open < 0 {
		return fmt.Errorf("the delta is for no open block")
	}
	if c.proof {
		return fmt.Errorf("a delta after the signature")
	}
	var delta struct {
		Type        string                      `json:"type"`
		Text        *string                     `json:"text"`
		Thinking    *string                     `json:"thinking"`
		Signature   *string                     `json:"signature"`
		PartialJSON *string                     `json:"partial_json"`
		Citation    *map[string]json.RawMessage `json:"citation"`
	}
	if err := json.Unmarshal(ev.Delta, &delta); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	c.said++
	fits := false
	switch delta.Type {
	case "text_delta":
		fits = c.block.Type == "text" && delta.Text != nil
	case "citations_delta":
		fits = c.block.Type == "text" && delta.Citation != nil
	case "thinking_delta":
		fits = c.block.Type == "thinking" && delta.Thinking != nil
	case "signature_delta":
		c.proof = true
		fits = c.block.Type == "thinking" && delta.Signature != nil && *delta.Signature != ""
	case "input_json_delta":
		fits = strings.HasSuffix(c.block.Type, "tool_use") && delta.PartialJSON != nil
	}
	if !fits {
		return fmt.Errorf("a %s does not fit a block of type %s", delta.Type, c.block.Type)
	}
	return nil
}

func (c *messagesChecker) blockStop(ev *messagesEvent) error {
	if ev.Index == nil || *ev.Index != c.open || c.open < 0 {
		return fmt.Errorf("the stop is for no open block")
	}
	if c.said == 0 && (c.block.Type == "text" || c.block.Type == "thinking") {
		return fmt.Errorf("the %s block is empty", c.block.Type)
	}
	c.open = -1
	return nil
}

func (c *messagesChecker) messageDelta(ev *messagesEvent) error {
	if c.open >= 0 {
		return fmt.Errorf("block %d is still open", c.open)
	}
	c.closing = true
	var delta struct {
		StopReason string `json:"stop_reason"`
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(ev.Delta, &delta); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	if err := json.Unmarshal(ev.Delta, &fields); err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	if fields["stop_sequence"] == nil {
		return fmt.Errorf("no stop_sequence")
	}
	if err := c.stopReason(delta.StopReason, string(fields["stop_sequence"])); err != nil {
		return err
	}
	return checkMessagesUsage(ev.Usage)
}

func (c *messagesChecker) stopReason(reason, sequence string) error {
	if sequence != "null" && reason != "stop_sequence" {
		return fmt.Errorf("a stop_sequence together with stop_reason %s", reason)
	}
	switch reason {
	case "max_tokens", "model_context_window_exceeded", "refusal":
		return nil
	case "tool_use":
		if c.calls == 0 {
			return fmt.Errorf("stop_reason tool_use without a call")
		}
		return nil
	case "end_turn", "stop_sequence", "pause_turn":
		if c.calls > 0 {
			return fmt.Errorf("stop_reason %s with %d calls", reason, c.calls)
		}
		return nil
	}
	return fmt.Errorf("unknown stop_reason %q", reason)
}
