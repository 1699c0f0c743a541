package crossing

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// toolStep adapts tools, and the calls of the history, to the target.
type toolStep struct {
	*adaptation
	flat       map[string]bool // names of tools outside any namespace
	references map[string]bool // names of tools referred to in the conversation; nil: not read yet
}

// offerAll makes every tool acceptable to the target (docs/wire/translation.md#2.4 and #2.5): deferred tools that
// nothing refers to are left out, free-text tools become functions of one string, namespaces become part of the name.
func (a *toolStep) offerAll() error {
	a.flat = make(map[string]bool, len(a.r.Tools))
	for i := range a.r.Tools {
		if t := &a.r.Tools[i]; t.Namespace == nil && len(t.Name) > 0 {
			a.flat[view(t.Name)] = true
		}
	}
	kept := 0
	offered := make(map[string]bool, len(a.r.Tools))
	for i := range a.r.Tools {
		tool := &a.r.Tools[i]
		ok, err := a.offer(tool)
		if err != nil {
			return err
		}
		name := view(tool.Name)
		if !ok || offered[name] && (tool.Kind == codec.ToolFunction || tool.Kind == codec.ToolWebSearch) {
			continue // the first of a name counts
		}
		offered[name] = true
		if kept < i {
			a.r.Tools[kept] = *tool
		}
		kept++
	}
	a.r.Tools = a.r.Tools[:kept]
	a.flattenCalls()
	if kept == 0 {
		a.declareStubs()
	}
	return nil
}

// offer rewrites one tool for the target and reports whether to declare it.
func (a *toolStep) offer(tool *codec.Tool) (bool, error) {
	if tool.Deferred && a.from.Client.DeferredTools && !a.referenced(tool.Name) {
		return false, nil // it becomes a tool when the conversation refers to it
	}
	tool.Deferred = false // the tool that searches for it belongs to its own provider
	if tool.AllowedCallers != nil && !lists(tool.AllowedCallers, "direct") {
		a.r.Notes.Drop(toolPath(tool) + ".allowed_callers")
		return false, nil
	}
	switch tool.Kind {
	case codec.ToolFunction:
		a.flatten(tool)
	case codec.ToolCustom:
		a.flatten(tool)
		if a.takes.CustomTools {
			return true, nil
		}
		a.wrapCustom(tool)
		a.r.Notes.Emulate(toolPath(tool) + ".type")
	case codec.ToolClientSide:
		if tool.Schema == nil { // its calls have their own shape, which no function call can replace
			return a.withhold(tool)
		}
		tool.Kind, tool.Raw = codec.ToolFunction, nil
		a.r.Notes.Emulate(toolPath(tool) + ".type")
	case codec.ToolWebSearch:
		if !a.takes.WebSearch {
			return a.withhold(tool)
		}
	default:
		return a.withhold(tool)
	}
	return true, nil
}

// withhold leaves out a tool that only its own provider runs. It is an error if the client insists on it, or it stands
// for tools that would vanish with it.
func (a *toolStep) withhold(tool *codec.Tool) (bool, error) {
	if string(tool.WireType) == "mcp_server" {
		return false, codec.Invalid("mcp_servers", "the tools of mcp_servers would be missing: %s cannot reach them", a.target.Provider)
	}
	if c := &a.r.ToolChoice; c.Mode == codec.ChoiceHosted || c.Mode == codec.ChoiceTool && bytes.Equal(c.Name, tool.Name) && len(tool.Name) > 0 {
		return false, codec.Invalid("tool_choice", "tool_choice asks for %s, which %s cannot run", tool.WireType, a.target.Provider)
	}
	a.r.Notes.Drop(toolPath(tool))
	return false, nil
}

// toolPath returns the client's path of a tool.
func toolPath(tool *codec.Tool) string {
	if tool.Index < 0 {
		return tool.Member()
	}
	return tool.Member() + "[" + itoa(tool.Index) + "]"
}

// referenced reports whether a reference in the conversation has made a deferred tool available.
func (a *toolStep) referenced(name []byte) bool {
	if a.references == nil {
		a.references = make(map[string]bool)
		for i := range a.r.Messages {
			a.readReferences(a.r.Messages[i].Parts)
		}
	}
	return a.references[string(name)]
}

func (a *toolStep) readReferences(parts []codec.Part) {
	for i := range parts {
		p := &parts[i]
		if p.Kind == codec.PartToolRef {
			a.references[view(p.Name)] = true
		}
		a.readReferences(p.Parts)
	}
}

// flatten makes the namespace part of the name. The two are split again when the model calls the tool.
func (a *toolStep) flatten(tool *codec.Tool) {
	if tool.Namespace == nil {
		return
	}
	flat := a.flatName(tool.Namespace, tool.Name)
	a.back.names.qualify(flat, tool.Namespace, tool.Name)
	tool.Name, tool.Namespace = flat, nil
}

// flatName joins a namespace and a name. A tool without a namespace keeps the joined name if it already has it.
func (a *toolStep) flatName(namespace, name []byte) []byte {
	flat := append(a.r.Alloc(len(namespace)+len(name)+2+1+hashLength), namespace...)
	flat = append(append(flat, "__"...), name...)
	if a.flat[string(flat)] {
		sum := sha256.Sum256(append(append(append([]byte{}, namespace...), 0), name...))
		flat = append(append(flat, '_'), base62(sum, hashLength)...)
	}
	return flat
}

