package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Responses checks that stream is one whole stream of the Responses format, as strict as the strictest of its clients:
// an event line in every frame, numbers without gaps, items and parts announced before any event refers to them,
// every done event with all that its deltas said, ids that never change, and one terminal event, the last frame, with
// all items in their order. A stream that failed before it began is its terminal event alone.
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

type responsesItem struct {
	id, kind, callID, name string
	added                  string          // the status it was added with: what another party made whole is complete from the start
	raw                    json.RawMessage // of the done event
	done                   bool
	parts                  []*responsesPart
	body                   strings.Builder // arguments or input, still escaped
	bodyDone               bool
	bodyText               json.RawMessage
}

type responsesPart struct {
	kind        string
	text        strings.Builder // still escaped
	annotations []json.RawMessage
	textDone    bool
	done        bool
	raw         json.RawMessage
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
		return fmt.Errorf("a frame behind the terminal event")
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
	case "keepalive":
		return nil
	case "response.completed", "response.incomplete":
		return c.terminal(f)
	case "response.output_item.added":
		return c.itemAdded(f)
	}
	if f.Output == nil || *f.Output < 0 || *f.Output >= len(c.items) {
		return fmt.Errorf("output_index is of no item")
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

// responsesObject is what is looked at in a response.
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

type responsesOutput struct {
	ID, Type, Status, CallID, Name, Role string
	Content, Summary                     []json.RawMessage
	Arguments, Input                     json.RawMessage
}

// responsesMember reads a member if it has the type of to. Struct tags would not do: they take "Content" for "content".
func responsesMember(members map[string]json.RawMessage, name string, to any) {
	if raw := members[name]; raw != nil {
		_ = json.Unmarshal(raw, to) // what has another type counts as missing
	}
}

// readResponsesOutput reads an item and checks that it has what its type requires.
func readResponsesOutput(raw json.RawMessage) (it responsesOutput, err error) {
	var members map[string]json.RawMessage
	if err = json.Unmarshal(raw, &members); err != nil {
		return it, fmt.Errorf("item: %w", err)
	}
	responsesMember(members, "id", &it.ID)
	responsesMember(members, "type", &it.Type)
	responsesMember(members, "status", &it.Status)
	responsesMember(members, "call_id", &it.CallID)
	responsesMember(members, "name", &it.Name)
	responsesMember(members, "role", &it.Role)
	responsesMember(members, "content", &it.Content)
	responsesMember(members, "summary", &it.Summary)
	it.Arguments, it.Input = members["arguments"], members["input"]
	if it.ID == "" || it.Type == "" {
		return it, fmt.Errorf("the item has no id or no type")
	}
	switch it.Type {
	case "message":
		if it.Role != "assistant" || it.Content == nil || it.Status == "" {
			return it, fmt.Errorf("the message lacks role, content or status")
		}
	case "reasoning":
		if it.Summary == nil {
			return it, fmt.Errorf("the reasoning item has no summary")
		}
	case "function_call":
		if it.CallID == "" || it.Name == "" || it.Status == "" || !isResponsesString(it.Arguments) {
			return it, fmt.Errorf("the call lacks call_id, name, status or arguments")
		}
	case "custom_tool_call":
		if it.CallID == "" || it.Name == "" || it.Status == "" || !isResponsesString(it.Input) {
			return it, fmt.Errorf("the call lacks call_id, name, status or input")
		}
	}
	return it, nil
}

func isResponsesString(raw json.RawMessage) bool { return len(raw) >= 2 && raw[0] == '"' }

// responsesBody is the inside of a JSON string: pieces of a text are compared as they stand on the wire, because a character
// may be split over two of them.
func responsesBody(raw json.RawMessage) string {
	if !isResponsesString(raw) {
		return ""
	}
	return string(raw[1 : len(raw)-1])
}

func (c *responsesChecker) itemAdded(f *responsesFrame) error {
	if f.Output == nil || *f.Output != len(c.items) {
		return fmt.Errorf("output_index is not %d", len(c.items))
	}
	it, err := readResponsesOutput(f.Item)
	if err != nil {
		return err
	}
	if c.ids[it.ID] {
		return fmt.Errorf("the id %q is another item's", it.ID)
	}
	c.ids[it.ID] = true
	if it.Type == "function_call" || it.Type == "custom_tool_call" {
		if call := it.Type + it.CallID; c.calls[call] {
			return fmt.Errorf("the call id %q is another call's", it.CallID)
		}
		c.calls[it.Type+it.CallID] = true
		if it.Status != "in_progress" || responsesBody(it.Arguments)+responsesBody(it.Input) != "" {
			return fmt.Errorf("a call that is added has a body or is not in progress")
		}
	}
	if it.Type == "message" && (len(it.Content) > 0 || it.Status != "in_progress") || it.Type == "reasoning" && len(it.Summary) > 0 {
		return fmt.Errorf("an item that is added has content or is not in progress")
	}
	c.items = append(c.items, &responsesItem{id: it.ID, kind: it.Type, callID: it.CallID, name: it.Name, added: it.Status})
	return nil
}

func (c *responsesChecker) itemDone(it *responsesItem, raw json.RawMessage) error {
	done, err := readResponsesOutput(raw)
	if err != nil {
		return err
	}
	if done.ID != it.id || done.Type != it.kind || done.CallID != it.callID {
		return fmt.Errorf("id, type or call_id changed")
	}
	if done.Status != "" && done.Status != "completed" && done.Status != "incomplete" && done.Status != "failed" {
		return fmt.Errorf("status %q of an item that is done", done.Status)
	}
	it.done, it.raw = true, raw
	switch it.kind {
	case "message":
		return it.sameParts(done.Content)
	case "reasoning":
		return it.sameParts(done.Summary)
	case "function_call":
		if !it.bodyDone || string(done.Arguments) != string(it.bodyText) {
			return fmt.Errorf("arguments are not those of the done event")
		}
		if done.Status == "completed" && responsesBody(done.Arguments) == "" {
			return fmt.Errorf("empty arguments")
		}
	case "custom_tool_call":
		if !it.bodyDone || string(done.Input) != string(it.bodyText) {
			return fmt.Errorf("input is not that of the done event")
		}
	}
	return nil
}

func (it *responsesItem) sameParts(list []json.RawMessage) error {
	if len(list) != len(it.parts) {
		return fmt.Errorf("%d parts instead of %d", len(list), len(it.parts))
	}
	for i, p := range it.parts {
		if !p.done || !bytes.Equal(p.raw, list[i]) {
			return fmt.Errorf("part %d is not done, or another than when it was", i)
		}
	}
	return nil
}

func (it *responsesItem) part(index *int) (*responsesPart, error) {
	if index == nil || *index < 0 || *index >= len(it.parts) {
		return nil, fmt.Errorf("the index is of no part")
	}
	if it.parts[*index].done {
		return nil, fmt.Errorf("the part is done")
	}
	return it.parts[*index], nil
}

type responsesContent struct {
	Type        string            `json:"type"`
	Text        json.RawMessage   `json:"text"`
	Refusal     json.RawMessage   `json:"refusal"`
	Annotations []json.RawMessage `json:"annotations"`
	Logprobs    json.RawMessage   `json:"logprobs"`
}

func readResponsesPart(raw json.RawMessage) (p responsesContent, err error) {
	if err = json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("part: %w", err)
	}
	switch p.Type {
	case "output_text":
		if !isResponsesString(p.Text) || p.Annotations == nil || p.Logprobs == nil {
			return p, fmt.Errorf("the text part lacks text, annotations or logprobs")
		}
	case "refusal":
		if !isResponsesString(p.Refusal) {
			return p, fmt.Errorf("the refusal part has no refusal")
		}
	case "summary_text":
		if !isResponsesString(p.Text) {
			return p, fmt.Errorf("the summary part has no text")
		}
	default:
		return p, fmt.Errorf("a part of type %q", p.Type)
	}
	return p, nil
}

