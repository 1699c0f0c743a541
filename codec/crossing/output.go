package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

const (
	jsonOnly   = "Answer with a single JSON object and nothing else."
	jsonSchema = "Answer with a single JSON object and nothing else. It must match this JSON Schema: "
	// jsonTool is called by models that support no schema otherwise; its arguments are the answer.
	jsonTool = "json_response"
)

// outputStep handles the form of the answer.
type outputStep struct{ *adaptation }

// run requests JSON in the target's own way (docs/wire/translation.md#2.8).
func (a outputStep) run() error {
	o := &a.r.Output
	switch o.Kind {
	case codec.OutputJSON:
		if !a.takes.JSONObject {
			a.instruct([]byte(jsonOnly))
			*o = codec.OutputFormat{}
			a.r.Notes.Emulate(a.from.Members.Output)
		}
	case codec.OutputSchema:
		a.schemaFormat(o)
	}
	return nil
}

func (a outputStep) schemaFormat(o *codec.OutputFormat) {
	if len(o.Name) == 0 {
		o.Name = []byte("structured_output")
	}
	if a.from.Client.StrictSchemas && a.takes.StrictSwitch && strictly(o.Schema, 0) {
		o.Strict = codec.True // the client expects it always, the target does it only on request
	}
	switch {
	case a.takes.JSONSchema:
	case a.takes.SchemaByCall:
		a.forceJSONTool(o)
	default:
		text := append(a.r.Alloc(len(jsonSchema)+2*len(o.Schema)), jsonSchema...)
		a.instruct(scan.Escape(text, o.Schema))
		*o = codec.OutputFormat{Kind: codec.OutputJSON}
		if !a.takes.JSONObject {
			*o = codec.OutputFormat{}
		}
		a.r.Notes.Emulate(a.from.Members.Output)
	}
}

// maxStrictDepth is how deep a schema may be nested in OpenAI's strict mode.
const maxStrictDepth = 10

// strictly reports whether OpenAI accepts the schema in strict mode, where every value has a type, every object is
// closed and all its properties are required. A keyword that strict mode may refuse makes it false.
func strictly(schema []byte, depth int) bool {
	if !scan.IsObject(schema) || depth > maxStrictDepth {
		return false
	}
	typed, object, closed, sound := false, false, false, true
	var properties, required []byte
	for m := scan.Object(schema); sound && m.Next(); {
		switch string(m.Key) {
		case "$schema", "title", "description", "enum", "const":
		case "$ref":
			typed = true
		case "type":
			typed, object = true, bytes.Contains(m.Value, []byte(`"object"`))
		case "additionalProperties":
			closed = scan.IsFalse(m.Value)
		case "required":
			required = m.Value
		case "properties":
			properties = m.Value
			sound = allStrict(m.Value, depth)
		case "$defs", "definitions":
			sound = allStrict(m.Value, depth)
		case "items":
			sound = strictly(m.Value, depth+1)
		case "anyOf":
			typed = true
			for e := scan.Array(m.Value); sound && e.Next(); {
				sound = strictly(e.Value, depth+1)
			}
		default:
			sound = false
		}
	}
	for m := scan.Object(properties); sound && m.Next(); {
		sound = lists(required, string(m.Key))
	}
	return sound && typed && closed == object && (depth > 0 || object)
}

// allStrict is strictly for all values of an object.
func allStrict(schemas []byte, depth int) bool {
	for m := scan.Object(schemas); m.Next(); {
		if !strictly(m.Value, depth+1) {
			return false
		}
	}
	return true
}

// forceJSONTool makes the answer the arguments of a call, which is turned back into text in the answer.
func (a outputStep) forceJSONTool(o *codec.OutputFormat) {
	name := jsonTool
	for a.back.names.original[name].name != nil { // the client has a tool of that name
		name += "_"
	}
	a.r.Tools = append(a.r.Tools, codec.Tool{
		Kind: codec.ToolFunction, Name: []byte(name), Schema: o.Schema,
		Description: []byte("Gives the final answer. Its arguments are the answer."),
	})
	if len(a.r.Tools) == 1 && a.target.ForcedTools {
		a.r.ToolChoice = codec.ToolChoice{Mode: codec.ChoiceTool, Name: []byte(name)}
		reasoningStep(a).stopThinking()
	}
	a.back.jsonTool = name
	*o = codec.OutputFormat{}
	a.r.Notes.Emulate(a.from.Members.Output)
}

// instruct appends a line to the opening instructions. text is a string body.
func (a outputStep) instruct(text []byte) {
	a.r.Instructions = append(a.r.Instructions, codec.Part{Kind: codec.PartText, Text: text})
}
