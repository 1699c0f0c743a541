package chat

import (
	"bytes"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// tools writes tools, and tool_choice and the switch for parallel calls, which are refused without tools.
func (w *requestWriter) tools(dst []byte) []byte {
	n := 0
	for i := range w.r.Tools {
		if w.repeated(i) {
			w.r.Notes.Drop("tools.name")
			continue
		}
		at := len(dst)
		if n == 0 {
			dst = append(dst, `,"tools":[`...)
		} else {
			dst = append(dst, ',')
		}
		before := len(dst)
		if dst = w.tool(dst, &w.r.Tools[i]); len(dst) == before {
			dst = dst[:at]
			continue
		}
		n++
	}
	if n > 0 {
		dst = append(dst, ']')
		dst = w.choice(dst)
		dst = w.boolean(dst, w.d.ParallelMember, "parallel_tool_calls", w.r.ParallelTools, w.d.ParallelMember != "")
	}
	return w.webSearch(dst)
}

// maxCompared bounds how many tools are compared by name; the API takes 128.
const maxCompared = 1024

// repeated reports whether an earlier tool has the name of the i-th: the API refuses duplicate names, so the first is
// kept (P93).
func (w *requestWriter) repeated(i int) bool {
	name := w.r.Tools[i].Name
	if len(name) == 0 || i > maxCompared {
		return false
	}
	for j := range w.r.Tools[:i] {
		if bytes.Equal(w.r.Tools[j].Name, name) {
			return true
		}
	}
	return false
}

// tool writes one tool, or nothing if the target has no equivalent.
func (w *requestWriter) tool(dst []byte, t *codec.Tool) []byte {
	switch {
	case t.Kind == codec.ToolFunction:
		return w.function(dst, t)
	case t.Kind == codec.ToolCustom && w.d.CustomTools:
		return appendCustom(dst, t)
	case t.Kind == codec.ToolWebSearch && w.t.SearchModel: // a separate member: see webSearch
	case t.Kind == codec.ToolHosted && t.Origin == codec.Chat && w.openAI():
		return append(dst, t.Raw...)
	default:
		w.drop("tools.", t.WireType)
	}
	return dst
}

func (w *requestWriter) function(dst []byte, t *codec.Tool) []byte {
	dst = append(dst, `{"type":"function","function":{"name":`...)
	dst = scan.QuoteBody(dst, t.Name)
	if len(t.Description) > 0 {
		dst = append(dst, `,"description":`...)
		dst = scan.QuoteBody(dst, t.Description)
	}
	dst = append(dst, `,"parameters":`...)
	if t.Schema == nil {
		dst = append(dst, `{"type":"object","properties":{}}`...)
	} else {
		dst = append(dst, t.Schema...)
	}
	if t.Strict != codec.Unset && w.d.Name != dialectDeepSeek {
		dst = append(dst, `,"strict":`...)
		dst = strconv.AppendBool(dst, t.Strict == codec.True)
	}
	dst = append(dst, '}')
	return append(w.cache(dst, t.CacheControl), '}')
}

// cache writes a breakpoint if the host passes it on to a model that honors it.
// mark writes a breakpoint of the prompt cache in the member that the host knows.
func (w *requestWriter) mark(dst []byte, p *codec.Part) []byte {
	if p.Breakpoint != nil && w.d.Store {
		return append(append(dst, `,"prompt_cache_breakpoint":`...), p.Breakpoint...)
	}
	return w.cache(dst, p.CacheControl)
}

func (w *requestWriter) cache(dst, control []byte) []byte {
	if control == nil || w.t.Family != codec.FamilyAnthropic {
		return dst
	}
	return append(append(dst, `,"cache_control":`...), control...)
}

func appendCustom(dst []byte, t *codec.Tool) []byte {
	dst = append(dst, `{"type":"custom","custom":{"name":`...)
	dst = scan.QuoteBody(dst, t.Name)
	if len(t.Description) > 0 {
		dst = append(dst, `,"description":`...)
		dst = scan.QuoteBody(dst, t.Description)
	}
	if t.Grammar != nil {
		dst = append(dst, `,"format":`...)
		dst = appendGrammar(dst, t.Grammar)
	}
	return append(dst, `}}`...)
}

// appendGrammar writes the format of a custom tool. This API nests the grammar, Responses has it flat.
func appendGrammar(dst, format []byte) []byte {
	if string(scan.Body(scan.Get(format, "type"))) != "grammar" || scan.Get(format, "grammar") != nil {
		return append(dst, format...)
	}
	dst = append(dst, `{"type":"grammar","grammar":{`...)
	first := true
	for m := scan.Object(format); m.Next(); {
		if string(m.Key) == "type" {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, format[m.Start:m.End]...)
	}
	return append(dst, `}}`...)
}

// webSearch writes web_search_options, the form for search models. The first of several searches counts.
func (w *requestWriter) webSearch(dst []byte) []byte {
	if !w.t.SearchModel {
		return dst
	}
	for i := range w.r.Tools {
		if t := &w.r.Tools[i]; t.Kind == codec.ToolWebSearch {
			return w.searchOptions(append(dst, `,"web_search_options":`...), t)
		}
	}
	return dst
}

// searchOptions converts what the web search tools of other formats share with the options, the context size and the
// user's location, and notes the rest. The location is flat there and nested here.
func (w *requestWriter) searchOptions(dst []byte, t *codec.Tool) []byte {
	dst = append(dst, '{')
	begun := len(dst)
	for m := scan.Object(t.Raw); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		switch key := string(m.Key); key {
		case "search_context_size":
			dst = separate(dst, begun)
			dst = append(append(dst, `"search_context_size":`...), m.Value...)
		case "user_location":
			dst = separate(dst, begun)
			dst = appendLocation(append(dst, `"user_location":`...), m.Value)
		case "filters", "allowed_domains", "blocked_domains", "max_uses":
			w.r.Notes.Drop(t.Member() + "." + key)
		}
	}
	return append(dst, '}')
}

