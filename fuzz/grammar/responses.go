package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Responses checks that stream is one complete stream of the Responses format, as strictly as the strictest of its
// clients: an event line in every frame, numbers without gaps, items and parts announced before any event refers to
// them, done events that equal their deltas, ids that never change, and one terminal event, the last frame, with all
// items in order. A stream that failed before it began is only its terminal event.
func Responses(stream []byte) error {
	if !utf8.Valid(stream) {
		return fmt.Errorf("the stream is not UTF-8")
	}
	c := responsesChecker{ids: map[string]bool{}, calls: map[string]bool{}}
	for n, frame := range bytes.SplitAfter(stream, []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		if err := c.frame(frame); err != nil {
			return fmt.Errorf("frame %d: %w\n%s", n, err, frame)
		}
	}
	if !c.ended {
		return fmt.Errorf("the stream ends without a terminal event")
	}
	return nil
}

type responsesChecker struct {
	sequence int64
	id       string
	model    string
	begun    int // 1 after response.created, 2 after response.in_progress
	ended    bool
	items    []*responsesItem
	ids      map[string]bool
	calls    map[string]bool // type and call id
}

type responsesFrame struct {
	Type         string          `json:"type"`
	Sequence     *int64          `json:"sequence_number"`
	Response     json.RawMessage `json:"response"`
	Item         json.RawMessage `json:"item"`
	Part         json.RawMessage `json:"part"`
	Annotation   json.RawMessage `json:"annotation"`
	ItemID       *string         `json:"item_id"`
	Output       *int            `json:"output_index"`
	Content      *int            `json:"content_index"`
	Summary      *int            `json:"summary_index"`
	AnnotationAt *int            `json:"annotation_index"`
	Delta        json.RawMessage `json:"delta"`
	Text         json.RawMessage `json:"text"`
	Refusal      json.RawMessage `json:"refusal"`
	Name         *string         `json:"name"`
	Arguments    json.RawMessage `json:"arguments"`
	Input        json.RawMessage `json:"input"`
	Logprobs     json.RawMessage `json:"logprobs"`
	Error        json.RawMessage `json:"error"`
}

func (c *responsesChecker) frame(raw []byte) error {
	if c.ended {
		return fmt.Errorf("a frame after the terminal event")
	}
	text, whole := strings.CutSuffix(string(raw), "\n\n")
	if !whole {
		return fmt.Errorf("the frame has no end")
	}
	head, data, two := strings.Cut(text, "\n")
	name, isEvent := strings.CutPrefix(head, "event: ")
	data, isData := strings.CutPrefix(data, "data: ")
	if !two || !isEvent || !isData || strings.ContainsAny(data, "\r\n") {
		return fmt.Errorf("not an event line and a data line")
	}
	var f responsesFrame
	if err := json.Unmarshal([]byte(data), &f); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if f.Type != name {
		return fmt.Errorf("event %q has data of type %q", name, f.Type)
	}
	if f.Error != nil {
		return fmt.Errorf("a member error at the top level")
	}
	if f.Sequence == nil || *f.Sequence != c.sequence {
		return fmt.Errorf("sequence number is not %d", c.sequence)
	}
	c.sequence++
	return c.event(&f)
}

func (c *responsesChecker) event(f *responsesFrame) error {
	switch f.Type {
	case "response.created", "response.in_progress":
		return c.begin(f)
	case "response.failed":
		return c.terminal(f)
	}
	if c.begun != 2 {
		return fmt.Errorf("an event before response.created and response.in_progress")
	}
	switch f.Type {
	case "response.completed", "response.incomplete":
		return c.terminal(f)
	case "response.output_item.added":
		return c.itemAdded(f)
	}
	if f.Output == nil || *f.Output < 0 || *f.Output >= len(c.items) {
		return fmt.Errorf("output_index belongs to no item")
	}
	it := c.items[*f.Output]
	if it.done {
		return fmt.Errorf("the item is done")
	}
	if f.Type == "response.output_item.done" {
		return c.itemDone(it, f.Item)
	}
	if f.ItemID == nil || *f.ItemID != it.id {
		return fmt.Errorf("item_id is not %q", it.id)
	}
	switch f.Type {
	case "response.content_part.added", "response.content_part.done", "response.output_text.delta",
		"response.output_text.done", "response.output_text.annotation.added", "response.refusal.delta",
		"response.refusal.done":
		return it.message(f)
	case "response.reasoning_summary_part.added", "response.reasoning_summary_part.done",
		"response.reasoning_summary_text.delta", "response.reasoning_summary_text.done":
		return it.reasoning(f)
	case "response.function_call_arguments.delta", "response.function_call_arguments.done":
		return it.call(f, "function_call", f.Arguments)
	case "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done":
		return it.call(f, "custom_tool_call", f.Input)
	}
	return fmt.Errorf("an event type that strict clients do not know")
}

