package messages

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// place is a block's place in the request, turned into a path only if an error needs one.
type place struct {
	member  string // system, messages
	message int
	content bool // inside the content of a message
	block   int
	inner   int // block of a tool result
	nested  bool
}

// ofMessage returns the path of the message, or of one of its members.
func (p place) ofMessage(member string) string {
	return p.member + "[" + strconv.Itoa(p.message) + "]" + member
}

// path returns the path of the block, or of one of its members.
func (p place) path(member string) string {
	path := p.member
	if p.content {
		path = p.ofMessage(".content")
	}
	path += "[" + strconv.Itoa(p.block) + "]"
	if p.nested {
		path += ".content[" + strconv.Itoa(p.inner) + "]"
	}
	if member != "" {
		path += "." + member
	}
	return path
}

// messages reads the list during the walk over the body; isList is false if it is not a list.
func (d *requestDecoder) messages(m *scan.Members, body []byte) (isList bool, err error) {
	d.r.Messages, d.defined, d.effort = d.r.Messages[:0], nil, nil
	index := 0
	isList = m.Walk(func(start int) (end int) {
		end, err = d.message(body, start, index)
		index++
		if err != nil {
			return start
		}
		return end
	})
	if !isList {
		m.Skip()
	}
	return isList, err
}

// message reads the message that begins at an offset of the body, and returns the offset after it.
func (d *requestDecoder) message(body []byte, start, index int) (end int, err error) {
	at := place{member: "messages", message: index, content: true}
	if body[start] != '{' {
		return start, codec.Invalid(at.ofMessage(""), "a message must be an object")
	}
	msg := codec.Message{Index: index}
	var role, config []byte
	m := scan.ObjectAt(body, start)
	for m.NextName() {
		if string(m.Key) == "content" {
			if err := d.content(&msg, &m, body, at); err != nil {
				return start, err
			}
			continue
		}
		if !m.Skip() {
			break
		}
		switch string(m.Key) {
		case "role":
			role = scan.Body(m.Value)
		case "output_config":
			config = m.Value
		case "clear_at":
			d.r.Notes.Drop("messages.clear_at")
		}
	}
	switch string(role) {
	case "user":
		msg.Role = codec.RoleUser
	case "assistant":
		msg.Role = codec.RoleAssistant
	case "system":
		msg.Role = codec.RoleSystem
	case "developer":
		msg.Role = codec.RoleDeveloper
	default:
		return start, codec.Invalid(at.ofMessage(".role"), "role must be user, assistant or system")
	}
	// A system message may change the effort from its place on: the last one before the answer counts.
	if effort := scan.Body(scan.Get(config, "effort")); effort != nil {
		d.effort = effort
	}
	switch {
	case msg.Role == codec.RoleUser:
		d.userTurn(msg)
	case len(msg.Parts) > 0 || config == nil: // otherwise it only has the effort
		d.r.Messages = append(d.r.Messages, msg)
	}
	return m.Close(), nil
}

// content reads the content of a message, a string or blocks, during the walk over the message.
func (d *requestDecoder) content(msg *codec.Message, m *scan.Members, body []byte, at place) (err error) {
	base := len(d.stack)
	isArray := m.Walk(func(start int) (end int) {
		end, err = d.push(body, start, &at)
		if err != nil {
			return start
		}
		return end
	})
	switch {
	case err != nil:
		return err
	case isArray:
		msg.Parts = d.pop(base)
	case !m.Skip():
	case scan.IsString(m.Value):
		msg.Parts = append(d.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: scan.Body(m.Value)})
	case !scan.IsNull(m.Value):
		return codec.Invalid(at.ofMessage(".content"), "content must be a string or an array of blocks")
	}
	return nil
}

// userTurn splits a turn into tool results and user content; results come first, as the format requires (P67).
func (d *requestDecoder) userTurn(turn codec.Message) {
	results, leading := 0, 0
	for i := range turn.Parts {
		if turn.Parts[i].Kind == codec.PartToolResult {
			if results == i {
				leading++
			}
			results++
		}
	}
	said := turn.Parts
	if results > 0 {
		answered := turn
		answered.Role = codec.RoleTool
		if leading == results {
			answered.Parts, said = turn.Parts[:results:results], turn.Parts[results:]
		} else {
			answered.Parts, said = d.sortOut(turn.Parts, results)
		}
		d.r.Messages = append(d.r.Messages, answered)
		if len(said) == 0 {
			return
		}
	}
	turn.Parts = said
	d.r.Messages = append(d.r.Messages, turn)
}