// separate writes the comma between the members of an object that began at begun.
func separate(dst []byte, begun int) []byte {
	if len(dst) > begun {
		return append(dst, ',')
	}
	return dst
}

func appendLocation(dst, location []byte) []byte {
	dst = append(dst, `{"type":"approximate","approximate":{`...)
	begun := len(dst)
	for m := scan.Object(location); m.Next(); {
		switch string(m.Key) {
		case "city", "region", "country", "timezone":
			if scan.IsString(m.Value) {
				dst = append(separate(dst, begun), location[m.Start:m.End]...)
			}
		}
	}
	return append(dst, `}}`...)
}

func (w *requestWriter) choice(dst []byte) []byte {
	c := &w.r.ToolChoice
	switch c.Mode {
	case codec.ChoiceAuto:
		return append(dst, `,"tool_choice":"auto"`...)
	case codec.ChoiceNone:
		return append(dst, `,"tool_choice":"none"`...)
	case codec.ChoiceRequired:
		return w.required(dst)
	case codec.ChoiceTool:
		return append(w.named(append(dst, `,"tool_choice":`...), c.Name, w.kindOf(c.Name)), '}')
	case codec.ChoiceAllowed:
		return w.allowed(dst)
	case codec.ChoiceHosted:
		w.r.Notes.Drop("tool_choice")
	}
	return dst
}

func (w *requestWriter) required(dst []byte) []byte {
	word := w.d.RequiredWord
	if word == "" {
		word = "required"
	}
	return append(append(append(dst, `,"tool_choice":"`...), word...), '"')
}

// named writes a choice of one tool, without its closing brace.
func (w *requestWriter) named(dst, name []byte, kind codec.ToolKind) []byte {
	if kind == codec.ToolCustom && w.d.CustomTools {
		dst = append(dst, `{"type":"custom","custom":{"name":`...)
	} else {
		dst = append(dst, `{"type":"function","function":{"name":`...)
	}
	return append(scan.QuoteBody(dst, name), '}')
}

func (w *requestWriter) kindOf(name []byte) codec.ToolKind {
	for i := range w.r.Tools[:min(len(w.r.Tools), maxCompared)] {
		if bytes.Equal(w.r.Tools[i].Name, name) {
			return w.r.Tools[i].Kind
		}
	}
	return codec.ToolFunction
}

// allowed writes a choice among some tools. A host that does not know the form gets only the mode.
func (w *requestWriter) allowed(dst []byte) []byte {
	c := &w.r.ToolChoice
	if !w.openAI() {
		w.r.Notes.Drop("tool_choice.allowed_tools")
		if c.AllowedRequired {
			return w.required(dst)
		}
		return append(dst, `,"tool_choice":"auto"`...)
	}
	dst = append(dst, `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"`...)
	if c.AllowedRequired {
		dst = append(dst, "required"...)
	} else {
		dst = append(dst, "auto"...)
	}
	dst = append(dst, `","tools":[`...)
	for i := range c.Allowed[:min(len(c.Allowed), maxCompared)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		name := c.Allowed[i].Name
		dst = append(w.named(dst, name, w.kindOf(name)), '}')
	}
	return append(dst, `]}}`...)
}
