package messages

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeRequest reads the body of a message request or of a count_tokens request, which lacks some members. Members
// that only this format's own models understand, and that affect cost or bookkeeping but not the request's meaning, are
// noted as dropped. If a member occurs twice the last one counts, as in most JSON readers.
func (client) DecodeRequest(r *codec.Request, body []byte) error {
	d := requestDecoder{r: r}
	return d.request(body)
}

type requestDecoder struct {
	r       *codec.Request
	scratch []byte       // text for blocks that other formats do not know
	stack   []codec.Part // blocks of the arrays being read
	effort  []byte       // the messages' last effort
	servers []codec.Tool // servers of tools
	defined []codec.Tool // tools that messages define
}

func (d *requestDecoder) request(body []byte) error {
	if !scan.IsObject(body) {
		return codec.Invalid("", "the body must be a JSON object")
	}
	d.r.Format = codec.Messages
	d.r.Members = &members
	listed := false
	for m := scan.Object(body); m.NextName(); {
		if string(m.Key) == "messages" {
			isList, err := d.messages(&m, body)
			if err != nil {
				return err
			}
			listed = isList
			continue
		}
		if string(m.Key) == "tools" {
			if err := d.tools(&m, body); err != nil {
				return err
			}
			continue
		}
		if !m.Skip() {
			break
		}
		if scan.IsNull(m.Value) {
			continue
		}
		if err := d.member(m.Key, m.Value); err != nil {
			return err
		}
	}
	if !listed {
		return codec.Invalid("messages", "messages must be an array")
	}
	d.settle()
	return nil
}

// settle combines members on the same subject, wherever they are in the body: tools of servers and tools defined by
// messages come after the declared ones, and the messages' effort overrides.
func (d *requestDecoder) settle() {
	if r := &d.r.Reasoning; r.Visible == codec.Unset {
		r.Visible = codec.TristateOf(r.Mode == codec.ReasoningBudget || r.Mode == codec.ReasoningAdaptive)
	}
	for _, more := range [...][]codec.Tool{d.servers, d.defined} {
		for i := range more {
			more[i].Index = len(d.r.Tools)
			d.r.Tools = append(d.r.Tools, more[i])
		}
	}
	if d.effort != nil {
		d.r.Reasoning.Effort = d.effort
	}
}

func (d *requestDecoder) member(name, v []byte) error {
	r := d.r
	switch string(name) {
	case "model":
		r.Model = scan.String(v)
	case "stream":
		r.Stream = scan.IsTrue(v)
	case "max_tokens":
		n, ok := scan.Int(v)
		if !ok || n < 0 {
			return codec.Invalid("max_tokens", "max_tokens must be a whole number, 0 or more")
		}
		r.MaxOutput = n
	case "system":
		return d.system(v)
	case "tool_choice":
		d.toolChoice(v)
	case "temperature":
		return number(&r.Temperature, "temperature", v)
	case "top_p":
		return number(&r.TopP, "top_p", v)
	case "top_k":
		return number(&r.TopK, "top_k", v)
	case "stop_sequences":
		r.Stop = r.Stop[:0]
		for el := scan.Array(v); el.Next(); {
			if scan.IsString(el.Value) {
				r.Stop = append(r.Stop, scan.Body(el.Value))
			}
		}
	case "metadata":
		d.metadata(v)
	case "service_tier":
		d.serviceTier(v)
	case "speed":
		if string(scan.Body(v)) == "fast" {
			r.ServiceTier = tierPriority
		}
	case "thinking":
		d.thinking(v)
	case "output_config":
		return d.outputConfig(v)
	case "output_format": // the earlier name of output_config.format
		return d.outputFormat(v, "output_format")
	case "cache_control":
		r.CacheControl = v
	case "mcp_servers":
		d.mcpServers(v)
	case "thread":
		d.thread(v)
	case "service_chat_key", "service_external_session_id": // ours, read with the envelope
	default:
		noteUnknown(&r.Notes, name)
	}
	return nil
}

func number(dst *[]byte, name string, v []byte) error {
	if !scan.IsNumber(v) {
		return codec.Invalid(name, "%s must be a number", name)
	}
	*dst = v
	return nil
}

