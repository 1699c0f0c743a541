package responses

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func (e *encoder) tools() {
	if len(e.r.Tools) == 0 {
		return
	}
	e.raw(`,"tools":[`)
	e.first = true
	tools := e.r.Tools
	for i := 0; i < len(tools); {
		if tools[i].Namespace == nil {
			e.tool(&tools[i])
			i++
			continue
		}
		n := i + 1
		for n < len(tools) && tools[n].Namespace != nil && bytes.Equal(tools[n].Namespace, tools[i].Namespace) {
			n++
		}
		e.namespace(tools[i:n])
		i = n
	}
	e.raw(`]`)
}

func (e *encoder) namespace(tools []codec.Tool) {
	e.comma()
	e.raw(`{"type":"namespace","name":`)
	e.body(tools[0].Namespace)
	e.raw(`,"description":`)
	e.body(tools[0].NamespaceDescription)
	e.raw(`,"tools":[`)
	e.first = true
	for i := range tools {
		e.tool(&tools[i])
	}
	e.raw(`]}`)
	e.first = false
}

// comma separates the elements of the current list.
func (e *encoder) comma() {
	if !e.first {
		e.raw(`,`)
	}
	e.first = false
}

func (e *encoder) tool(t *codec.Tool) {
	if t.CacheControl != nil {
		e.r.Notes.Drop("tools.cache_control")
	}
	switch t.Kind {
	case codec.ToolFunction:
		e.function(t)
	case codec.ToolCustom:
		e.customTool(t)
	case codec.ToolWebSearch:
		e.webSearch(t)
	default:
		if t.Origin != codec.Responses || t.Raw == nil {
			e.r.Notes.Drop("tools." + scan.Text(t.WireType))
			return
		}
		e.comma()
		e.dst = append(e.dst, t.Raw...)
	}
}

// function always writes the member strict: this format's default is strict, which rejects ordinary schemas (pitfall
// P90).
func (e *encoder) function(t *codec.Tool) {
	e.comma()
	e.raw(`{"type":"function","name":`)
	e.body(t.Name)
	e.stringMember(`,"description":`, t.Description)
	e.raw(`,"parameters":`)
	if scan.IsObject(t.Schema) {
		e.dst = append(e.dst, t.Schema...)
	} else {
		e.raw(`{"type":"object","properties":{}}`)
	}
	if t.Strict == codec.True {
		e.raw(`,"strict":true`)
	} else {
		e.raw(`,"strict":false`)
	}
	e.toolEnd(t)
}

func (e *encoder) customTool(t *codec.Tool) {
	e.comma()
	e.raw(`{"type":"custom","name":`)
	e.body(t.Name)
	e.stringMember(`,"description":`, t.Description)
	if inner := scan.Get(t.Grammar, "grammar"); scan.IsObject(inner) { // the shape of Chat Completions, one level deeper
		e.raw(`,"format":{"type":"grammar"`)
		e.rawMember(`,"syntax":`, scan.Get(inner, "syntax"))
		e.rawMember(`,"definition":`, scan.Get(inner, "definition"))
		e.raw(`}`)
	} else {
		e.rawMember(`,"format":`, t.Grammar)
	}
	e.toolEnd(t)
}

func (e *encoder) toolEnd(t *codec.Tool) {
	if t.Deferred {
		e.raw(`,"defer_loading":true`)
	}
	e.rawMember(`,"allowed_callers":`, t.AllowedCallers)
	e.raw(`}`)
}

// webSearch writes the tool unchanged, or another format's search tool with this format's members.
func (e *encoder) webSearch(t *codec.Tool) {
	e.comma()
	if t.Origin == codec.Responses && t.Raw != nil {
		e.dst = append(e.dst, t.Raw...)
		return
	}
	e.raw(`{"type":"web_search"`)
	for m := scan.Object(t.Raw); m.Next(); {
		switch string(m.Key) {
		case "allowed_domains":
			if scan.Count(m.Value) > 0 {
				e.raw(`,"filters":{"allowed_domains":`)
				e.dst = append(e.dst, m.Value...)
				e.raw(`}`)
			}
		case "blocked_domains", "max_uses":
			if !scan.IsNull(m.Value) {
				e.r.Notes.Drop(t.Member() + "." + string(m.Key))
			}
		case "search_context_size":
			e.rawMember(`,"search_context_size":`, m.Value)
		case "user_location":
			e.location(m.Value)
		}
	}
	e.raw(`}`)
}

// location writes the user's location; Chat Completions has its members one level deeper.
func (e *encoder) location(v []byte) {
	if inner := scan.Get(v, "approximate"); scan.IsObject(inner) {
		v = inner
	}
	if !scan.IsObject(v) {
		return
	}
	e.raw(`,"user_location":{"type":"approximate"`)
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "city", "country", "region", "timezone":
			e.raw(`,"`)
			e.dst = append(e.dst, m.Key...)
			e.rawMember(`":`, m.Value)
		}
	}
	e.raw(`}`)
}

// choice writes tool_choice, which providers refuse without tools.
func (e *encoder) choice() {
	c := &e.r.ToolChoice
	if len(e.r.Tools) == 0 {
		return
	}
	switch c.Mode {
	case codec.ChoiceAuto:
		e.raw(`,"tool_choice":"auto"`)
	case codec.ChoiceNone:
		e.raw(`,"tool_choice":"none"`)
	case codec.ChoiceRequired:
		e.raw(`,"tool_choice":"required"`)
	case codec.ChoiceTool:
		e.raw(`,"tool_choice":`)
		e.named(c.Name, c.Namespace)
	case codec.ChoiceAllowed:
		e.raw(`,"tool_choice":{"type":"allowed_tools","mode":"`)
		if c.AllowedRequired {
			e.raw(`required`)
		} else {
			e.raw(`auto`)
		}
		e.raw(`","tools":[`)
		e.first = true
		for i := range c.Allowed[:min(len(c.Allowed), maxCompared)] {
			e.comma()
			if t := &c.Allowed[i]; t.Origin == codec.Responses && t.Kind >= codec.ToolWebSearch {
				e.dst = append(e.dst, t.Raw...)
				continue
			}
			e.named(c.Allowed[i].Name, c.Allowed[i].Namespace)
		}
		e.raw(`]}`)
	case codec.ChoiceHosted:
		e.rawMember(`,"tool_choice":`, c.Raw)
	}
}

// maxCompared bounds how many tools are compared with a name, and how many a choice may allow; the API accepts 128.
const maxCompared = 1024

// named writes a reference to one tool, with the kind that it was declared with.
func (e *encoder) named(name, namespace []byte) {
	kind, wireType := codec.ToolFunction, []byte(nil)
	for i := range e.r.Tools[:min(len(e.r.Tools), maxCompared)] {
		if t := &e.r.Tools[i]; bytes.Equal(t.Name, name) && bytes.Equal(t.Namespace, namespace) {
			if kind, wireType = t.Kind, t.WireType; kind == codec.ToolWebSearch && t.Origin != codec.Responses {
				wireType = []byte("web_search") // as webSearch declares it
			}
			break
		}
	}
	switch kind {
	case codec.ToolFunction:
		e.raw(`{"type":"function","name":`)
	case codec.ToolCustom:
		e.raw(`{"type":"custom","name":`)
	default:
		e.raw(`{"type":`)
		e.body(wireType)
		e.raw(`}`)
		return
	}
	e.body(name)
	e.stringMember(`,"namespace":`, namespace)
	e.raw(`}`)
}