func (d *requestDecoder) sortOut(parts []codec.Part, results int) (answered, said []codec.Part) {
	answered = d.r.NewParts(results)
	said = d.r.NewParts(len(parts) - results)
	for i := range parts {
		if parts[i].Kind == codec.PartToolResult {
			answered = append(answered, parts[i])
		} else {
			said = append(said, parts[i])
		}
	}
	return answered, said
}

// parts reads the blocks of an array.
func (d *requestDecoder) parts(blocks []byte, at place) ([]codec.Part, error) {
	base := len(d.stack)
	for el := scan.Array(blocks); el.NextStart(); {
		end, err := d.push(blocks, el.Start, &at)
		if err != nil {
			return nil, err
		}
		el.Take(end)
	}
	return d.pop(base), nil
}

// push reads the block that begins at an offset of doc onto the decoder's stack, where the blocks of a list collect
// until their number is known, and returns the offset after it: counting blocks or finding their ends first would mean
// reading every byte twice.
func (d *requestDecoder) push(doc []byte, start int, at *place) (end int, err error) {
	var p codec.Part
	if end, err = d.part(&p, doc, start, *at); err != nil {
		return start, err
	}
	d.stack = append(d.stack, p)
	if at.nested {
		at.inner++
	} else {
		at.block++
	}
	return end, nil
}

// pop moves the blocks above base into memory of the request.
func (d *requestDecoder) pop(base int) []codec.Part {
	gathered := d.stack[base:]
	parts := append(d.r.NewParts(len(gathered)), gathered...)
	clear(gathered)
	d.stack = d.stack[:base]
	return parts
}

// part reads the block that begins at an offset of doc, and returns the offset after it.
func (d *requestDecoder) part(p *codec.Part, doc []byte, start int, at place) (end int, err error) {
	switch doc[start] {
	case '"':
		end = scan.Skip(doc, start)
		*p = codec.Part{Kind: codec.PartText, Text: scan.Body(doc[start:end:end])}
		return end, nil
	case '{':
		var c content
		end = c.read(doc, start)
		return end, d.block(p, &c, doc[start:end:end], at)
	}
	return start, codec.Invalid(at.path(""), "a content block must be an object")
}

// block makes a part from a block whose members are in c. Unknown types are kept whole.
func (d *requestDecoder) block(p *codec.Part, c *content, block []byte, at place) error {
	p.CacheControl = present(c.cacheControl)
	switch string(c.kind) {
	case "":
		return codec.Invalid(at.path("type"), "a content block needs a type")
	case blockText:
		p.Kind, p.Text = codec.PartText, scan.Body(c.text)
		if p.Text == nil {
			return codec.Invalid(at.path("text"), "text must be a string")
		}
		if scan.IsArray(c.citations) {
			p.Citations, p.Origin = c.citations, codec.Messages
		}
	case blockThinking:
		p.Kind, p.Text, p.Summary = codec.PartReasoning, scan.Body(c.thinking), true
		p.Signature, p.Family = scan.Body(c.signature), codec.FamilyAnthropic
	case blockRedactedThinking:
		p.Kind, p.Signature, p.Family = codec.PartRedacted, scan.Body(c.data), codec.FamilyAnthropic
	case "image":
		return d.source(p, codec.PartImage, c, at)
	case "document":
		return d.source(p, codec.PartDocument, c, at)
	case blockToolUse:
		return d.toolUse(p, c, at)
	case blockToolResult:
		return d.toolResult(p, c, at)
	case "tool_reference":
		p.Kind, p.Name = codec.PartToolRef, scan.Body(c.toolName)
	case "tool_addition":
		return d.toolAddition(p, c, block, at)
	case "container_upload": // the answer may be about nothing but this file
		d.r.Stateful = append(d.r.Stateful, at.path(""))
		d.wire(p, c, block)
	default:
		d.wire(p, c, block)
	}
	return nil
}

func present(v []byte) []byte {
	if scan.IsNull(v) {
		return nil
	}
	return v
}

