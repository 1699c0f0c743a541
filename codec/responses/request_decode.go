package responses

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// decoder decodes one request. It is pooled to reuse its list of items.
type decoder struct {
	r      *codec.Request
	items  []item
	places toolPlaces
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// maxPooledItems bounds the list that an idle decoder keeps.
const maxPooledItems = 1024

// DecodeRequest implements [codec.ClientCodec].
func (client) DecodeRequest(r *codec.Request, body []byte) error {
	d := decoders.Get().(*decoder)
	d.r = r
	err := d.decode(body)
	clear(d.items) // no views into the body may outlive it
	d.r, d.items, d.places = nil, d.items[:0], toolPlaces{}
	if cap(d.items) <= maxPooledItems {
		decoders.Put(d)
	}
	return err
}

// decode reads the members in the order of the body, except that the tools come before the input: items of the input
// may add tools, which come after those of the list, wherever that is in the body.
func (d *decoder) decode(body []byte) error {
	d.r.Format = codec.Responses
	d.r.Members = &members
	var input, tools []byte
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "input":
			input = m.Value
			continue
		case "tools":
			tools = m.Value
		}
		if err := d.member(&m); err != nil {
			return err
		}
	}
	if d.r.Store == codec.False {
		d.r.IncludeState = true
	}
	if d.r.Reasoning.Visible == codec.Unset { // nobody gets, and pays for, summaries without asking for them
		d.r.Reasoning.Visible = codec.False
	}
	if err := d.tools(tools, "tools"); err != nil {
		return err
	}
	return d.input(input)
}

// member reads one top-level member other than the input and the tools.
func (d *decoder) member(m *scan.Members) error {
	r, v := d.r, m.Value
	if scan.IsNull(v) {
		return nil
	}
	if echoed(m.Key) {
		d.echo(m)
	}
	var err error
	switch string(m.Key) {
	case "model":
		r.Model = scan.String(v)
	case "stream":
		r.Stream = scan.IsTrue(v)
	case "instructions":
		return d.instructions(v)
	case "max_output_tokens":
		n, ok := scan.Int(v)
		if !ok || n < 1 {
			return codec.Invalid("max_output_tokens", "max_output_tokens must be a whole number above 0")
		}
		r.MaxOutput = n
	case "temperature":
		r.Temperature, err = number(v, "temperature")
	case "top_p":
		r.TopP, err = number(v, "top_p")
	case "presence_penalty": // of Open Responses, as is the next
		r.PresencePenalty, err = number(v, "presence_penalty")
	case "frequency_penalty":
		r.FrequencyPenalty, err = number(v, "frequency_penalty")
	case "top_logprobs":
		r.TopLogprobs, err = number(v, "top_logprobs")
	case "parallel_tool_calls":
		r.ParallelTools, err = boolean(v, "parallel_tool_calls")
	case "store":
		r.Store, err = boolean(v, "store")
	case "include":
		d.include(v)
	case "reasoning":
		d.reasoning(v)
	case "text":
		return d.text(v)
	case "tool_choice":
		d.choice(v)
	case "user":
		r.User = scan.Body(v)
	case "safety_identifier":
		r.SafetyIdentifier = scan.Body(v)
	case "prompt_cache_key":
		r.PromptCacheKey = scan.Body(v)
	case "service_tier":
		r.ServiceTier = scan.Body(v)
	case "previous_response_id":
		r.PreviousResponse = scan.Body(v)
	case "metadata":
		if scan.IsObject(v) {
			r.Metadata = v
		}
	default:
		d.unsaid(m.Key, v)
	}
	return err
}

// unsaid notes members that the vocabulary has no place for: those whose omission can be noticed, and those that must
// not be omitted. The others are bookkeeping (client_metadata), ask for padding that we never write (stream_options),
// or are unknown.
func (d *decoder) unsaid(key, v []byte) {
	switch string(key) {
	case "prompt_cache_options", "prompt_cache_retention", "moderation":
		d.r.Share(key, v)
	case "max_tool_calls", "context_management", "access_programs", "image":
		d.r.Notes.Drop(string(key))
	case "conversation", "prompt":
		d.r.Stateful = append(d.r.Stateful, string(key))
	case "truncation":
		if string(scan.Body(v)) != "disabled" {
			d.r.Notes.Drop(string(key))
		}
	}
}

// echoed reports whether answers repeat that member.
func echoed(key []byte) bool {
	switch string(key) {
	case "access_programs", "background", "conversation", "frequency_penalty", "instructions", "max_output_tokens", "max_tool_calls",
		"metadata", "parallel_tool_calls", "presence_penalty", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options",
		"prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store", "temperature", "text",
		"tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user":
		return true
	}
	return false
}

// echo keeps a member for the answer; if a name occurs twice, the last value applies, as in JSON parsers.
func (d *decoder) echo(m *scan.Members) {
	r := d.r
	for i := range r.Echo {
		if bytes.Equal(r.Echo[i].Name, m.Key) {
			r.Echo[i].Value = m.Value
			return
		}
	}
	if cap(r.Echo) == 0 {
		r.Echo = make([]codec.Member, 0, 16)
	}
	r.Echo = append(r.Echo, codec.Member{Name: r.CopyBytes(m.Key), Value: m.Value})
}

func (d *decoder) instructions(v []byte) error {
	if !scan.IsString(v) && !scan.IsArray(v) {
		return codec.Invalid("instructions", "instructions must be a string")
	}
	parts, err := d.content(d.r.NewParts(partCount(v)), v, "instructions")
	d.r.Instructions = append(d.r.Instructions[:0], parts...)
	return err
}