// responsesObject has the checked members of a response.
type responsesObject struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	CreatedAt  *int64            `json:"created_at"`
	Model      *string           `json:"model"`
	Status     string            `json:"status"`
	Output     []json.RawMessage `json:"output"`
	Usage      json.RawMessage   `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func readResponsesObject(raw json.RawMessage) (r responsesObject, err error) {
	var members map[string]json.RawMessage
	if err = json.Unmarshal(raw, &members); err != nil {
		return r, fmt.Errorf("response: %w", err)
	}
	for _, name := range []string{
		"id", "object", "created_at", "status", "error", "incomplete_details", "instructions", "metadata", "model",
		"output", "parallel_tool_calls", "temperature", "tool_choice", "tools", "top_p", "access_programs", "usage",
		"text", "reasoning", "truncation",
	} {
		if members[name] == nil {
			return r, fmt.Errorf("the response has no %s", name)
		}
	}
	if err = json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("response: %w", err)
	}
	if r.Object != "response" || r.CreatedAt == nil || r.Model == nil || r.Output == nil || !strings.HasPrefix(r.ID, "resp_") {
		return r, fmt.Errorf("the response's object, id, created_at, model or output is wrong")
	}
	return r, nil
}

func (c *responsesChecker) begin(f *responsesFrame) error {
	if c.begun == 2 || (c.begun == 1) != (f.Type == "response.in_progress") {
		return fmt.Errorf("out of order")
	}
	r, err := readResponsesObject(f.Response)
	if err != nil {
		return err
	}
	if r.Status != "in_progress" || len(r.Output) != 0 || string(r.Usage) != "null" || r.Error != nil || r.Incomplete != nil {
		return fmt.Errorf("a response in progress has a status, output, usage or error of its own")
	}
	if c.begun == 1 && (r.ID != c.id || *r.Model != c.model) {
		return fmt.Errorf("id or model changed")
	}
	c.id, c.model = r.ID, *r.Model
	c.begun++
	return nil
}

// responsesMember decodes a member if it has the type of to. Struct tags are not exact enough: they accept "Content"
// for "content".
func responsesMember(members map[string]json.RawMessage, name string, to any) {
	if raw := members[name]; raw != nil {
		_ = json.Unmarshal(raw, to) // a member of another type counts as missing
	}
}

func isResponsesString(raw json.RawMessage) bool { return len(raw) >= 2 && raw[0] == '"' }

func (c *responsesChecker) terminal(f *responsesFrame) error {
	c.ended = true
	r, err := readResponsesObject(f.Response)
	if err != nil {
		return err
	}
	if c.begun == 1 || c.begun == 2 && (r.ID != c.id || *r.Model != c.model) {
		return fmt.Errorf("id or model changed, or response.in_progress is missing")
	}
	if "response."+r.Status != f.Type {
		return fmt.Errorf("status is %q", r.Status)
	}
	if (r.Error != nil) != (r.Status == "failed") || (r.Incomplete != nil) != (r.Status == "incomplete") {
		return fmt.Errorf("error or incomplete_details do not fit the status")
	}
	if r.Error != nil && (r.Error.Code == "" || r.Error.Message == "") {
		return fmt.Errorf("the error has no code or no message")
	}
	if r.Incomplete != nil && r.Incomplete.Reason != "max_output_tokens" && r.Incomplete.Reason != "content_filter" {
		return fmt.Errorf("incomplete for the reason %q", r.Incomplete.Reason)
	}
	if err := checkResponsesUsage(r.Usage); err != nil {
		return err
	}
	return c.sameItems(r.Output, r.Status)
}

// sameItems checks the items of the terminal event. Clients run a call that is done, so one that was cut off is not.
func (c *responsesChecker) sameItems(list []json.RawMessage, status string) error {
	if len(list) != len(c.items) {
		return fmt.Errorf("%d items instead of %d", len(list), len(c.items))
	}
	for i, it := range c.items {
		last, err := readResponsesOutput(list[i])
		switch {
		case err != nil:
			return err
		case it.done && !bytes.Equal(it.raw, list[i]):
			return fmt.Errorf("item %d differs from its done event", i)
		case it.done && last.Status == "incomplete" && last.CallID != "":
			return fmt.Errorf("item %d is a call that was cut off, and is done", i)
		case it.done:
		case status != "failed" && (status != "incomplete" || last.CallID == ""):
			return fmt.Errorf("item %d is not done", i)
		case last.ID != it.id || last.Type != it.kind || last.CallID != it.callID:
			return fmt.Errorf("id, type or call_id of item %d changed", i)
		case last.Status != "" && last.Status != "incomplete" && last.Status != it.added:
			return fmt.Errorf("item %d is %q without having been done", i, last.Status)
		}
	}
	return nil
}

func checkResponsesUsage(raw json.RawMessage) error {
	if string(raw) == "null" {
		return nil
	}
	var u struct {
		Input        *int64 `json:"input_tokens"`
		Output       *int64 `json:"output_tokens"`
		Total        *int64 `json:"total_tokens"`
		InputDetails *struct {
			Cached *int64 `json:"cached_tokens"`
			Write  *int64 `json:"cache_write_tokens"`
		} `json:"input_tokens_details"`
		OutputDetails *struct {
			Reasoning *int64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	if err := json.Unmarshal(raw, &u); err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	if u.Input == nil || u.Output == nil || u.Total == nil || u.InputDetails == nil || u.InputDetails.Cached == nil ||
		u.InputDetails.Write == nil || u.OutputDetails == nil || u.OutputDetails.Reasoning == nil {
		return fmt.Errorf("usage lacks a member")
	}
	if *u.Total != *u.Input+*u.Output {
		return fmt.Errorf("usage does not add up")
	}
	return nil
}
