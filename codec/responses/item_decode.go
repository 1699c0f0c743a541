package responses

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// item is one element of the input with the members that are used here, raw.
type item struct {
	raw   []byte
	kind  itemKind
	index int

	wireType, role, id, callID, name, namespace []byte // string bodies
	phase, status, encrypted                    []byte // string bodies
	content, arguments, input, output           []byte
	action, actions, operation, summary         []byte
	execution, tools, author                    []byte
}

// itemKind is the role of an item in a conversation.
type itemKind uint8

const (
	itemOther      itemKind = iota // carried unchanged, in a message of its own
	itemMessage                    // of a user, a developer or the system
	itemAssistant                  // a message of the assistant
	itemReasoning                  // part of the assistant's turn from here on
	itemCall                       // a call of a function
	itemCustomCall                 // a call of a custom tool
	itemClientCall                 // a call of a tool of documented shape that the client runs
	itemServerTool                 // a call that the provider ran
	itemResult                     // result of a call
	itemTools                      // tools added during the conversation
	itemAgent                      // a message from another agent
)

// read decodes the members of one item.
func (it *item) read(v []byte) {
	*it = item{raw: v}
	for m := scan.Object(v); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		switch string(m.Key) {
		case "type":
			it.wireType = scan.Body(m.Value)
		case "role":
			it.role = scan.Body(m.Value)
		case "id":
			it.id = scan.Body(m.Value)
		case "call_id":
			it.callID = scan.Body(m.Value)
		case "name":
			it.name = scan.Body(m.Value)
		case "namespace":
			it.namespace = scan.Body(m.Value)
		case "phase":
			it.phase = scan.Body(m.Value)
		case "status":
			it.status = scan.Body(m.Value)
		case "encrypted_content":
			it.encrypted = scan.Body(m.Value)
		case "content":
			it.content = m.Value
		case "arguments":
			it.arguments = m.Value
		case "input":
			it.input = m.Value
		case "output":
			it.output = m.Value
		case "action":
			it.action = m.Value
		case "actions":
			it.actions = m.Value
		case "operation":
			it.operation = m.Value
		case "summary":
			it.summary = m.Value
		case "execution":
			it.execution = scan.Body(m.Value)
		case "tools":
			it.tools = m.Value
		case "author":
			it.author = scan.Body(m.Value)
		}
	}
	it.kind = it.classify()
}

// classify derives the kind from the type; among items without a type, only messages have a role (pitfall P83).
func (it *item) classify() itemKind {
	switch string(it.wireType) {
	case typeMessage, "":
		switch string(it.role) {
		case "":
			return itemOther
		case "assistant":
			return itemAssistant
		}
		return itemMessage
	case typeReasoning:
		return itemReasoning
	case typeCall:
		return itemCall
	case typeCustomCall:
		return itemCustomCall
	case "local_shell_call", "shell_call", "apply_patch_call", "computer_call":
		return itemClientCall
	case typeOutput, typeCustomOut, "local_shell_call_output", "shell_call_output", "apply_patch_call_output",
		"computer_call_output":
		return itemResult
	case "tool_search_call":
		if string(it.execution) == "client" {
			return itemClientCall
		}
		return itemServerTool
	case "tool_search_output":
		if string(it.execution) == "client" {
			return itemResult
		}
		return itemServerTool
	case typeWebSearch, "file_search_call", typeImageGeneration, "code_interpreter_call", "mcp_call",
		"mcp_list_tools", "program", "program_output":
		return itemServerTool
	case "additional_tools":
		return itemTools
	case "agent_message":
		return itemAgent
	}
	return itemOther
}

// ofAssistant reports whether an item belongs to a turn of the assistant's.
func (it *item) ofAssistant() bool {
	switch it.kind {
	case itemAssistant, itemReasoning, itemCall, itemCustomCall, itemClientCall, itemServerTool:
		return true
	}
	return false
}

// history turns the list of items into messages: neighboring items of the assistant become one turn (pitfall P73),
// neighboring results one tool message.
func (d *decoder) history() error {
	d.r.Messages = slices.Grow(d.r.Messages, len(d.items))
	for i := range d.items {
		d.items[i].index = i
	}
	for i := 0; i < len(d.items); {
		n, err := d.turn(d.items[i:])
		if err != nil {
			return err
		}
		i += n
	}
	return nil
}

