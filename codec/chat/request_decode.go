package chat

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeRequest reads a request. A member of the wrong type is an error; a null member is an absent one; a member
// without a counterpart is noted as dropped.
func (client) DecodeRequest(r *codec.Request, body []byte) error {
	d := requestDecoder{r: r, parts: r.NewParts(scratchParts), results: r.NewParts(scratchParts)}
	if !scan.IsObject(body) {
		return codec.Invalid("", "the body must be a JSON object")
	}
	r.Format = codec.Chat
	r.Members = &members
	for m := scan.Object(body); m.NextName(); {
		if err := d.next(&m, body); err != nil {
			return err
		}
	}
	if !d.seen {
		return codec.Invalid("messages", "the request has no messages")
	}
	return nil
}

// requestDecoder reads one request.
type requestDecoder struct {
	r         *codec.Request
	seen      bool         // messages were given
	index     int          // of the next message
	parts     []codec.Part // scratch for the parts of one message
	results   []codec.Part // the current run of tool results
	first     int          // index of its first message
	functions int          // legacy calls so far
	tools     int          // index of the next tool
	notes     int
	limit     bool // max_completion_tokens was given, which overrides max_tokens
}

// scratchParts is how many parts a message has, and how many results a turn, at most in practice; more are
// heap-allocated.
const scratchParts = 16

func (d *requestDecoder) next(m *scan.Members, body []byte) error {
	switch string(m.Key) {
	case "messages":
		d.beginMessages()
		if err := d.list(m, body, d.message); err != nil {
			return err
		}
		d.endResults()
		return nil
	case "tools":
		return d.list(m, body, d.tool)
	}
	if !m.Skip() || scan.IsNull(m.Value) {
		return nil
	}
	return d.member(m)
}

// list reads a long list in the pass that finds its end. After the first error it only looks for the end.
func (d *requestDecoder) list(m *scan.Members, body []byte, read func(v []byte) error) error {
	var err error
	walked := m.Elements(func(start, end int) {
		if err == nil {
			err = read(body[start:end:end])
		}
	})
	if walked || m.Skip() && scan.IsNull(m.Value) {
		return err
	}
	return codec.Invalid(string(m.Key), "%s must be an array", m.Key)
}

func (d *requestDecoder) member(m *scan.Members) error {
	r, v := d.r, m.Value
	switch string(m.Key) {
	case "model":
		return d.model(v)
	case "stream":
		return flag(&r.Stream, "stream", v)
	case "stream_options":
		r.IncludeUsage = scan.IsTrue(scan.Get(v, "include_usage"))
	case "max_completion_tokens":
		d.limit = true
		return count(&r.MaxOutput, "max_completion_tokens", v)
	case "max_tokens":
		if d.limit {
			return nil
		}
		return count(&r.MaxOutput, "max_tokens", v)
	case "temperature":
		return number(&r.Temperature, "temperature", v)
	case "top_p":
		return number(&r.TopP, "top_p", v)
	case "top_k": // used by compatible hosts
		return number(&r.TopK, "top_k", v)
	case "seed":
		return number(&r.Seed, "seed", v)
	case "presence_penalty":
		return number(&r.PresencePenalty, "presence_penalty", v)
	case "frequency_penalty":
		return number(&r.FrequencyPenalty, "frequency_penalty", v)
	case "logit_bias":
		return object(&r.LogitBias, "logit_bias", v)
	case "metadata":
		return object(&r.Metadata, "metadata", v)
	case "n":
		return count(&r.N, "n", v)
	case "logprobs":
		return tristate(&r.Logprobs, "logprobs", v)
	case "top_logprobs":
		return number(&r.TopLogprobs, "top_logprobs", v)
	case "stop":
		return d.stop(v)
	case "store":
		return tristate(&r.Store, "store", v)
	case "parallel_tool_calls":
		return tristate(&r.ParallelTools, "parallel_tool_calls", v)
	case "user":
		return text(&r.User, "user", v)
	case "safety_identifier":
		return text(&r.SafetyIdentifier, "safety_identifier", v)
	case "prompt_cache_key":
		return text(&r.PromptCacheKey, "prompt_cache_key", v)
	case "prompt_cache_retention", "prompt_cache_options", "moderation":
		r.Share(m.Key, v)
	case "service_tier":
		return text(&r.ServiceTier, "service_tier", v)
	case "verbosity":
		return text(&r.Verbosity, "verbosity", v)
	case "response_format":
		return d.responseFormat(v)
	case "functions":
		return d.legacyTools(v)
	case "tool_choice":
		return d.toolChoice(v)
	case "function_call":
		return d.legacyChoice(v)
	case "web_search_options":
		d.r.Tools = append(d.r.Tools, codec.Tool{
			Kind: codec.ToolWebSearch, WireType: []byte("web_search_options"), Raw: v, Origin: codec.Chat, Index: -1,
		})
	default:
		return d.habit(m)
	}
	return nil
}

// habit reads members that are not OpenAI's but other hosts', and notes unknown ones.
func (d *requestDecoder) habit(m *scan.Members) error {
	r, v := d.r, m.Value
	switch string(m.Key) {
	case "reasoning_effort":
		return text(&r.Reasoning.Effort, "reasoning_effort", v)
	case "reasoning": // OpenRouter
		d.reasoning(v)
	case "include_reasoning": // OpenRouter
		r.Reasoning.Visible = codec.TristateOf(scan.IsTrue(v))
	case "thinking": // DeepSeek, and clients that ask an Anthropic model through a chat host
		d.thinking(v)
	case "enable_thinking": // Qwen
		if scan.IsFalse(v) {
			r.Reasoning.Mode = codec.ReasoningOff
		} else if r.Reasoning.Mode == codec.ReasoningUnset {
			r.Reasoning.Mode = codec.ReasoningAdaptive
		}
	case "thinking_budget": // Qwen
		if n, ok := scan.Int(v); ok && n > 0 && r.Reasoning.Mode != codec.ReasoningOff {
			r.Reasoning.Mode, r.Reasoning.Budget = codec.ReasoningBudget, n
		}
	case "modalities":
		for e := scan.Array(v); e.Next(); {
			r.AudioOutput = r.AudioOutput || string(e.Value) == `"audio"`
		}
	case "audio": // details; modalities says whether
	case "service_chat_key", "service_external_session_id": // ours, read with the envelope
	case "client_metadata": // bookkeeping
	default:
		d.drop(string(m.Key))
	}
	return nil
}

