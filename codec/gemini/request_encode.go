package gemini

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/schemacache"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// AppendRequest writes the body of generateContent and streamGenerateContent; the model is in the path. The list that
// grows with the conversation comes last, so that each turn's body, up to the end of that list, is the beginning of the
// next one's.
func (p *provider) AppendRequest(dst []byte, r *codec.Request, t *codec.Target) ([]byte, error) {
	w := writer{dst: append(dst, '{'), r: r, t: t, schemas: p.schemas}
	first := w.systemInstruction()
	tools := w.tools()
	w.toolConfig(tools)
	w.generationConfig(tools)
	if err := w.contents(first); err != nil {
		return dst, err
	}
	w.noteDropped()
	return append(w.dst, '}'), nil
}

// writer appends one request. It keeps no separators: a comma is needed unless the last byte opens an object or a list.
type writer struct {
	dst     []byte
	r       *codec.Request
	t       *codec.Target
	schemas *schemacache.Cache[cleanSchema]

	turn   turn // the open content
	called bool // the open content holds a call
}

// thirdGeneration reports whether a model is of the third generation or later: they think in levels, sign their calls,
// and accept images in results and functions next to built-in tools.
func (w *writer) thirdGeneration() bool {
	return w.t.Thinking == codec.ThinkingLevel || w.t.NeedsSignature
}

func (w *writer) name(name string) { w.dst = appendName(w.dst, name) }
func (w *writer) comma()           { w.dst = appendComma(w.dst) }
func (w *writer) write(raw string) { w.dst = append(w.dst, raw...) }

// raw writes a member with a raw JSON value; nil writes nothing.
func (w *writer) raw(name string, value []byte) { w.dst = appendRaw(w.dst, name, value) }

// fixed writes a constant member, or the beginning of one.
func (w *writer) fixed(name, value string) {
	w.name(name)
	w.write(value)
}

// string writes a member whose value is a string body; nil writes nothing.
func (w *writer) string(name string, body []byte) {
	if body == nil {
		return
	}
	w.name(name)
	w.dst = scan.QuoteBody(w.dst, body)
}

func (w *writer) int(name string, n int64) {
	w.name(name)
	w.dst = strconv.AppendInt(w.dst, n, 10)
}

// systemInstruction collects the instructions and the opening system messages, one part each, and returns how many
// messages it used. There must be a message left: if all are system messages, the last one stays.
func (w *writer) systemInstruction() int {
	leading := 0
	for leading < len(w.r.Messages)-1 && isSystem(w.r.Messages[leading].Role) {
		leading++
	}
	before := len(w.dst)
	w.name("systemInstruction")
	w.write(`{"parts":[`)
	empty := len(w.dst)
	w.textParts(w.r.Instructions)
	for i := range w.r.Messages[:leading] {
		w.textParts(w.r.Messages[i].Parts)
	}
	if len(w.dst) == empty {
		w.dst = w.dst[:before]
		return leading
	}
	w.write(`]}`)
	return leading
}

func isSystem(role codec.Role) bool { return role == codec.RoleSystem || role == codec.RoleDeveloper }

// textParts writes what an instruction can hold.
func (w *writer) textParts(parts []codec.Part) {
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind != codec.PartText:
			w.r.Notes.Drop("system." + partName(p))
		case len(p.Text) > 0:
			w.comma()
			w.write(`{"text":`)
			w.dst = scan.QuoteBody(w.dst, p.Text)
			w.write(`}`)
		}
	}
}

func (w *writer) generationConfig(tools declared) {
	r := w.r
	before := len(w.dst)
	w.name("generationConfig")
	w.write(`{`)
	empty := len(w.dst)
	if r.MaxOutput > 0 {
		w.int("maxOutputTokens", r.MaxOutput)
	}
	w.raw("temperature", r.Temperature)
	w.raw("topP", r.TopP)
	w.raw("topK", r.TopK)
	w.seed()
	w.raw("presencePenalty", r.PresencePenalty)
	w.raw("frequencyPenalty", r.FrequencyPenalty)
	w.stopSequences()
	w.responseFormat(tools)
	w.thinkingConfig()
	if len(w.dst) == empty {
		w.dst = w.dst[:before]
		return
	}
	w.write(`}`)
}

