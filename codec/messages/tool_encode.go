package messages

import (
	"bytes"
	"fmt"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// tools writes the tools, the servers that tools come from, and the choice among them.
func (e *requestEncoder) tools() error {
	if err := e.toolList(); err != nil {
		return err
	}
	if e.listed {
		e.raw("]")
		e.toolChoice()
	}
	e.servers()
	return nil
}

// toolList writes the list of tools, without closing it; it omits the member if there are none.
func (e *requestEncoder) toolList() error {
	e.listed = false
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if !e.offered(t) {
			continue
		}
		if !e.listed {
			e.member("tools")
			e.raw("[")
		}
		if err := e.tool(t); err != nil {
			return err
		}
	}
	return nil
}

// offered reports whether a tool can be written. A choice that allows only some tools is honored by omitting the
// others, because the format has no member for it.
func (e *requestEncoder) offered(t *codec.Tool) bool {
	if e.r.ToolChoice.Mode == codec.ChoiceAllowed && !allowed(&e.r.ToolChoice, t) {
		e.r.Notes.Emulate("tool_choice.allowed_tools")
		return false
	}
	switch {
	case t.Kind == codec.ToolFunction:
		return true
	case t.Origin == codec.Messages:
		return !bytes.Equal(t.WireType, mcpServer)
	case t.Kind == codec.ToolWebSearch:
		return true
	}
	e.r.Notes.Drop("tools." + plainName(t.WireType))
	return false
}

func allowed(choice *codec.ToolChoice, t *codec.Tool) bool {
	for i := range choice.Allowed {
		if a := &choice.Allowed[i]; bytes.Equal(a.Name, t.Name) && bytes.Equal(a.Namespace, t.Namespace) {
			return true
		}
	}
	return false
}

func (e *requestEncoder) tool(t *codec.Tool) error {
	e.element()
	switch {
	case t.Kind != codec.ToolFunction && t.Origin == codec.Messages:
		e.bytes(t.Raw)
		return nil
	case t.Kind == codec.ToolWebSearch:
		e.webSearch(t)
		return nil
	}
	return e.function(t)
}

func (e *requestEncoder) function(t *codec.Tool) error {
	e.raw(`{"name":`)
	e.body(t.Name)
	if len(t.Description) > 0 {
		e.member("description")
		e.body(t.Description)
	}
	e.member("input_schema")
	var ok bool
	if e.dst, ok = appendInputSchema(e.dst, t.Schema); !ok {
		return codec.Invalid(fmt.Sprintf("tools[%d]", t.Index), "the schema of a tool's arguments must describe an object")
	}
	if t.Strict == codec.True {
		if e.t.StructuredOutput {
			e.member("strict")
			e.raw("true")
		} else {
			e.r.Notes.Drop("tools.strict")
		}
	}
	if t.Deferred {
		e.member("defer_loading")
		e.raw("true")
	}
	if t.AllowedCallers != nil && t.Origin == codec.Messages {
		e.member("allowed_callers")
		e.bytes(t.AllowedCallers)
	}
	e.toolEnd(t)
	return nil
}

func (e *requestEncoder) toolEnd(t *codec.Tool) {
	if t.CacheControl != nil {
		e.member("cache_control")
		e.bytes(t.CacheControl)
	}
	e.raw("}")
}

// webSearch writes the search tool for another format's: its domains, and the user's location. The size of the search
// context has no counterpart.
func (e *requestEncoder) webSearch(t *codec.Tool) {
	e.raw(`{"type":"web_search_20250305","name":"web_search"`)
	if domains := scan.Path(t.Raw, "filters", "allowed_domains"); scan.Count(domains) > 0 {
		e.member("allowed_domains")
		e.bytes(domains)
	}
	if size := scan.Get(t.Raw, "search_context_size"); scan.IsString(size) {
		e.r.Notes.Drop(t.Member() + ".search_context_size")
	}
	location := scan.Get(t.Raw, "user_location")
	if inner := scan.Get(location, "approximate"); scan.IsObject(inner) { // chat has it one level deeper
		location = inner
	}
	if scan.IsObject(location) {
		e.member("user_location")
		e.raw(`{"type":"approximate"`)
		for m := scan.Object(location); m.Next(); {
			switch string(m.Key) {
			case "city", "region", "country", "timezone":
				if scan.IsString(m.Value) {
					e.member(string(m.Key))
					e.bytes(m.Value)
				}
			}
		}
		e.raw("}")
	}
	e.toolEnd(t)
}

// toolChoice writes the choice. It contains the switch for parallel calls, so that switch requires a choice even if the
// client sent none.
func (e *requestEncoder) toolChoice() {
	mode, name := e.choice()
	single := e.r.ParallelTools == codec.False && mode != "none"
	if mode == "" {
		if !single {
			return
		}
		mode = "auto"
	}
	e.member("tool_choice")
	e.raw(`{"type":"`)
	e.raw(mode)
	e.raw(`"`)
	if mode == "tool" {
		e.member("name")
		e.body(name)
	}
	if single {
		e.member("disable_parallel_tool_use")
		e.raw("true")
	}
	e.raw("}")
}

// choice returns the mode of the choice, and the tool that it names. A model that accepts no forced choice gets none.
func (e *requestEncoder) choice() (mode string, name []byte) {
	choice := &e.r.ToolChoice
	switch choice.Mode {
	case codec.ChoiceUnset:
		return "", nil
	case codec.ChoiceNone:
		return "none", nil
	}
	if !e.forced() {
		if choice.Mode != codec.ChoiceAuto && (choice.Mode != codec.ChoiceAllowed || choice.AllowedRequired) {
			e.r.Notes.Drop("tool_choice")
		}
		return "auto", nil
	}
	switch choice.Mode {
	case codec.ChoiceTool:
		return "tool", choice.Name
	case codec.ChoiceHosted:
		for i := range e.r.Tools {
			if e.r.Tools[i].Kind == codec.ToolWebSearch {
				return "tool", webSearchName
			}
		}
		e.r.Notes.Drop("tool_choice")
		return "auto", nil
	}
	return "any", nil
}

var webSearchName = []byte("web_search")

// servers writes the servers whose tools the provider fetches, if the client named some in this format.
func (e *requestEncoder) servers() {
	e.listed = false
	for i := range e.r.Tools {
		t := &e.r.Tools[i]
		if t.Origin != codec.Messages || !bytes.Equal(t.WireType, mcpServer) {
			continue
		}
		if !e.listed {
			e.member("mcp_servers")
			e.raw("[")
		}
		e.element()
		e.bytes(t.Raw)
	}
	if e.listed {
		e.raw("]")
	}
}
