package chat

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// AppendRequest writes a request in the dialect of the target. Members are in a fixed order with the messages last, so
// that each turn's request, up to the end of its messages, is the beginning of the next one's: prompt caches need that.
//
// Members that the dialect does not allow are dropped and noted.
func (provider) AppendRequest(dst []byte, r *codec.Request, t *codec.Target) ([]byte, error) {
	w := requestWriter{r: r, t: t, d: &t.Dialect}
	dst = append(dst, `{"model":`...)
	dst = scan.Quote(dst, t.Model)
	if r.Stream {
		dst = append(dst, `,"stream":true`...)
		if w.d.StreamOptions {
			dst = append(dst, `,"stream_options":{"include_usage":true}`...)
		}
	}
	dst = w.limits(dst)
	dst = w.sampling(dst)
	dst = w.reasoning(dst)
	dst = w.output(dst)
	dst = w.bookkeeping(dst)
	dst = w.tools(dst)
	dst = append(dst, `,"messages":[`...)
	dst = w.messages(dst)
	return append(dst, `]}`...), nil
}

// requestWriter writes one request.
type requestWriter struct {
	r       *codec.Request
	t       *codec.Target
	d       *codec.Dialect
	written int // messages so far
	notes   int // dropped things with client-chosen names
}

// Names of dialects that differ in more than the members of [codec.Dialect].
const (
	dialectMistral    = "mistral"    // typed content chunks; refuses every unknown member
	dialectDeepSeek   = "deepseek"   // restricts the characters of user_id; strict tools only on another path
	dialectCompatible = "compatible" // a host of open models: vLLM, SGLang, llama.cpp, Ollama
)

// openAI reports whether the target accepts what only OpenAI's own API has.
func (w *requestWriter) openAI() bool { return w.d.Name == "" || w.d.Name == "openai" }

func (w *requestWriter) limits(dst []byte) []byte {
	r := w.r
	if r.MaxOutput >= 0 {
		name := w.d.MaxTokensMember
		if name == "" {
			name = "max_completion_tokens"
		}
		dst = appendName(dst, name)
		dst = strconv.AppendInt(dst, r.MaxOutput, 10)
	}
	if len(r.Stop) > 0 {
		dst = append(dst, `,"stop":[`...)
		for i, stop := range r.Stop {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = scan.QuoteBody(dst, stop)
		}
		dst = append(dst, ']')
	}
	if r.N > 1 {
		if w.d.N {
			dst = append(dst, `,"n":`...)
			dst = strconv.AppendInt(dst, r.N, 10)
		} else {
			r.Notes.Drop("n")
		}
	}
	return dst
}

func (w *requestWriter) sampling(dst []byte) []byte {
	r, takes := w.r, w.t.Sampling && !w.t.ReasoningModel
	dst = w.raw(dst, "temperature", "temperature", r.Temperature, takes)
	dst = w.raw(dst, "top_p", "top_p", r.TopP, takes)
	dst = w.raw(dst, "", "top_k", r.TopK, false)
	dst = w.raw(dst, w.d.SeedMember, "seed", r.Seed, w.d.SeedMember != "")
	dst = w.raw(dst, "presence_penalty", "presence_penalty", r.PresencePenalty, takes && w.d.Penalties)
	dst = w.raw(dst, "frequency_penalty", "frequency_penalty", r.FrequencyPenalty, takes && w.d.Penalties)
	dst = w.raw(dst, "logit_bias", "logit_bias", r.LogitBias, takes && w.d.LogitBias)
	dst = w.boolean(dst, "logprobs", "logprobs", r.Logprobs, takes && w.d.Logprobs)
	return w.raw(dst, "top_logprobs", "top_logprobs", r.TopLogprobs, takes && w.d.Logprobs)
}

// reasoning writes the dialect's members for it: an effort word, a switch, or both.
func (w *requestWriter) reasoning(dst []byte) []byte {
	q := &w.r.Reasoning
	dst = w.body(dst, w.d.EffortMember, "reasoning_effort", q.Effort, w.d.EffortMember != "")
	switch {
	case q.Mode == codec.ReasoningUnset:
	case w.d.ThinkingSwitch == "thinking" && q.Mode == codec.ReasoningOff:
		dst = append(dst, `,"thinking":{"type":"disabled"}`...)
	case w.d.ThinkingSwitch == "thinking":
		dst = append(dst, `,"thinking":{"type":"enabled"}`...)
	case w.d.ThinkingSwitch == "enable_thinking":
		dst = append(dst, `,"enable_thinking":`...)
		dst = strconv.AppendBool(dst, q.Mode != codec.ReasoningOff)
		if q.Mode == codec.ReasoningBudget {
			dst = append(dst, `,"thinking_budget":`...)
			dst = strconv.AppendInt(dst, q.Budget, 10)
		}
	case w.d.EffortMember == "" || len(q.Effort) == 0:
		w.r.Notes.Drop("thinking")
	}
	return dst
}