// turn converts the first items to a message and returns how many it used.
func (d *decoder) turn(items []item) (int, error) {
	first := &items[0]
	switch {
	case first.ofAssistant():
		n := assistantRun(items)
		return n, d.assistant(items[:n])
	case first.kind == itemResult:
		n := 1
		for n < len(items) && items[n].kind == itemResult {
			n++
		}
		return n, d.results(items[:n])
	case first.kind == itemTools:
		return 1, d.tools(first.tools, first.path("tools"))
	case first.kind == itemMessage:
		return 1, d.message(first)
	case first.kind == itemAgent:
		return 1, d.agent(first)
	}
	d.other(first)
	return 1, nil
}

// assistantRun counts the items of one turn. Two messages of different phases are two turns, because the phase has to
// be sent back unchanged, and a message has only one.
func assistantRun(items []item) int {
	var phase []byte
	for n := range items {
		it := &items[n]
		if !it.ofAssistant() {
			return n
		}
		if it.kind != itemAssistant || it.phase == nil {
			continue
		}
		if phase != nil && !bytes.Equal(phase, it.phase) {
			return n
		}
		phase = it.phase
	}
	return len(items)
}

func (d *decoder) assistant(items []item) error {
	room := 0
	for i := range items {
		room++
		if items[i].kind == itemAssistant {
			room += partCount(items[i].content)
		}
	}
	msg := codec.Message{Role: codec.RoleAssistant, Index: items[0].index}
	parts := d.r.NewParts(room)
	for i := range items {
		it := &items[i]
		var err error
		switch it.kind {
		case itemAssistant:
			if msg.ID == nil {
				msg.ID = it.id
			}
			if msg.Phase == nil {
				msg.Phase = it.phase
			}
			parts, err = d.content(parts, it.content, it.path("content"))
		case itemReasoning:
			parts = append(parts, d.reasoningPart(it))
		case itemCall, itemCustomCall:
			var p codec.Part
			p, err = it.call()
			parts = append(parts, p)
		case itemClientCall:
			parts = append(parts, d.clientCall(it))
		default:
			if err = d.loaded(it); err == nil {
				parts = append(parts, d.serverTool(it))
			}
		}
		if err != nil {
			return err
		}
	}
	msg.Parts = parts
	d.r.Messages = append(d.r.Messages, msg)
	return nil
}

// call returns the part of a function call or a custom tool call.
func (it *item) call() (codec.Part, error) {
	if len(it.name) == 0 {
		return codec.Part{}, codec.Invalid(it.path("name"), "the call has no tool name")
	}
	p := codec.Part{
		Kind: codec.PartToolCall, ID: it.id, CallID: it.callID, Name: it.name, Namespace: it.namespace,
		Arguments: it.arguments,
	}
	if p.CallID == nil {
		p.CallID = it.id
	}
	if it.kind == itemCustomCall {
		p.Kind, p.Arguments, p.Text = codec.PartCustomCall, nil, scan.Body(it.input)
		return p, nil
	}
	if scan.IsString(it.arguments) {
		p.Arguments, p.ArgumentsEscaped = scan.Body(it.arguments), true
	}
	return p, nil
}

// clientCall returns the part of a call whose tool has a shape of its own. For other formats it is a function call with
// the action as arguments. The part keeps the item itself.
func (d *decoder) clientCall(it *item) codec.Part {
	p := it.opaque(codec.PartToolCall)
	p.CallID = it.callID
	if p.CallID == nil {
		p.CallID = it.id
	}
	switch string(it.wireType) {
	case "local_shell_call":
		p.Name, p.Arguments = []byte(nameLocalShell), it.action
	case "shell_call":
		p.Name, p.Arguments = []byte(nameShell), it.action
	case "apply_patch_call":
		p.Name, p.Arguments = []byte(nameApplyPatch), it.operation
	case "tool_search_call":
		p.Name, p.Arguments = []byte(nameToolSearch), it.arguments
		if scan.IsString(it.arguments) {
			p.Arguments, p.ArgumentsEscaped = scan.Body(it.arguments), true
		}
	default:
		p.Name, p.Arguments = []byte(nameComputer), it.action
		if it.action == nil && it.actions != nil {
			const open = `{"actions":`
			room := append(d.r.Alloc(len(open)+len(it.actions)+1), open...)
			p.Arguments = append(append(room, it.actions...), '}')
		}
	}
	return p
}