// drop notes a member that has no counterpart.
func (d *requestDecoder) drop(name string) {
	if d.notes < maxNotes && isMemberName(name) {
		d.notes++
		d.r.Notes.Drop(name)
	}
}

// maxNotes bounds the client-chosen names in the notes, which end up in a header.
const maxNotes = 32

// isMemberName reports whether a name looks like an API member. Other names are not repeated to anybody.
func isMemberName(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

func (d *requestDecoder) model(v []byte) error {
	body := scan.Body(v)
	if body == nil {
		return codec.Invalid("model", "model must be a string")
	}
	d.r.Model = scan.Text(body)
	return nil
}

// stop reads one string or several.
func (d *requestDecoder) stop(v []byte) error {
	if body := scan.Body(v); body != nil {
		d.r.Stop = append(d.r.Stop, body)
		return nil
	}
	if !scan.IsArray(v) {
		return codec.Invalid("stop", "stop must be a string or an array of strings")
	}
	for e := scan.Array(v); e.Next(); {
		body := scan.Body(e.Value)
		if body == nil {
			return codec.Invalid("stop", "stop must hold strings only")
		}
		d.r.Stop = append(d.r.Stop, body)
	}
	return nil
}

func (d *requestDecoder) responseFormat(v []byte) error {
	out := &d.r.Output
	switch kind := scan.Body(scan.Get(v, "type")); string(kind) {
	case "text":
		out.Kind = codec.OutputText
	case "json_object":
		out.Kind = codec.OutputJSON
	case "json_schema":
		return d.jsonSchema(scan.Get(v, "json_schema"))
	default:
		if kind == nil {
			return codec.Invalid("response_format.type", "response_format needs a type: text, json_object or json_schema")
		}
		d.drop("response_format")
	}
	return nil
}

func (d *requestDecoder) jsonSchema(v []byte) error {
	if !scan.IsObject(v) {
		return codec.Invalid("response_format.json_schema", "response_format of type json_schema needs the member json_schema")
	}
	out := &d.r.Output
	out.Kind = codec.OutputSchema
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "name":
			out.Name = scan.Body(m.Value)
		case "description":
			out.Description = scan.Body(m.Value)
		case "schema":
			if !scan.IsNull(m.Value) {
				out.Schema = m.Value
			}
		case "strict":
			out.Strict = codec.ParseTristate(m.Value)
		}
	}
	return nil
}

func (d *requestDecoder) reasoning(v []byte) {
	out := &d.r.Reasoning
	for m := scan.Object(v); m.Next(); {
		switch string(m.Key) {
		case "effort":
			out.Effort = scan.Body(m.Value)
		case "max_tokens":
			if n, ok := scan.Int(m.Value); ok && n > 0 {
				out.Mode, out.Budget = codec.ReasoningBudget, n
			}
		case "enabled":
			if scan.IsFalse(m.Value) {
				out.Mode = codec.ReasoningOff
			} else if scan.IsTrue(m.Value) && out.Mode == codec.ReasoningUnset {
				out.Mode = codec.ReasoningAdaptive
			}
		case "exclude":
			out.Visible = codec.TristateOf(!scan.IsTrue(m.Value))
		}
	}
}

func (d *requestDecoder) thinking(v []byte) {
	out := &d.r.Reasoning
	switch string(scan.Body(scan.Get(v, "type"))) {
	case "disabled":
		out.Mode = codec.ReasoningOff
	case "enabled", "adaptive":
		out.Mode = codec.ReasoningAdaptive
		if n, ok := scan.Int(scan.Get(v, "budget_tokens")); ok && n > 0 {
			out.Mode, out.Budget = codec.ReasoningBudget, n
		}
	default:
		d.drop("thinking")
	}
}

func flag(dst *bool, name string, v []byte) error {
	if !scan.IsTrue(v) && !scan.IsFalse(v) {
		return codec.Invalid(name, "%s must be true or false", name)
	}
	*dst = scan.IsTrue(v)
	return nil
}

func tristate(dst *codec.Tristate, name string, v []byte) error {
	var b bool
	if err := flag(&b, name, v); err != nil {
		return err
	}
	*dst = codec.TristateOf(b)
	return nil
}

func number(dst *[]byte, name string, v []byte) error {
	if !scan.IsNumber(v) {
		return codec.Invalid(name, "%s must be a number", name)
	}
	*dst = v
	return nil
}

func count(dst *int64, name string, v []byte) error {
	n, ok := scan.Int(v)
	if !ok || n < 1 {
		return codec.Invalid(name, "%s must be a whole number of at least 1", name)
	}
	*dst = n
	return nil
}

func text(dst *[]byte, name string, v []byte) error {
	body := scan.Body(v)
	if body == nil {
		return codec.Invalid(name, "%s must be a string", name)
	}
	*dst = body
	return nil
}

func object(dst *[]byte, name string, v []byte) error {
	if !scan.IsObject(v) {
		return codec.Invalid(name, "%s must be an object", name)
	}
	*dst = v
	return nil
}