func (it *responsesItem) message(f *responsesFrame) error {
	if it.kind != "message" {
		return fmt.Errorf("the item is of type %s", it.kind)
	}
	if f.Type == "response.content_part.added" {
		return it.addPart(f.Content, f.Part)
	}
	p, err := it.part(f.Content)
	if err != nil {
		return err
	}
	kind := "output_text"
	if strings.HasPrefix(f.Type, "response.refusal") {
		kind = "refusal"
	}
	if f.Type != "response.content_part.done" && (p.kind != kind || p.textDone) {
		return fmt.Errorf("the part is a %s, or its text is done", p.kind)
	}
	switch f.Type {
	case "response.output_text.delta":
		if f.Logprobs == nil {
			return fmt.Errorf("no logprobs")
		}
		return p.add(f.Delta)
	case "response.refusal.delta":
		return p.add(f.Delta)
	case "response.output_text.done":
		return p.finish(f.Text)
	case "response.refusal.done":
		return p.finish(f.Refusal)
	case "response.output_text.annotation.added":
		if f.AnnotationAt == nil || *f.AnnotationAt != len(p.annotations) || len(f.Annotation) == 0 || f.Annotation[0] != '{' {
			return fmt.Errorf("annotation or annotation_index is wrong")
		}
		p.annotations = append(p.annotations, f.Annotation)
		return nil
	}
	return p.end(f.Part)
}