func (d *decoder) reasoningPart(it *item) codec.Part {
	p := codec.Part{Kind: codec.PartReasoning, ID: it.id, Signature: it.encrypted, Summary: true}
	if p.Signature != nil {
		p.Family = codec.FamilyOpenAI
	}
	list := it.summary
	if scan.Count(list) == 0 && it.content != nil {
		list, p.Summary = it.content, false
	}
	p.Parts = d.r.NewParts(scan.Count(list))
	for e := scan.Array(list); e.Next(); {
		if text := scan.Body(scan.Get(e.Value, "text")); text != nil {
			p.Parts = append(p.Parts, codec.Part{Kind: codec.PartText, Text: text})
		}
	}
	if len(p.Parts) == 1 {
		p.Text, p.Parts = p.Parts[0].Text, nil
	}
	return p
}

// results converts neighboring outputs to one tool message.
func (d *decoder) results(items []item) error {
	msg := codec.Message{Role: codec.RoleTool, Index: items[0].index, Parts: d.r.NewParts(len(items))}
	for i := range items {
		p, err := d.result(&items[i])
		if err != nil {
			return err
		}
		msg.Parts = append(msg.Parts, p)
	}
	d.r.Messages = append(d.r.Messages, msg)
	return nil
}

func (d *decoder) result(it *item) (codec.Part, error) {
	p := codec.Part{Kind: codec.PartToolResult, ID: it.id, CallID: it.callID, Name: it.name, Namespace: it.namespace}
	if string(it.wireType) != typeOutput {
		p.WireType = it.wireType
	}
	switch string(it.wireType) {
	case typeOutput, typeCustomOut:
	case "local_shell_call_output":
		if p.CallID == nil {
			p.CallID = it.id // this type has no call_id: its id is that of the call
		}
		p.Raw, p.Origin = it.raw, codec.Responses
	case "tool_search_output":
		p.Raw, p.Origin = it.raw, codec.Responses
		if err := d.loaded(it); err != nil {
			return p, err
		}
		p.Parts = d.references(it.tools)
		return p, nil
	default:
		p.Failed = string(it.status) == "failed"
		p.Raw, p.Origin = it.raw, codec.Responses
	}
	var err error
	p.Parts, err = d.resultContent(it)
	return p, err
}

// resultContent decodes an output: a string, or a list of content parts. Any other JSON value, which some clients send,
// is taken as text (pitfall P77).
func (d *decoder) resultContent(it *item) ([]codec.Part, error) {
	v := it.output
	switch {
	case v == nil || string(v) == `""`:
		return nil, nil
	case scan.IsString(v):
		return append(d.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: scan.Body(v)}), nil
	case scan.IsArray(v) && contentList(v):
		return d.content(d.r.NewParts(scan.Count(v)), v, it.path("output"))
	case string(it.wireType) == "computer_call_output":
		return append(d.r.NewParts(1), d.image(v)), nil
	}
	text := scan.Escape(d.r.Alloc(2 * len(v))[:0], v)
	return append(d.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: text}), nil
}

// contentList reports whether an array consists of content parts: objects with a type. An empty one does.
func contentList(v []byte) bool {
	e := scan.Array(v)
	return !e.Next() || scan.IsString(scan.Get(e.Value, "type"))
}

// loaded adds the tools that a tool search found: from here on the model may call them, and those declared as deferred
// no longer are.
func (d *decoder) loaded(it *item) error {
	if string(it.wireType) != "tool_search_output" || it.tools == nil {
		return nil
	}
	before := len(d.r.Tools)
	if err := d.tools(it.tools, it.path("tools")); err != nil {
		return err
	}
	found := d.r.Tools[before:]
	d.r.Tools = d.r.Tools[:before]
	for i := range found {
		found[i].Deferred = false
		if at, known := d.places.of(&found[i], d.r.Tools); known {
			d.r.Tools[at].Deferred = false
			continue
		}
		d.r.Tools = append(d.r.Tools, found[i])
	}
	return nil
}

// toolPlaces finds the positions of tools in a list that only grows. A search may find many tools, and there may be
// many searches.
type toolPlaces struct {
	at   map[toolName]int
	read int // length of the indexed part of the list
}

type toolName struct{ namespace, name string }

