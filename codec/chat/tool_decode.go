package chat

import (
	"fmt"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// wireLegacy is the WireType of tools in the old member functions; their client expects function_call in the answer.
const wireLegacy = "functions"

func (d *requestDecoder) tool(v []byte) error {
	index := d.tools
	d.tools++
	t := codec.Tool{Raw: v, Origin: codec.Chat, Index: index}
	var definition []byte // the member named after the type
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			t.WireType = scan.Body(m.Value)
		case "function", "custom":
			definition = m.Value
		case "cache_control":
			t.CacheControl = breakpoint(m.Value)
		}
	}
	if definition == nil {
		definition = v // flat, as in Responses: some editors send both shapes here
	}
	switch string(t.WireType) {
	case "function":
		t.Kind = codec.ToolFunction
	case "custom":
		t.Kind = codec.ToolCustom
	case "web_search", "web_search_preview":
		t.Kind = codec.ToolWebSearch
	case "":
		return codec.Invalid(fmt.Sprintf("tools[%d].type", index), "a tool needs a type")
	default:
		t.Kind = codec.ToolHosted
	}
	if t.Kind == codec.ToolFunction || t.Kind == codec.ToolCustom {
		readDefinition(&t, definition)
		if len(t.Name) == 0 {
			return codec.Invalid(fmt.Sprintf("tools[%d].%s.name", index, t.WireType), "a tool needs a name")
		}
	}
	d.r.Tools = append(d.r.Tools, t)
	return nil
}

func readDefinition(t *codec.Tool, v []byte) {
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "name":
			t.Name = scan.Body(m.Value)
		case "description":
			t.Description = scan.Body(m.Value)
		case "parameters":
			if !scan.IsNull(m.Value) {
				t.Schema = m.Value
			}
		case "strict":
			t.Strict = codec.ParseTristate(m.Value)
		case "format":
			if !scan.IsNull(m.Value) {
				t.Grammar = m.Value
			}
		case "cache_control":
			t.CacheControl = breakpoint(m.Value)
		}
	}
}

func (d *requestDecoder) legacyTools(v []byte) error {
	if !scan.IsArray(v) {
		return codec.Invalid("functions", "functions must be an array")
	}
	index := 0
	for e := scan.Array(v); e.Next(); index++ {
		t := codec.Tool{
			Kind: codec.ToolFunction, WireType: []byte(wireLegacy), Raw: e.Value, Origin: codec.Chat, Index: index,
		}
		readDefinition(&t, e.Value)
		if len(t.Name) == 0 {
			return codec.Invalid(fmt.Sprintf("functions[%d].name", index), "a function needs a name")
		}
		d.r.Tools = append(d.r.Tools, t)
	}
	return nil
}

func (d *requestDecoder) toolChoice(v []byte) error {
	choice := &d.r.ToolChoice
	if body := scan.Body(v); body != nil {
		switch string(body) {
		case "auto":
			choice.Mode = codec.ChoiceAuto
		case "none":
			choice.Mode = codec.ChoiceNone
		case "required", "any":
			choice.Mode = codec.ChoiceRequired
		default:
			return codec.Invalid("tool_choice", "tool_choice must be none, auto, required or an object")
		}
		return nil
	}
	if !scan.IsObject(v) {
		return codec.Invalid("tool_choice", "tool_choice must be none, auto, required or an object")
	}
	kind := scan.Body(scan.Get(v, "type"))
	switch string(kind) {
	case "function", "custom":
		choice.Mode = codec.ChoiceTool
		if choice.Name = toolName(v, kind); len(choice.Name) == 0 {
			return codec.Invalid("tool_choice."+string(kind)+".name", "tool_choice names no tool")
		}
	case "allowed_tools":
		d.allowedTools(v)
	case "auto", "none", "required", "any": // a word as an object: a common mistake of Messages clients
		return d.toolChoice(scan.Get(v, "type"))
	default:
		choice.Mode, choice.Raw = codec.ChoiceHosted, v
	}
	return nil
}

// toolName returns the name in {"type":"function","function":{"name":…}} or in its flat form.
func toolName(v, kind []byte) []byte {
	if name := scan.Body(scan.Path(v, string(kind), "name")); name != nil {
		return name
	}
	return scan.Body(scan.Get(v, "name"))
}

func (d *requestDecoder) allowedTools(v []byte) {
	choice := &d.r.ToolChoice
	choice.Mode = codec.ChoiceAllowed
	if nested := scan.Get(v, "allowed_tools"); nested != nil {
		v = nested
	}
	choice.AllowedRequired = string(scan.Body(scan.Get(v, "mode"))) == "required"
	index := 0
	for e := scan.Array(scan.Get(v, "tools")); e.Next(); index++ {
		kind := scan.Body(scan.Get(e.Value, "type"))
		t := codec.Tool{
			Kind: codec.ToolFunction, Name: toolName(e.Value, kind), WireType: kind, Raw: e.Value, Origin: codec.Chat, Index: index,
		}
		if string(kind) == "custom" {
			t.Kind = codec.ToolCustom
		}
		choice.Allowed = append(choice.Allowed, t)
	}
}

// legacyChoice reads the old member function_call.
func (d *requestDecoder) legacyChoice(v []byte) error {
	if scan.IsObject(v) {
		d.r.ToolChoice = codec.ToolChoice{Mode: codec.ChoiceTool, Name: scan.Body(scan.Get(v, "name"))}
		return nil
	}
	switch string(scan.Body(v)) {
	case "auto":
		d.r.ToolChoice.Mode = codec.ChoiceAuto
	case "none":
		d.r.ToolChoice.Mode = codec.ChoiceNone
	default:
		return codec.Invalid("function_call", "function_call must be none, auto or an object that names a function")
	}
	return nil
}

// breakpoint returns a cache_control object unchanged.
func breakpoint(v []byte) []byte {
	if !scan.IsObject(v) {
		return nil
	}
	return v
}