func (d *decoder) include(v []byte) {
	for e := scan.Array(v); e.Next(); {
		switch string(scan.Body(e.Value)) {
		case includeState:
			d.r.IncludeState = true
		case includeLogprobs:
			d.r.Logprobs = codec.True
		default:
			d.r.Notes.Drop("include")
		}
	}
}

func (d *decoder) reasoning(v []byte) {
	for m := scan.Object(v); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		switch string(m.Key) {
		case "effort":
			d.r.Reasoning.Effort = scan.Body(m.Value)
			if string(d.r.Reasoning.Effort) == "none" {
				d.r.Reasoning.Mode = codec.ReasoningOff
			}
		case "summary", "generate_summary":
			d.r.Reasoning.Summary = scan.Body(m.Value)
			d.r.Reasoning.Visible = codec.True
		case "context":
			d.r.Notes.Drop("reasoning.context")
		case "mode":
			d.r.Notes.Drop("reasoning.mode")
		}
	}
}

func (d *decoder) text(v []byte) error {
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "verbosity":
			d.r.Verbosity = scan.Body(m.Value)
		case "format":
			if err := d.format(m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) format(v []byte) error {
	o := &d.r.Output
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			switch string(scan.Body(m.Value)) {
			case "json_object":
				o.Kind = codec.OutputJSON
			case "json_schema":
				o.Kind = codec.OutputSchema
			}
		case "name":
			o.Name = scan.Body(m.Value)
		case "description":
			o.Description = scan.Body(m.Value)
		case "schema":
			o.Schema = m.Value
		case "strict":
			o.Strict = codec.ParseTristate(m.Value)
		}
	}
	if o.Kind == codec.OutputSchema && !scan.IsObject(o.Schema) {
		return codec.Invalid("text.format.schema", "a format of type json_schema needs a schema")
	}
	return nil
}

// choice reads tool_choice. An unknown form is kept whole, as the choice of a hosted tool.
func (d *decoder) choice(v []byte) {
	c := &d.r.ToolChoice
	switch string(scan.Body(v)) {
	case "auto":
		c.Mode = codec.ChoiceAuto
	case "none":
		c.Mode = codec.ChoiceNone
	case "required":
		c.Mode = codec.ChoiceRequired
	}
	if !scan.IsObject(v) {
		return
	}
	var kind, name, namespace, mode, tools []byte
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			kind = scan.Body(m.Value)
		case "name":
			name = scan.Body(m.Value)
		case "namespace":
			namespace = scan.Body(m.Value)
		case "mode":
			mode = scan.Body(m.Value)
		case "tools":
			tools = m.Value
		case "function", "custom": // the shape of Chat Completions, which some clients send here too
			name = scan.Body(scan.Get(m.Value, "name"))
		}
	}
	c.Raw = v
	switch string(kind) {
	case "function", "custom":
		c.Mode, c.Name, c.Namespace = codec.ChoiceTool, name, namespace
	case nameLocalShell, nameShell, nameApplyPatch:
		c.Mode, c.Name = codec.ChoiceTool, kind
	case "computer", "computer_use", "computer_use_preview":
		c.Mode, c.Name = codec.ChoiceTool, []byte(nameComputer)
	case "allowed_tools":
		c.Mode, c.AllowedRequired = codec.ChoiceAllowed, string(mode) == "required"
		c.Allowed = allowed(tools)
	default:
		c.Mode = codec.ChoiceHosted
	}
}

func allowed(list []byte) []codec.Tool {
	tools := make([]codec.Tool, 0, scan.Count(list))
	for e := scan.Array(list); e.Next(); {
		t := codec.Tool{Kind: codec.ToolHosted, Raw: e.Value, Origin: codec.Responses, Index: len(tools)}
		for m := scan.Object(e.Value); m.Next(); {
			switch string(m.Key) {
			case "type":
				t.WireType = scan.Body(m.Value)
			case "name":
				t.Name = scan.Body(m.Value)
			case "namespace":
				t.Namespace = scan.Body(m.Value)
			}
		}
		t.Kind, t.Name = kindOfTool(t.WireType, t.Name)
		tools = append(tools, t)
	}
	return tools
}

// input reads the conversation: a string, or a list of items.
func (d *decoder) input(v []byte) error {
	switch {
	case scan.IsNull(v):
		return nil
	case scan.IsString(v):
		parts := append(d.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: scan.Body(v)})
		d.r.Messages = append(d.r.Messages, codec.Message{Role: codec.RoleUser, Parts: parts})
		return nil
	case !scan.IsArray(v):
		return codec.Invalid("input", "input must be a string or a list of items")
	}
	for e := scan.Array(v); e.Next(); {
		if !scan.IsObject(e.Value) {
			return codec.Invalid(fmt.Sprintf("input[%d]", len(d.items)), "an item of the input must be an object")
		}
		if cap(d.items) == len(d.items) {
			d.items = slices.Grow(d.items, max(64, len(d.items)))
		}
		d.items = d.items[:len(d.items)+1]
		d.items[len(d.items)-1].read(e.Value)
	}
	return d.history()
}

func number(v []byte, param string) ([]byte, error) {
	if !scan.IsNumber(v) {
		return nil, codec.Invalid(param, "%s must be a number", param)
	}
	return v, nil
}

func boolean(v []byte, param string) (codec.Tristate, error) {
	t := codec.ParseTristate(v)
	if t == codec.Unset {
		return t, codec.Invalid(param, "%s must be true or false", param)
	}
	return t, nil
}