func (p *toolPlaces) of(t *codec.Tool, list []codec.Tool) (at int, known bool) {
	if p.at == nil {
		p.at = make(map[toolName]int, len(list))
	}
	for ; p.read < len(list); p.read++ {
		name := toolName{string(list[p.read].Namespace), string(list[p.read].Name)}
		if _, twice := p.at[name]; !twice {
			p.at[name] = p.read
		}
	}
	at, known = p.at[toolName{string(t.Namespace), string(t.Name)}]
	return at, known
}

// serverTool returns the part of a call that the provider ran, with a line of text for formats that do not know its
// shape.
func (d *decoder) serverTool(it *item) codec.Part {
	p := it.opaque(codec.PartServerTool)
	name, detail := it.wireType, it.name
	switch string(it.wireType) {
	case typeWebSearch:
		if detail = scan.Body(scan.Get(it.action, "query")); detail == nil {
			detail = scan.Body(scan.Get(it.action, "url"))
		}
	case "code_interpreter_call":
		detail = scan.Body(scan.Get(it.raw, "code"))
	case typeImageGeneration:
		detail = scan.Body(scan.Get(it.raw, "revised_prompt"))
	case "mcp_list_tools", "tool_search_call", "tool_search_output", "program_output":
		return p // it has nothing that a conversation needs
	}
	text := append(d.r.Alloc(len(name)+len(detail)+len("[: ]")), '[')
	text = append(text, name...)
	if len(detail) > 0 {
		text = append(append(text, ": "...), detail...)
	}
	p.Text = append(text, ']')
	return p
}

// references returns references to the tools that a search found.
func (d *decoder) references(list []byte) []codec.Part {
	parts := d.r.NewParts(scan.Count(list))
	for e := scan.Array(list); e.Next(); {
		if name := scan.Body(scan.Get(e.Value, "name")); name != nil {
			parts = append(parts, codec.Part{Kind: codec.PartToolRef, Name: name})
		}
	}
	return parts
}

func (d *decoder) message(it *item) error {
	msg := codec.Message{ID: it.id, Phase: it.phase, Index: it.index, Role: codec.RoleUser}
	switch string(it.role) {
	case "system":
		msg.Role = codec.RoleSystem
	case "developer":
		msg.Role = codec.RoleDeveloper
	}
	var err error
	msg.Parts, err = d.content(d.r.NewParts(partCount(it.content)), it.content, it.path("content"))
	d.r.Messages = append(d.r.Messages, msg)
	return err
}

// agent converts a message of another agent of the client to a user message.
func (d *decoder) agent(it *item) error {
	parts := d.r.NewParts(1 + partCount(it.content))
	if len(it.author) > 0 {
		const before, after = "Message from ", ":"
		text := append(d.r.Alloc(len(before)+len(it.author)+len(after)), before...)
		text = append(append(text, it.author...), after...)
		parts = append(parts, codec.Part{Kind: codec.PartText, Text: text})
	}
	parts, err := d.content(parts, it.content, it.path("content"))
	d.r.Messages = append(d.r.Messages, codec.Message{Role: codec.RoleUser, ID: it.id, Index: it.index, Parts: parts})
	return err
}

// other keeps an item that is neither message, call nor result in a message of its own.
func (d *decoder) other(it *item) {
	p := it.opaque(codec.PartOpaque)
	if it.wireType == nil {
		p.WireType = []byte("item_reference")
	}
	if binding(p.WireType) {
		d.r.Stateful = append(d.r.Stateful, fmt.Sprintf("input[%d]", it.index))
	}
	d.r.Messages = append(d.r.Messages, codec.Message{
		Role: codec.RoleUser, ID: it.id, Index: it.index, Parts: append(d.r.NewParts(1), p),
	})
}

// binding reports whether the conversation would change without the item, which only its own provider understands.
func binding(wireType []byte) bool {
	switch string(wireType) {
	case "item_reference", "compaction", "compaction_summary", "context_compaction", "compaction_trigger",
		"configuration_update", "mcp_approval_request", "mcp_approval_response":
		return true
	}
	return false
}

func (it *item) opaque(kind codec.PartKind) codec.Part {
	return codec.Part{Kind: kind, ID: it.id, Raw: it.raw, WireType: it.wireType, Origin: codec.Responses}
}

// path returns the path of a member of the item, for error messages.
func (it *item) path(member string) string { return fmt.Sprintf("input[%d].%s", it.index, member) }
