package chat

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// message holds the members of one message; views are nil if a member is absent.
type message struct {
	role, content, name, refusal, callID, calls, function, cache, extra []byte
	reasoning                                                           reasoning
}

func readMessage(v []byte) (m message) {
	for s := scan.Object(v); s.Next(); {
		switch string(s.Key) {
		case "role":
			m.role = scan.Body(s.Value)
		case "content":
			m.content = s.Value
		case "name":
			m.name = scan.Body(s.Value)
		case "refusal":
			m.refusal = scan.Body(s.Value)
		case "tool_call_id":
			m.callID = scan.Body(s.Value)
		case "tool_calls":
			m.calls = s.Value
		case "function_call":
			m.function = s.Value
		case "cache_control":
			m.cache = breakpoint(s.Value)
		case "extra_content":
			m.extra = s.Value
		case "reasoning_content":
			m.reasoning.content = scan.Body(s.Value)
		case "reasoning":
			m.reasoning.plain = scan.Body(s.Value)
		case "thinking_blocks":
			m.reasoning.blocks = s.Value
		case "reasoning_details":
			m.reasoning.details = s.Value
		}
	}
	return m
}

// beginMessages starts the list. If the member occurs twice, the last one counts.
func (d *requestDecoder) beginMessages() {
	d.seen, d.index, d.functions = true, 0, 0
	d.results = d.results[:0]
	d.r.Messages = d.r.Messages[:0]
}

func (d *requestDecoder) message(v []byte) error {
	index := d.index
	d.index++
	if !scan.IsObject(v) {
		return codec.Invalid(fmt.Sprintf("messages[%d]", index), "a message must be an object")
	}
	m := readMessage(v)
	d.parts = d.parts[:0]
	if string(m.role) == "tool" || string(m.role) == "function" {
		return d.result(&m, index)
	}
	d.endResults()
	out := codec.Message{Name: m.name, Index: index}
	switch string(m.role) {
	case "system":
		out.Role = codec.RoleSystem
	case "developer":
		out.Role = codec.RoleDeveloper
	case "user":
		out.Role = codec.RoleUser
	case "assistant":
		out.Role = codec.RoleAssistant
		d.readReasoning(&m)
	default:
		return codec.Invalid(fmt.Sprintf("messages[%d].role", index),
			"the role must be system, developer, user, assistant or tool")
	}
	if err := d.content(m.content, index); err != nil {
		return err
	}
	if m.cache != nil && len(d.parts) > 0 {
		d.parts[len(d.parts)-1].CacheControl = m.cache
	}
	if out.Role == codec.RoleAssistant {
		if err := d.assistant(&m, index); err != nil {
			return err
		}
	}
	out.Parts = append(d.r.NewParts(len(d.parts)), d.parts...)
	d.r.Messages = append(d.r.Messages, out)
	return nil
}

// assistant adds the parts that only assistant messages have, after the content.
func (d *requestDecoder) assistant(m *message, index int) error {
	if signature := thoughtSignature(m.extra); len(signature) > 0 {
		d.signText(signature)
	}
	if len(m.refusal) > 0 {
		d.parts = append(d.parts, codec.Part{Kind: codec.PartRefusal, Text: m.refusal})
	}
	calls := len(d.parts)
	if !scan.IsNull(m.calls) && !scan.IsArray(m.calls) {
		return codec.Invalid(fmt.Sprintf("messages[%d].tool_calls", index), "tool_calls must be an array")
	}
	for e := scan.Array(m.calls); e.Next(); {
		d.parts = append(d.parts, readCall(e.Value))
	}
	if scan.IsObject(m.function) {
		d.functions++
		p := codec.Part{Kind: codec.PartToolCall, CallID: d.legacyID(), ArgumentsEscaped: true}
		readCallFunction(&p, m.function)
		d.parts = append(d.parts, p)
	}
	d.signCalls(m.reasoning.details, d.parts[calls:])
	return nil
}