func (it *responsesItem) addPart(index *int, raw json.RawMessage) error {
	p, err := readResponsesPart(raw)
	if err != nil {
		return err
	}
	if index == nil || *index != len(it.parts) {
		return fmt.Errorf("the index is not %d", len(it.parts))
	}
	if responsesBody(p.Text)+responsesBody(p.Refusal) != "" || len(p.Annotations) > 0 {
		return fmt.Errorf("a part that is added has content")
	}
	if (p.Type == "summary_text") != (it.kind == "reasoning") {
		return fmt.Errorf("a %s in an item of type %s", p.Type, it.kind)
	}
	it.parts = append(it.parts, &responsesPart{kind: p.Type})
	return nil
}

func (it *responsesItem) reasoning(f *responsesFrame) error {
	if it.kind != "reasoning" {
		return fmt.Errorf("the item is of type %s", it.kind)
	}
	if f.Type == "response.reasoning_summary_part.added" {
		return it.addPart(f.Summary, f.Part)
	}
	p, err := it.part(f.Summary)
	if err != nil {
		return err
	}
	switch f.Type {
	case "response.reasoning_summary_text.delta":
		if p.textDone {
			return fmt.Errorf("the text is done")
		}
		return p.add(f.Delta)
	case "response.reasoning_summary_text.done":
		return p.finish(f.Text)
	}
	return p.end(f.Part)
}

func (p *responsesPart) add(delta json.RawMessage) error {
	if responsesBody(delta) == "" {
		return fmt.Errorf("an empty delta")
	}
	p.text.WriteString(responsesBody(delta))
	return nil
}

func (p *responsesPart) finish(whole json.RawMessage) error {
	if p.textDone || !isResponsesString(whole) || responsesBody(whole) != p.text.String() {
		return fmt.Errorf("the whole is not what the deltas said")
	}
	p.textDone = true
	return nil
}

func (p *responsesPart) end(raw json.RawMessage) error {
	part, err := readResponsesPart(raw)
	if err != nil {
		return err
	}
	if !p.textDone || part.Type != p.kind || responsesBody(part.Text)+responsesBody(part.Refusal) != p.text.String() {
		return fmt.Errorf("the part is not what its deltas said")
	}
	if len(part.Annotations) != len(p.annotations) {
		return fmt.Errorf("%d annotations instead of %d", len(part.Annotations), len(p.annotations))
	}
	for i := range part.Annotations {
		if !bytes.Equal(part.Annotations[i], p.annotations[i]) {
			return fmt.Errorf("annotation %d changed", i)
		}
	}
	p.done, p.raw = true, raw
	return nil
}

func (it *responsesItem) call(f *responsesFrame, kind string, whole json.RawMessage) error {
	if it.kind != kind || it.bodyDone {
		return fmt.Errorf("the item is of type %s, or its body is done", it.kind)
	}
	if strings.HasSuffix(f.Type, ".delta") {
		if responsesBody(f.Delta) == "" {
			return fmt.Errorf("an empty delta")
		}
		it.body.WriteString(responsesBody(f.Delta))
		return nil
	}
	if !isResponsesString(whole) || responsesBody(whole) != it.body.String() {
		return fmt.Errorf("the whole is not what the deltas said")
	}
	if kind == "function_call" && (f.Name == nil || *f.Name != it.name) {
		return fmt.Errorf("the event does not name the function %q", it.name)
	}
	it.bodyDone, it.bodyText = true, whole
	return nil
}

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
	return c.sameItems(r.Output, r.Status == "failed")
}

func (c *responsesChecker) sameItems(list []json.RawMessage, failed bool) error {
	if len(list) != len(c.items) {
		return fmt.Errorf("%d items instead of %d", len(list), len(c.items))
	}
	for i, it := range c.items {
		last, err := readResponsesOutput(list[i])
		switch {
		case err != nil:
			return err
		case it.done && !bytes.Equal(it.raw, list[i]):
			return fmt.Errorf("item %d is another than when it was done", i)
		case it.done:
		case !failed:
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
