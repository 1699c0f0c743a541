package crossing

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

const (
	jsonOnly   = "Answer with a single JSON object and nothing else."
	jsonSchema = "Answer with a single JSON object and nothing else. It must match this JSON Schema: "
	// jsonTool is called by models that cannot be held to a schema in any other way; its arguments are the answer.
	jsonTool = "json_response"
)

// outputFormat asks for JSON in the target's own way (wire sheet: translation, 2.8).
func (a *adaption) outputFormat() error {
	o := &a.r.Output
	switch o.Kind {
	case codec.OutputJSON:
		switch {
		case a.format == codec.Messages:
			a.instruct([]byte(jsonOnly))
			*o = codec.OutputFormat{}
			a.r.Notes.Emulate(a.formatMember())
		case a.format == codec.Chat && !a.target.Dialect.JSONObject:
			a.instruct([]byte(jsonOnly))
			*o = codec.OutputFormat{}
			a.r.Notes.Emulate(a.formatMember())
		}
	case codec.OutputSchema:
		a.schemaFormat(o)
	}
	return nil
}

func (a *adaption) formatMember() string {
	switch a.r.Format {
	case codec.Responses:
		return "text.format"
	case codec.Chat:
		return "response_format"
	default:
		return "output_config.format"
	}
}

func (a *adaption) schemaFormat(o *codec.OutputFormat) {
	if len(o.Name) == 0 {
		o.Name = []byte("structured_output")
	}
	switch {
	case a.format == codec.Messages && !a.target.StructuredOutput:
		a.forceJSONTool(o)
	case a.format == codec.Chat && !a.target.Dialect.JSONSchema:
		text := append(a.r.Room(len(jsonSchema)+2*len(o.Schema)), jsonSchema...)
		a.instruct(scan.Escape(text, o.Schema))
		*o = codec.OutputFormat{Kind: codec.OutputJSON}
		if !a.target.Dialect.JSONObject {
			*o = codec.OutputFormat{}
		}
		a.r.Notes.Emulate(a.formatMember())
	}
}

// forceJSONTool makes the answer the arguments of a call, which is turned into text on the way back.
func (a *adaption) forceJSONTool(o *codec.OutputFormat) {
	name := jsonTool
	for a.undo.names.original[name].name != nil { // the client has a tool of that name
		name += "_"
	}
	a.r.Tools = append(a.r.Tools, codec.Tool{
		Kind: codec.ToolFunction, Name: []byte(name), Schema: o.Schema,
		Description: []byte("Gives the final answer. Its arguments are the answer."),
	})
	if len(a.r.Tools) == 1 && a.target.ForcedTools {
		a.r.ToolChoice = codec.ToolChoice{Mode: codec.ChoiceTool, Name: []byte(name)}
		a.undo.thinkingOff = true
		a.stopThinking()
	}
	a.undo.jsonTool = name
	*o = codec.OutputFormat{}
	a.r.Notes.Emulate(a.formatMember())
}

// instruct appends a line to the opening instructions. text is a string body.
func (a *adaption) instruct(text []byte) {
	a.r.Instructions = append(a.r.Instructions, codec.Part{Kind: codec.PartText, Text: text})
}