// legacyID returns the id of the latest legacy call: the format had none, but a call and its result must share one.
func (d *requestDecoder) legacyID() []byte {
	d.r.NumberedCalls = true
	return strconv.AppendInt(append(d.r.Alloc(len("call_fn_")+20), "call_fn_"...), int64(d.functions), 10)
}

// signText attaches a thought signature to the last text of the message.
func (d *requestDecoder) signText(signature []byte) {
	for i := len(d.parts) - 1; i >= 0; i-- {
		if p := &d.parts[i]; p.Kind == codec.PartText {
			p.Signature, p.Family = signature, codec.FamilyGoogle
			return
		}
	}
	d.parts = append(d.parts, codec.Part{Kind: codec.PartReasoning, Signature: signature, Family: codec.FamilyGoogle})
}

// maxSigned bounds how many details are matched to calls.
const maxSigned = 512

// signCalls adds to calls the state that OpenRouter keeps in reasoning_details for Google's models.
func (d *requestDecoder) signCalls(details []byte, calls []codec.Part) {
	seen := 0
	for e := scan.Array(details); e.Next() && seen < maxSigned; seen++ {
		t := readReasoningDetail(e.Value)
		if t.family != codec.FamilyGoogle || len(t.data) == 0 {
			continue
		}
		for i := range calls {
			if c := &calls[i]; len(t.id) > 0 && bytes.Equal(c.CallID, t.id) && c.Signature == nil {
				c.Signature, c.Family = t.data, codec.FamilyGoogle
			}
		}
	}
}

func readCall(v []byte) codec.Part {
	p := codec.Part{Kind: codec.PartOpaque, Raw: v, Origin: codec.Chat}
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "id":
			p.CallID = scan.Body(m.Value)
		case "type":
			p.WireType = scan.Body(m.Value)
		case "function":
			p.Kind, p.ArgumentsEscaped = codec.PartToolCall, true
			readCallFunction(&p, m.Value)
		case "custom":
			p.Kind = codec.PartCustomCall
			p.Name = scan.Body(scan.Get(m.Value, "name"))
			p.Text = scan.Body(scan.Get(m.Value, "input"))
		case "extra_content":
			if signature := thoughtSignature(m.Value); len(signature) > 0 {
				p.Signature, p.Family = signature, codec.FamilyGoogle
			}
		}
	}
	return p
}

// readCallFunction reads name and arguments. Arguments are a string that holds JSON; some clients send the object.
func readCallFunction(p *codec.Part, v []byte) {
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "name":
			p.Name = scan.Body(m.Value)
		case "arguments":
			p.Arguments = scan.Body(m.Value)
			if scan.IsObject(m.Value) {
				p.Arguments, p.ArgumentsEscaped = m.Value, false
			}
		}
	}
}

// readReasoning adds the reasoning of an assistant message. As in answers, structured members are preferred, because
// they pair texts with signatures. If they have no text, the string is the text of the first of them.
func (d *requestDecoder) readReasoning(m *message) {
	r := &m.reasoning
	switch {
	case r.blocks != nil:
		for e := scan.Array(r.blocks); e.Next(); {
			b := readThinkingBlock(e.Value)
			p := codec.Part{Kind: codec.PartReasoning, Text: b.text, Signature: b.signature, Family: codec.FamilyAnthropic}
			if b.redacted {
				p.Kind = codec.PartRedacted
			}
			if len(p.Signature) == 0 {
				p.Family = codec.FamilyOther
			}
			d.parts = append(d.parts, p)
		}
	case r.details != nil:
		d.readDetails(r.details)
	}
	text := r.text()
	if len(text) == 0 || r.structuredText() {
		return
	}
	for i := range d.parts {
		if p := &d.parts[i]; p.Kind == codec.PartReasoning {
			p.Text = text
			return
		}
	}
	d.parts = append(d.parts, codec.Part{Kind: codec.PartReasoning, Text: text})
}