// seed has 32 bits here; clients may send more.
func (w *writer) seed() {
	const limit = 1<<31 - 1
	if w.r.Seed == nil {
		return
	}
	if n, ok := scan.Int(w.r.Seed); !ok || n > limit || n < -limit-1 {
		w.r.Notes.Drop("seed")
		return
	}
	w.raw("seed", w.r.Seed)
}

func (w *writer) stopSequences() {
	stops := w.r.Stop
	if len(stops) == 0 {
		return
	}
	w.name("stopSequences")
	w.write(`[`)
	for _, stop := range stops {
		w.comma()
		w.dst = scan.QuoteBody(w.dst, stop)
	}
	w.write(`]`)
}

// responseFormat requests JSON. Models before the third generation refuse that together with functions: tools win
// (docs/wire/translation.md#2.8).
func (w *writer) responseFormat(tools declared) {
	out := &w.r.Output
	if out.Kind == codec.OutputText {
		return
	}
	if tools.functions > 0 && !w.thirdGeneration() {
		w.r.Notes.Drop("response_format")
		return
	}
	w.fixed("responseMimeType", `"application/json"`)
	if out.Kind == codec.OutputSchema && scan.IsObject(out.Schema) {
		w.raw("responseJsonSchema", w.schemas.Get(out.Schema).schema)
	}
}

// thinkingConfig writes the one form that the model accepts; both together are refused. The level or the budget is
// already in the model's terms.
func (w *writer) thinkingConfig() {
	r := &w.r.Reasoning
	before := len(w.dst)
	w.name("thinkingConfig")
	w.write(`{`)
	empty := len(w.dst)
	switch w.t.Thinking {
	case codec.ThinkingLevel:
		if r.Effort != nil {
			w.name("thinkingLevel")
			w.write(`"`)
			w.upper(r.Effort)
			w.write(`"`)
		}
	case codec.ThinkingBudget:
		switch r.Mode {
		case codec.ReasoningBudget:
			w.int("thinkingBudget", r.Budget)
		case codec.ReasoningOff:
			w.int("thinkingBudget", 0)
		}
	default:
		w.dst = w.dst[:before]
		return
	}
	if r.Visible == codec.True {
		w.fixed("includeThoughts", "true")
	}
	if len(w.dst) == empty {
		w.dst = w.dst[:before]
		return
	}
	w.write(`}`)
}

// upper writes a level word: the API spells its enumerations in capitals.
func (w *writer) upper(word []byte) {
	for _, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		w.dst = append(w.dst, c)
	}
}

// noteDropped notes the members that the format lacks.
func (w *writer) noteDropped() {
	r := w.r
	drop := func(name string, present bool) {
		if present {
			r.Notes.Drop(name)
		}
	}
	drop("logit_bias", r.LogitBias != nil)
	drop("n", r.N > 1)
	drop("logprobs", r.Logprobs == codec.True)
	drop("top_logprobs", r.TopLogprobs != nil)
	drop("verbosity", r.Verbosity != nil)
	drop("parallel_tool_calls", r.ParallelTools == codec.False)
	drop("store", r.Store == codec.True)
	drop("user", r.User != nil)
	drop("safety_identifier", r.SafetyIdentifier != nil)
	drop("prompt_cache_key", r.PromptCacheKey != nil)
	r.DropShared()
	drop("service_tier", r.ServiceTier != nil && string(r.ServiceTier) != "auto")
	drop("metadata", r.Metadata != nil && scan.Count(r.Metadata) > 0)
}

// appendComma appends a comma unless the last byte opens an object or a list.
func appendComma(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		return dst
	}
	return append(dst, ',')
}

func appendName(dst []byte, name string) []byte {
	dst = append(appendComma(dst), '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

func appendRaw(dst []byte, name string, value []byte) []byte {
	if value == nil {
		return dst
	}
	return append(appendName(dst, name), value...)
}