// flattenCalls changes the calls of the history like the tools.
func (a *toolStep) flattenCalls() {
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if p.Namespace != nil {
				p.Name, p.Namespace = a.flatName(p.Namespace, p.Name), nil
			}
			if p.Kind == codec.PartCustomCall && !a.takes.CustomTools {
				a.wrapCall(p)
			}
		}
	}
	if c := &a.r.ToolChoice; c.Namespace != nil {
		c.Name, c.Namespace = a.flatName(c.Namespace, c.Name), nil
	}
	for i := range a.r.ToolChoice.Allowed {
		if t := &a.r.ToolChoice.Allowed[i]; t.Namespace != nil {
			t.Name, t.Namespace = a.flatName(t.Namespace, t.Name), nil
		}
	}
}

// customNote describes a free-text tool to a model that gets it as a function.
const customNote = `The argument \"input\" is raw text, not JSON.`

var customSchema = []byte(`{"type":"object","properties":{"input":{"type":"string","description":"The raw text of the call."}},"required":["input"],"additionalProperties":false}`)

// wrapCustom turns a free-text tool into a function with one string argument.
func (a *toolStep) wrapCustom(tool *codec.Tool) {
	a.back.wrapped[string(tool.Name)] = true
	definition := grammarText(tool.Grammar)
	text := a.r.Alloc(len(tool.Description) + len(customNote) + len(definition) + 32)
	if len(tool.Description) > 0 {
		text = append(append(text, tool.Description...), `\n\n`...)
	}
	text = append(text, customNote...)
	if len(definition) > 0 {
		text = append(append(text, ` It follows this grammar:\n`...), definition...)
	}
	tool.Kind, tool.Description, tool.Schema, tool.Grammar, tool.Raw = codec.ToolFunction, text, customSchema, nil, nil
}

// grammarText returns the definition in a custom tool's format, as a string body; both spellings of the format are
// read.
func grammarText(format []byte) []byte {
	if inner := scan.Get(format, "grammar"); scan.IsObject(inner) {
		format = inner
	}
	return scan.Body(scan.Get(format, "definition"))
}

// wrapCall turns a free-text call of the history into a call of the function that replaces its tool.
func (a *toolStep) wrapCall(p *codec.Part) {
	arguments := append(a.r.Alloc(len(p.Text)+12), `{"input":"`...)
	arguments = append(append(arguments, p.Text...), `"}`...)
	p.Kind, p.Arguments, p.ArgumentsEscaped, p.Text = codec.PartToolCall, arguments, false, nil
}

// declareStubs declares the tools of a history whose request declares none: Messages refuses tool blocks without tools.
func (a *toolStep) declareStubs() {
	if a.takes.UndeclaredCalls {
		return
	}
	known := make(map[string]bool)
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			if p.Kind != codec.PartToolCall || known[string(p.Name)] {
				continue
			}
			known[string(p.Name)] = true
			a.r.Tools = append(a.r.Tools, codec.Tool{Kind: codec.ToolFunction, Name: p.Name})
		}
	}
	if len(known) > 0 {
		a.r.ToolChoice = codec.ToolChoice{Mode: codec.ChoiceNone}
		a.r.Notes.Emulate("tools")
	}
}

// choose keeps the choice within the target's abilities (docs/wire/translation.md#2.6).
func (a *toolStep) choose() error {
	c := &a.r.ToolChoice
	if len(a.r.Tools) == 0 {
		*c = codec.ToolChoice{}
		return nil
	}
	if c.Mode == codec.ChoiceAllowed && !a.takes.AllowedTools {
		a.allowOnly(c)
	}
	if a.target.SearchModel && a.choosesSearch(c) { // it does so anyway
		*c = codec.ToolChoice{Mode: codec.ChoiceAuto}
		a.r.Notes.Emulate("tool_choice")
	}
	forced := c.Mode == codec.ChoiceTool || c.Mode == codec.ChoiceRequired
	if forced && !a.target.ForcedTools || !a.takes.ForcedSearch && a.choosesSearch(c) {
		*c = codec.ToolChoice{Mode: codec.ChoiceAuto}
		a.r.Notes.Drop("tool_choice")
	}
	return nil
}

// choosesSearch reports whether a choice forces the provider's web search.
func (a *toolStep) choosesSearch(c *codec.ToolChoice) bool {
	if c.Mode == codec.ChoiceHosted {
		return true // every other hosted tool has been refused
	}
	return c.Mode == codec.ChoiceTool && slices.ContainsFunc(a.r.Tools, func(t codec.Tool) bool {
		return t.Kind == codec.ToolWebSearch && bytes.Equal(t.Name, c.Name)
	})
}

// allowOnly sends only the allowed tools if the target has no list of allowed ones.
func (a *toolStep) allowOnly(c *codec.ToolChoice) {
	allowed := make(map[string]bool, len(c.Allowed))
	for i := range c.Allowed {
		allowed[view(c.Allowed[i].Name)] = true
	}
	kept := a.r.Tools[:0]
	for _, tool := range a.r.Tools {
		if allowed[string(tool.Name)] {
			kept = append(kept, tool)
		}
	}
	a.r.Tools = kept
	mode := codec.ChoiceAuto
	if c.AllowedRequired {
		mode = codec.ChoiceRequired
	}
	*c = codec.ToolChoice{Mode: mode}
	a.r.Notes.Emulate("tool_choice")
}

// lists reports whether a raw array holds that string.
func lists(array []byte, text string) bool {
	for e := scan.Array(array); e.Next(); {
		if string(scan.Body(e.Value)) == text {
			return true
		}
	}
	return false
}
