package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

type responsesItem struct {
	id, kind, callID, name string
	added                  string          // its status when it was added: one that arrived complete is complete from the start
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

type responsesOutput struct {
	ID, Type, Status, CallID, Name, Role string
	Content, Summary                     []json.RawMessage
	Arguments, Input                     json.RawMessage
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

// responsesBody returns the content of a JSON string: pieces of a text are compared as on the wire, because a character
// may be split between two of them.
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
			return fmt.Errorf("part %d is not done, or differs from its done event", i)
		}
	}
	return nil
}

func (it *responsesItem) part(index *int) (*responsesPart, error) {
	if index == nil || *index < 0 || *index >= len(it.parts) {
		return nil, fmt.Errorf("the index belongs to no part")
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
		return fmt.Errorf("the complete text differs from its deltas")
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
		return fmt.Errorf("the part differs from its deltas")
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
		return fmt.Errorf("the complete text differs from its deltas")
	}
	if kind == "function_call" && (f.Name == nil || *f.Name != it.name) {
		return fmt.Errorf("the event does not name the function %q", it.name)
	}
	it.bodyDone, it.bodyText = true, whole
	return nil
}