// wire keeps a block unchanged, with its content in words if another format could carry any.
func (d *requestDecoder) wire(p *codec.Part, c *content, block []byte) {
	p.Kind = codec.PartOpaque
	if isServerTool(c.kind) || string(c.kind) == "mcp_tool_result" {
		p.Kind = codec.PartServerTool
		p.CallID, p.Name = scan.Body(c.id), scan.Body(c.name)
		if p.CallID == nil {
			p.CallID = scan.Body(c.toolUseID)
		}
	}
	p.Raw, p.WireType, p.Origin = block, c.kind, codec.Messages
	p.FileID = scan.Body(c.fileID)
	d.scratch = appendWords(d.scratch[:0], c)
	if len(d.scratch) > 0 {
		p.Text = d.r.CopyBytes(d.scratch)
	}
}

func (d *requestDecoder) toolUse(p *codec.Part, c *content, at place) error {
	p.Kind, p.CallID, p.Name = codec.PartToolCall, scan.Body(c.id), scan.Body(c.name)
	if len(p.Name) == 0 {
		return codec.Invalid(at.path("name"), "a tool_use block needs the name of the tool")
	}
	if p.CallID == nil {
		return codec.Invalid(at.path("id"), "a tool_use block needs an id")
	}
	if !scan.IsNull(c.input) && !scan.IsObject(c.input) {
		return codec.Invalid(at.path("input"), "input must be an object")
	}
	p.Arguments = present(c.input)
	return nil
}

// toolResult reads a result, including one without content (P78) and one without an id, which crossing pairs (P76).
func (d *requestDecoder) toolResult(p *codec.Part, c *content, at place) error {
	if at.nested {
		return codec.Invalid(at.path("type"), "a tool_result cannot hold another")
	}
	p.Kind, p.CallID = codec.PartToolResult, scan.Body(c.toolUseID)
	p.Failed = scan.IsTrue(c.isError)
	switch {
	case scan.IsString(c.content):
		p.Parts = append(d.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: scan.Body(c.content)})
		return nil
	case scan.IsArray(c.content):
		at.nested = true
		parts, err := d.parts(c.content, at)
		p.Parts = parts
		return err
	case !scan.IsNull(c.content):
		return codec.Invalid(at.path("content"), "content must be a string or an array of blocks")
	}
	return nil
}

// toolAddition reads a block that makes a tool available in mid-conversation: a reference to a declared one, or a new
// definition, which is added to the tools of the request.
func (d *requestDecoder) toolAddition(p *codec.Part, c *content, block []byte, at place) error {
	switch string(scan.Body(scan.Get(c.tool, "type"))) {
	case "tool_reference":
		p.Kind, p.Name = codec.PartToolRef, scan.Body(scan.Get(c.tool, "name"))
		return nil
	case "tool_definition":
		definition := scan.Get(c.tool, "definition")
		if !scan.IsObject(definition) {
			return codec.Invalid(at.path("tool.definition"), "a tool must be an object")
		}
		t, _, err := readTool(definition, 0, 0, at.path("tool.definition"), nil)
		if err != nil {
			return err
		}
		d.defined = append(d.defined, t)
		p.Kind, p.Name = codec.PartToolRef, scan.Body(scan.Get(definition, "name"))
		return nil
	}
	d.wire(p, c, block)
	return nil
}

// source reads the image or document in a block.
func (d *requestDecoder) source(p *codec.Part, kind codec.PartKind, c *content, at place) error {
	p.Kind, p.Origin = kind, codec.Messages
	p.Filename, p.Context = scan.Body(c.title), scan.Body(c.context)
	if !scan.IsObject(c.source) {
		return codec.Invalid(at.path("source"), "source must be an object")
	}
	var form, data, inner []byte
	for m := scan.Object(c.source); m.Next(); {
		switch string(m.Key) {
		case "type":
			form = scan.Body(m.Value)
		case "media_type":
			p.MediaType = scan.Body(m.Value)
		case "data":
			data = scan.Body(m.Value)
		case "url":
			p.URL = scan.Body(m.Value)
		case "file_id":
			p.FileID = scan.Body(m.Value)
		case "content":
			inner = m.Value
		}
	}
	switch string(form) {
	case "text":
		p.Text = data
	case "content":
		d.scratch = appendLines(d.scratch[:0], inner)
		p.MediaType = textPlain
		p.Text = d.r.CopyBytes(d.scratch)
	default:
		p.Data = data
	}
	if p.Text == nil && p.Data == nil && p.URL == nil && p.FileID == nil {
		return codec.Invalid(at.path("source"), "source holds no data, url, file or text")
	}
	return nil
}

var textPlain = []byte("text/plain")