func (w *requestWriter) output(dst []byte) []byte {
	out := &w.r.Output
	switch {
	case out.Kind == codec.OutputSchema && w.d.JSONSchema:
		dst = append(dst, `,"response_format":{"type":"json_schema","json_schema":{"name":"`...)
		if len(out.Name) > 0 {
			dst = append(dst, out.Name...)
		} else {
			dst = append(dst, "structured_output"...)
		}
		dst = append(dst, '"')
		if len(out.Description) > 0 {
			dst = append(dst, `,"description":`...)
			dst = scan.QuoteBody(dst, out.Description)
		}
		if out.Schema != nil {
			dst = append(dst, `,"schema":`...)
			dst = append(dst, out.Schema...)
		}
		if out.Strict != codec.Unset {
			dst = append(dst, `,"strict":`...)
			dst = strconv.AppendBool(dst, out.Strict == codec.True)
		}
		return append(dst, `}}`...)
	case out.Kind == codec.OutputText:
		return dst
	case out.Kind == codec.OutputSchema:
		w.r.Notes.Drop("response_format.json_schema")
	case !w.d.JSONObject:
		w.r.Notes.Drop("response_format")
	}
	if w.d.JSONObject {
		dst = append(dst, `,"response_format":{"type":"json_object"}`...)
	}
	return dst
}

// bookkeeping writes members that do not affect the answer.
func (w *requestWriter) bookkeeping(dst []byte) []byte {
	r, stores := w.r, w.d.Store
	user := r.User
	if len(user) == 0 && !stores {
		user = r.SafetyIdentifier
	}
	dst = w.body(dst, w.d.UserMember, "user", user, w.d.UserMember != "" && w.takesUser(user))
	dst = w.body(dst, "safety_identifier", "safety_identifier", r.SafetyIdentifier, stores)
	dst = w.body(dst, "prompt_cache_key", "prompt_cache_key", r.PromptCacheKey, stores)
	dst = w.body(dst, "service_tier", "service_tier", r.ServiceTier, stores)
	dst = w.body(dst, "verbosity", "verbosity", r.Verbosity, stores)
	for _, m := range r.Shared {
		dst = w.raw(dst, string(m.Name), string(m.Name), m.Value, stores)
	}
	dst = w.boolean(dst, "store", "store", r.Store, stores)
	return w.raw(dst, "metadata", "metadata", r.Metadata, stores)
}

// takesUser checks DeepSeek's restriction on user_id (docs/wire/fourth-provider.md#2.2).
func (w *requestWriter) takesUser(user []byte) bool {
	if w.d.Name != dialectDeepSeek {
		return true
	}
	for _, c := range user {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return len(user) <= 512
}

// drop notes something with a client-chosen name.
func (w *requestWriter) drop(where string, name []byte) {
	if w.notes < maxNotes && isMemberName(string(name)) {
		w.notes++
		w.r.Notes.Drop(where + string(name))
	}
}

// raw writes a member with a raw value, or notes under the client's name for it that it was dropped.
func (w *requestWriter) raw(dst []byte, name, clients string, value []byte, takes bool) []byte {
	switch {
	case value == nil:
		return dst
	case !takes:
		w.r.Notes.Drop(clients)
		return dst
	}
	return append(appendName(dst, name), value...)
}

func (w *requestWriter) body(dst []byte, name, clients string, body []byte, takes bool) []byte {
	switch {
	case len(body) == 0:
		return dst
	case !takes:
		w.r.Notes.Drop(clients)
		return dst
	}
	return scan.QuoteBody(appendName(dst, name), body)
}

func (w *requestWriter) boolean(dst []byte, name, clients string, value codec.Tristate, takes bool) []byte {
	switch {
	case value == codec.Unset:
		return dst
	case !takes:
		w.r.Notes.Drop(clients)
		return dst
	}
	return strconv.AppendBool(appendName(dst, name), value == codec.True)
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	return append(dst, `":`...)
}
