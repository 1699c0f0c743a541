package gemini

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// declared counts what a request offers.
type declared struct {
	functions int
	search    bool
}

// tools writes all functions into one entry, as the API requires, and the web search after it. Tools with restrictions
// that cannot be expressed here have already been removed.
func (w *writer) tools() declared {
	var out declared
	if len(w.r.Tools) == 0 {
		return out
	}
	before := len(w.dst)
	w.name("tools")
	w.write(`[{"functionDeclarations":[`)
	for i := range w.r.Tools {
		t := &w.r.Tools[i]
		switch t.Kind {
		case codec.ToolFunction:
			if w.offered(i) {
				w.function(t)
				out.functions++
			}
		case codec.ToolWebSearch:
			out.search = true
		default:
			w.r.Notes.Drop("tools." + wireName(t.WireType, "type"))
		}
	}
	if out.functions == 0 {
		w.dst = w.dst[:before]
		w.name("tools")
		w.write(`[`)
	} else {
		w.write(`]}`)
	}
	w.search(&out)
	if out.functions == 0 && !out.search {
		w.dst = w.dst[:before]
		return out
	}
	w.write(`]`)
	return out
}

// maxCompared bounds how many tools are compared by name; the API accepts 512.
const maxCompared = 1024

// offered excludes a second tool of the same name, which the API refuses, and tools that the client does not allow, in
// modes in which the API cannot express that.
func (w *writer) offered(i int) bool {
	name := w.r.Tools[i].Name
	for k := range w.r.Tools[:min(i, maxCompared)] {
		if t := &w.r.Tools[k]; t.Kind == codec.ToolFunction && bytes.Equal(t.Name, name) {
			return false
		}
	}
	choice := &w.r.ToolChoice
	if choice.Mode != codec.ChoiceAllowed || choice.AllowedRequired {
		return true
	}
	for k := range choice.Allowed[:min(len(choice.Allowed), maxCompared)] {
		if bytes.Equal(choice.Allowed[k].Name, name) {
			return true
		}
	}
	return false
}

func (w *writer) function(t *codec.Tool) {
	w.comma()
	w.write(`{`)
	w.string("name", t.Name)
	if len(t.Description) > 0 { // an empty one is refused
		w.string("description", t.Description)
	}
	if scan.IsObject(t.Schema) {
		if clean := w.schemas.Get(t.Schema); !clean.empty {
			w.raw("parametersJsonSchema", clean.schema)
		}
	}
	w.write(`}`)
	if t.Strict == codec.True {
		w.r.Notes.Drop("tools.strict")
	}
}

// search offers Google's search. Before the third generation it cannot be combined with functions; functions win.
func (w *writer) search(out *declared) {
	if !out.search {
		return
	}
	if out.functions > 0 && !w.thirdGeneration() {
		w.r.Notes.Drop("tools.web_search")
		out.search = false
		return
	}
	w.comma()
	w.write(`{"googleSearch":{}}`)
	for i := range w.r.Tools {
		if t := &w.r.Tools[i]; t.Kind == codec.ToolWebSearch {
			w.noteSearchOptions(t)
		}
	}
}

// noteSearchOptions notes the web search options that Google's search lacks.
func (w *writer) noteSearchOptions(t *codec.Tool) {
	for m := scan.Object(t.Raw); m.Next(); {
		switch key := string(m.Key); key {
		case "allowed_domains", "blocked_domains", "filters", "user_location", "max_uses", "search_context_size":
			if !scan.IsNull(m.Value) {
				w.r.Notes.Drop(t.Member() + "." + key)
			}
		}
	}
}

// toolConfig writes how free the model is. Without functions there is nothing to choose.
func (w *writer) toolConfig(tools declared) {
	choice := &w.r.ToolChoice
	if tools.functions == 0 {
		return
	}
	mode := ""
	switch choice.Mode {
	case codec.ChoiceNone:
		mode = "NONE"
	case codec.ChoiceRequired, codec.ChoiceTool:
		mode = "ANY"
	case codec.ChoiceAllowed:
		if choice.AllowedRequired {
			mode = "ANY"
		} else {
			w.r.Notes.Emulate("tool_choice")
		}
	case codec.ChoiceHosted:
		w.r.Notes.Drop("tool_choice")
	}
	if mode == "" && !tools.search {
		return // the default
	}
	w.name("toolConfig")
	w.write(`{`)
	if tools.search {
		// With a hosted tool, AUTO is refused; VALIDATED is the same with checked arguments.
		w.fixed("includeServerSideToolInvocations", "true")
		if mode == "" {
			mode = "VALIDATED"
		}
	}
	w.fixed("functionCallingConfig", `{"mode":"`)
	w.write(mode)
	w.write(`"`)
	w.allowedNames(mode)
	w.write(`}}`)
}

func (w *writer) allowedNames(mode string) {
	choice := &w.r.ToolChoice
	if mode != "ANY" || choice.Mode == codec.ChoiceRequired {
		return
	}
	w.name("allowedFunctionNames")
	w.write(`[`)
	if choice.Mode == codec.ChoiceTool {
		w.dst = scan.QuoteBody(w.dst, choice.Name)
	}
	for i := range choice.Allowed {
		w.comma()
		w.dst = scan.QuoteBody(w.dst, choice.Allowed[i].Name)
	}
	w.write(`]`)
}

// wireName returns the wire's name for a type if the client's format has one that is valid in a header.
func wireName(name []byte, otherwise string) string {
	if len(name) == 0 || len(name) > 64 {
		return otherwise
	}
	for _, c := range name {
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return otherwise
		}
	}
	return string(name)
}
