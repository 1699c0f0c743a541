package responses

import (
	"fmt"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// usualTool is the typical length of a declaration in bytes, to allocate without reading the list twice.
const usualTool = 1 << 10

// tools decodes a list of tools; path is its path in the request. Tools of a namespace are added one by one.
func (d *decoder) tools(list []byte, path string) error {
	if scan.IsNull(list) {
		return nil
	}
	if !scan.IsArray(list) {
		return codec.Invalid(path, "%s must be a list", path)
	}
	d.r.Tools = slices.Grow(d.r.Tools, len(list)/usualTool+1)
	index := 0
	for e := scan.Array(list); e.Next(); index++ {
		if !scan.IsObject(e.Value) {
			return codec.Invalid(fmt.Sprintf("%s[%d]", path, index), "a tool must be an object")
		}
		if err := d.tool(e.Value, path, index); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) tool(v []byte, path string, index int) error {
	t, inner := readTool(v)
	t.Index = index
	if string(t.WireType) == "namespace" {
		return d.namespace(&t, inner, path, index)
	}
	if (t.Kind == codec.ToolFunction || t.Kind == codec.ToolCustom) && len(t.Name) == 0 {
		return codec.Invalid(fmt.Sprintf("%s[%d].name", path, index), "the tool has no name")
	}
	d.r.Tools = append(d.r.Tools, t)
	return nil
}

// namespace adds the tools of one namespace. Their Index is the namespace's.
func (d *decoder) namespace(space *codec.Tool, list []byte, path string, index int) error {
	at := 0
	for e := scan.Array(list); e.Next(); at++ {
		t, _ := readTool(e.Value)
		if len(t.Name) == 0 {
			return codec.Invalid(fmt.Sprintf("%s[%d].tools[%d].name", path, index, at), "the tool has no name")
		}
		t.Namespace, t.NamespaceDescription, t.Index = space.Name, space.Description, index
		d.r.Tools = append(d.r.Tools, t)
	}
	return nil
}

// readTool decodes one declaration. list is the member tools of a namespace.
func readTool(v []byte) (t codec.Tool, list []byte) {
	t = codec.Tool{Raw: v, Origin: codec.Responses}
	var environment []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			t.WireType = scan.Body(m.Value)
		case "tools":
			list = m.Value
		case "environment":
			environment = m.Value
		case "function", "custom": // the shape of Chat Completions, which some clients send here too
			for inner := scan.Object(m.Value); inner.Next(); {
				toolMember(&t, &inner)
			}
		default:
			toolMember(&t, &m)
		}
	}
	t.Kind, t.Name = kindOfTool(t.WireType, t.Name)
	switch {
	case t.Kind == codec.ToolClientSide && runsAtProvider(environment):
		t.Kind = codec.ToolHosted
	case t.Kind == codec.ToolClientSide:
		documented(&t)
	case t.Kind == codec.ToolSearch && string(scan.Body(scan.Get(v, "execution"))) == "client":
		t.Kind = codec.ToolClientSide // its description and schema are the client's own
	}
	return t, list
}

func toolMember(t *codec.Tool, m *scan.Members) {
	switch string(m.Key) {
	case "name":
		t.Name = scan.Body(m.Value)
	case "description":
		t.Description = scan.Body(m.Value)
	case "parameters":
		if !scan.IsNull(m.Value) {
			t.Schema = m.Value
		}
	case "format":
		t.Grammar = m.Value
	case "strict":
		t.Strict = codec.ParseTristate(m.Value)
	case "defer_loading":
		t.Deferred = scan.IsTrue(m.Value)
	case "allowed_callers":
		if scan.IsArray(m.Value) {
			t.AllowedCallers = m.Value
		}
	}
}

// kindOfTool returns the kind of a tool by its wire type, and its name.
func kindOfTool(wireType, name []byte) (codec.ToolKind, []byte) {
	switch string(wireType) {
	case "function", "":
		return codec.ToolFunction, name
	case "custom":
		return codec.ToolCustom, name
	case "web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11":
		return codec.ToolWebSearch, []byte("web_search")
	case "tool_search":
		return codec.ToolSearch, []byte(nameToolSearch)
	case nameLocalShell, nameShell, nameApplyPatch:
		return codec.ToolClientSide, wireType
	case "computer", "computer_use", "computer_use_preview":
		return codec.ToolClientSide, []byte(nameComputer)
	}
	if name == nil {
		name = wireType
	}
	return codec.ToolHosted, name
}

// runsAtProvider reports whether the environment of a shell tool is a container of the provider.
func runsAtProvider(environment []byte) bool {
	switch string(scan.Body(scan.Get(environment, "type"))) {
	case "container_auto", "container_reference":
		return true
	}
	return false
}
