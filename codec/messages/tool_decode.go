package messages

import (
	"bytes"
	"strconv"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// tools decodes the list while the body is being read.
func (d *requestDecoder) tools(m *scan.Members, body []byte) (err error) {
	tools := d.r.Tools[:0]
	isList := m.Walk(func(start int) (end int) {
		if body[start] != '{' {
			err = codec.Invalid(toolPath("", len(tools), ""), "a tool must be an object")
			return start
		}
		var t codec.Tool
		piece, print := d.r.Piece(start)
		schema := schemaOf(print)
		if t, end, err = readTool(body, start, len(tools), "", schema); err != nil {
			return start
		}
		if schema == nil && end == piece.End {
			rememberSchema(print, &t)
		}
		tools = append(tools, t)
		return end
	})
	switch {
	case isList:
		d.r.Tools = tools
	case m.Skip() && !scan.IsNull(m.Value):
		return codec.Invalid("tools", "tools must be an array")
	}
	return err
}

// toolPath returns the path of a declaration for an error; an empty path means the element of tools with that index.
func toolPath(path string, index int, member string) string {
	if path == "" {
		path = "tools[" + strconv.Itoa(index) + "]"
	}
	return path + member
}

// readTool decodes the declaration that begins at an offset of doc, and returns the offset after it; path is its path
// if it is not an element of tools. schema is the known place of the schema in a declaration with the same bytes, or
// nil.
func readTool(doc []byte, start, index int, path string, schema *schemaPlace) (t codec.Tool, end int, err error) {
	t = codec.Tool{Origin: codec.Messages, Index: index}
	m := scan.ObjectAt(doc, start)
	for m.NextName() {
		known := schema != nil && m.SkipTo(start+schema.start, start+schema.end)
		if !known && !m.Skip() {
			break
		}
		if scan.IsNull(m.Value) {
			continue
		}
		switch string(m.Key) {
		case "type":
			t.WireType = scan.Body(m.Value)
		case "name":
			t.Name = scan.Body(m.Value)
		case "description":
			t.Description = scan.Body(m.Value)
		case "input_schema":
			t.Schema = m.Value
		case "strict":
			t.Strict = codec.TristateOf(scan.IsTrue(m.Value))
		case "defer_loading":
			t.Deferred = scan.IsTrue(m.Value)
		case "allowed_callers":
			t.AllowedCallers = m.Value
		case "cache_control":
			t.CacheControl = m.Value
		}
	}
	end = m.Close()
	t.Raw, t.Kind = doc[start:end:end], toolKindOf(t.WireType)
	switch t.Kind {
	case codec.ToolFunction:
		if len(t.Name) == 0 {
			return t, end, codec.Invalid(toolPath(path, index, ".name"), "a tool needs a name")
		}
		if t.Schema != nil && !scan.IsObject(t.Schema) {
			return t, end, codec.Invalid(toolPath(path, index, ".input_schema"), "input_schema must be a JSON object")
		}
	case codec.ToolClientSide:
		describeClientTool(&t)
	}
	return t, end, nil
}

// schemas remembers the place of the schema in earlier declarations. The schema is most of a declaration, and finding
// its end takes longer than everything else. 4,096 entries take 128 KB.
var schemas [4 << 10]atomic.Pointer[schemaPlace]

// schemaPlace is the place of the schema in the declaration with that fingerprint.
type schemaPlace struct {
	print      codec.Fingerprint
	start, end int // from the start of the declaration
}

func schemaOf(print codec.Fingerprint) *schemaPlace {
	if known := schemas[print%codec.Fingerprint(len(schemas))].Load(); print != 0 && known != nil && known.print == print {
		return known
	}
	return nil
}

// rememberSchema remembers the place of a tool's schema.
func rememberSchema(print codec.Fingerprint, t *codec.Tool) {
	if at := bytes.Index(t.Raw, t.Schema); print != 0 && len(t.Schema) > 0 && at >= 0 {
		schemas[print%codec.Fingerprint(len(schemas))].Store(&schemaPlace{print, at, at + len(t.Schema)})
	}
}

// toolKindOf returns the kind for a dated type name (docs/wire/messages.md#2.7). An unknown type is taken for a tool
// that the provider runs.
func toolKindOf(wireType []byte) codec.ToolKind {
	switch string(wireType) {
	case "", "custom":
		return codec.ToolFunction
	}
	for _, known := range toolStems {
		if bytes.HasPrefix(wireType, known.stem) {
			return known.kind
		}
	}
	return codec.ToolHosted
}

var toolStems = [...]struct {
	stem []byte
	kind codec.ToolKind
}{
	{[]byte("web_search_"), codec.ToolWebSearch},
	{[]byte("tool_search_tool"), codec.ToolSearch},
	{[]byte("bash_"), codec.ToolClientSide},
	{[]byte("text_editor_"), codec.ToolClientSide},
	{[]byte("computer_"), codec.ToolClientSide},
	{[]byte("browser_toolset_"), codec.ToolClientSide},
	{[]byte("memory_"), codec.ToolClientSide},
}

// mcpServers decodes the servers whose tools the provider fetches and runs. Each server is taken as hosted tools.
func (d *requestDecoder) mcpServers(v []byte) {
	d.servers = nil
	for el := scan.Array(v); el.Next(); {
		d.servers = append(d.servers, codec.Tool{
			Kind: codec.ToolHosted, WireType: mcpServer, Name: scan.Body(scan.Get(el.Value, "name")),
			Raw: el.Value, Origin: codec.Messages,
		})
	}
}

var mcpServer = []byte("mcp_server")

func (d *requestDecoder) toolChoice(v []byte) {
	choice := &d.r.ToolChoice
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			switch string(scan.Body(m.Value)) {
			case "auto":
				choice.Mode = codec.ChoiceAuto
			case "any":
				choice.Mode = codec.ChoiceRequired
			case "tool":
				choice.Mode = codec.ChoiceTool
			case "none":
				choice.Mode = codec.ChoiceNone
			default:
				d.r.Notes.Drop("tool_choice")
			}
		case "name":
			choice.Name = scan.Body(m.Value)
		case "disable_parallel_tool_use":
			if !scan.IsNull(m.Value) {
				d.r.ParallelTools = codec.TristateOf(!scan.IsTrue(m.Value))
			}
		}
	}
}