func (d *requestDecoder) readDetails(list []byte) {
	for e := scan.Array(list); e.Next(); {
		t := readReasoningDetail(e.Value)
		switch {
		case string(t.kind) == "reasoning.encrypted" && t.family == codec.FamilyOpenAI:
			d.sealSummary(t.data)
		case string(t.kind) == "reasoning.encrypted" && t.family == codec.FamilyGoogle: // belongs to a call
		case string(t.kind) == "reasoning.encrypted":
			d.parts = append(d.parts, codec.Part{Kind: codec.PartRedacted, Signature: t.data, Family: t.family})
		case len(t.summary) > 0:
			d.parts = append(d.parts, codec.Part{Kind: codec.PartReasoning, Text: t.summary, Summary: true, Family: t.family})
		case len(t.text)+len(t.signature) > 0:
			d.parts = append(d.parts, codec.Part{
				Kind: codec.PartReasoning, Text: t.text, Signature: t.signature, Family: t.family,
			})
		}
	}
}

// sealSummary pairs OpenAI's encrypted reasoning with the preceding summary.
func (d *requestDecoder) sealSummary(data []byte) {
	if n := len(d.parts); n > 0 && d.parts[n-1].Summary && d.parts[n-1].Signature == nil {
		d.parts[n-1].Signature, d.parts[n-1].Family = data, codec.FamilyOpenAI
		return
	}
	d.parts = append(d.parts, codec.Part{Kind: codec.PartReasoning, Signature: data, Family: codec.FamilyOpenAI})
}

// result adds a tool result to the current run: the results of one turn are one message.
func (d *requestDecoder) result(m *message, index int) error {
	if len(d.results) == 0 {
		d.first = index
	}
	if err := d.resultContent(m.content, index); err != nil {
		return err
	}
	p := codec.Part{Kind: codec.PartToolResult, CallID: m.callID, Name: m.name, CacheControl: m.cache}
	if string(m.role) == "function" {
		p.CallID = d.legacyID()
	}
	p.Parts = append(d.r.NewParts(len(d.parts)), d.parts...)
	d.results = append(d.results, p)
	return nil
}

func (d *requestDecoder) endResults() {
	if len(d.results) == 0 {
		return
	}
	d.r.Messages = append(d.r.Messages, codec.Message{
		Role: codec.RoleTool, Index: d.first, Parts: append(d.r.NewParts(len(d.results)), d.results...),
	})
	d.results = d.results[:0]
}

// resultContent accepts any JSON value for a result: anything except text and parts is passed on as its JSON text
// (P77).
func (d *requestDecoder) resultContent(v []byte, index int) error {
	if scan.IsNull(v) || scan.IsString(v) || scan.IsArray(v) && partsOnly(v) {
		return d.content(v, index)
	}
	body := scan.Escape(d.r.Alloc(len(v)+len(v)/4), v)
	d.parts = append(d.parts, codec.Part{Kind: codec.PartText, Text: body})
	return nil
}

// partsOnly reports whether a list holds content parts, as opposed to being the result itself.
func partsOnly(v []byte) bool {
	for e := scan.Array(v); e.Next(); {
		if !scan.IsString(scan.Get(e.Value, "type")) {
			return false
		}
	}
	return true
}

// content adds the parts of a content member to d.parts.
func (d *requestDecoder) content(v []byte, index int) error {
	switch {
	case scan.IsNull(v):
		return nil
	case scan.IsString(v):
		d.parts = append(d.parts, codec.Part{Kind: codec.PartText, Text: scan.Body(v)})
		return nil
	case !scan.IsArray(v):
		return codec.Invalid(fmt.Sprintf("messages[%d].content", index), "content must be a string or an array of parts")
	}
	position := 0
	for e := scan.Array(v); e.Next(); position++ {
		if !scan.IsObject(e.Value) {
			return codec.Invalid(fmt.Sprintf("messages[%d].content[%d]", index, position), "a content part must be an object")
		}
		d.parts = append(d.parts, d.part(e.Value))
	}
	return nil
}