// noteUnknown notes a member without a counterpart. Names end up in a header, so only plain ones are noted by name.
func noteUnknown(notes *codec.Notes, name []byte) {
	if name := plainName(name); name != "" {
		notes.Drop(name)
	}
}

// plainName returns the name if it looks like an API's, else "".
func plainName(name []byte) string {
	if len(name) == 0 || len(name) > 64 {
		return ""
	}
	for _, c := range name {
		if c != '_' && c-'0' > 9 && c|0x20-'a' > 25 {
			return ""
		}
	}
	return string(name)
}

// Words of the canonical service tier, which are OpenAI's: the format has two members where OpenAI has one.
var (
	tierAuto     = []byte("auto")
	tierDefault  = []byte("default")
	tierPriority = []byte("priority")
)

func (d *requestDecoder) serviceTier(v []byte) {
	if d.r.ServiceTier != nil {
		return // speed overrides it
	}
	switch string(scan.Body(v)) {
	case "auto":
		d.r.ServiceTier = tierAuto
	case "standard_only":
		d.r.ServiceTier = tierDefault
	default:
		d.r.Notes.Drop("service_tier")
	}
}

func (d *requestDecoder) metadata(v []byte) {
	for m := scan.Object(v); m.Next(); {
		switch {
		case string(m.Key) != "user_id":
			d.r.Notes.Drop("metadata")
		case scan.IsString(m.Value):
			d.r.User = scan.Body(m.Value)
		}
	}
}

func (d *requestDecoder) thinking(v []byte) {
	reasoning := &d.r.Reasoning
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "type":
			switch string(scan.Body(m.Value)) {
			case "adaptive":
				reasoning.Mode = codec.ReasoningAdaptive
			case "enabled":
				reasoning.Mode = codec.ReasoningBudget
			case "disabled", "between_tools":
				reasoning.Mode = codec.ReasoningOff
			default:
				d.r.Notes.Drop("thinking.type")
			}
		case "budget_tokens":
			if n, ok := scan.Int(m.Value); ok && n >= 0 {
				reasoning.Budget = n
			}
		case "display":
			if display := scan.Body(m.Value); display != nil {
				reasoning.Display = display
				reasoning.Visible = codec.TristateOf(string(display) != "omitted")
			}
		default:
			d.r.Notes.Drop("thinking." + plainName(m.Key))
		}
	}
}

func (d *requestDecoder) outputConfig(v []byte) error {
	for m := scan.Object(v); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		switch string(m.Key) {
		case "effort":
			d.r.Reasoning.Effort = scan.Body(m.Value)
		case "format":
			if err := d.outputFormat(m.Value, "output_config.format"); err != nil {
				return err
			}
		default:
			d.r.Notes.Drop("output_config." + plainName(m.Key))
		}
	}
	return nil
}

func (d *requestDecoder) outputFormat(v []byte, path string) error {
	if kind := scan.Body(scan.Get(v, "type")); string(kind) != "json_schema" {
		d.r.Notes.Drop(path)
		return nil
	}
	schema := scan.Get(v, "schema")
	if !scan.IsObject(schema) {
		return codec.Invalid(path+".schema", "schema must be a JSON object")
	}
	d.r.Output = codec.OutputFormat{Kind: codec.OutputSchema, Schema: schema}
	return nil
}

// thread continues a history that the provider holds: the id acts as a previous response.
func (d *requestDecoder) thread(v []byte) {
	if previous := scan.Body(scan.Get(v, "previous_message_id")); len(previous) > 0 {
		d.r.PreviousResponse = previous
		return
	}
	d.r.Notes.Drop("thread")
}

// system reads the opening text: a string is one block.
func (d *requestDecoder) system(v []byte) error {
	d.r.Instructions = d.r.Instructions[:0]
	if scan.IsString(v) {
		d.r.Instructions = append(d.r.Instructions, codec.Part{Kind: codec.PartText, Text: scan.Body(v)})
		return nil
	}
	if !scan.IsArray(v) {
		return codec.Invalid("system", "system must be a string or an array of text blocks")
	}
	parts, err := d.parts(v, place{member: "system"})
	d.r.Instructions = append(d.r.Instructions, parts...)
	return err
}
