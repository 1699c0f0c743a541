package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// minOutput is the smallest max_output_tokens that the format accepts.
const minOutput = 16

// encoder writes one request: an object whose last member is the input, so that a longer history changes only the end
// of the body and the provider's prompt cache keeps hitting.
type encoder struct {
	dst    []byte
	r      *codec.Request
	t      *codec.Target
	custom map[string]bool // ids of calls of custom tools, to recognize their results; nil: there are none
	first  bool            // no element of the current list has been written
}

// AppendRequest implements [codec.ProviderCodec].
func (provider) AppendRequest(dst []byte, r *codec.Request, t *codec.Target) ([]byte, error) {
	e := encoder{dst: dst, r: r, t: t}
	e.raw(`{"model":`)
	e.dst = scan.Quote(e.dst, t.Model)
	if r.Stream {
		e.raw(`,"stream":true`)
	}
	e.state()
	e.sampling()
	e.reasoning()
	e.text()
	e.identity()
	e.tools()
	e.choice()
	e.unsaid()
	if body, ok := e.instructions(); ok {
		e.raw(`,"instructions":`)
		e.body(body)
	}
	e.raw(`,"input":[`)
	e.input()
	e.raw(`]}`)
	return e.dst, nil
}

func (e *encoder) raw(s string) { e.dst = append(e.dst, s...) }

// body writes a string value around a string body.
func (e *encoder) body(b []byte) { e.dst = scan.QuoteBody(e.dst, b) }

// stringMember writes a member whose value is a string body, unless it is absent.
func (e *encoder) stringMember(name string, body []byte) {
	if body != nil {
		e.raw(name)
		e.body(body)
	}
}

// rawMember writes a member whose value is raw JSON, unless it is absent.
func (e *encoder) rawMember(name string, value []byte) {
	if len(value) > 0 {
		e.raw(name)
		e.dst = append(e.dst, value...)
	}
}

func (e *encoder) booleanMember(name string, t codec.Tristate) {
	switch t {
	case codec.True:
		e.raw(name)
		e.raw("true")
	case codec.False:
		e.raw(name)
		e.raw("false")
	}
}

// state writes what the provider should store and return besides the answer, and the response that the request
// continues.
func (e *encoder) state() {
	e.booleanMember(`,"store":`, e.r.Store)
	logprobs := e.r.Logprobs == codec.True
	switch {
	case e.r.IncludeState && logprobs:
		e.raw(`,"include":["` + includeState + `","` + includeLogprobs + `"]`)
	case e.r.IncludeState:
		e.raw(`,"include":["` + includeState + `"]`)
	case logprobs:
		e.raw(`,"include":["` + includeLogprobs + `"]`)
	}
	e.stringMember(`,"previous_response_id":`, e.r.PreviousResponse)
}

func (e *encoder) sampling() {
	if n := e.r.MaxOutput; n >= 0 {
		if n < minOutput {
			e.r.Notes.Emulate("max_output_tokens")
		}
		e.raw(`,"max_output_tokens":`)
		e.dst = strconv.AppendInt(e.dst, max(n, minOutput), 10)
	}
	e.rawMember(`,"temperature":`, e.r.Temperature)
	e.rawMember(`,"top_p":`, e.r.TopP)
	e.rawMember(`,"top_logprobs":`, e.r.TopLogprobs)
	if len(e.r.Tools) > 0 {
		e.booleanMember(`,"parallel_tool_calls":`, e.r.ParallelTools)
	}
}

func (e *encoder) reasoning() {
	r := &e.r.Reasoning
	summary := r.Summary
	if summary == nil && r.Visible == codec.True {
		summary = []byte("auto")
	}
	if r.Visible == codec.False {
		summary = nil
	}
	if r.Effort == nil && summary == nil {
		return
	}
	e.raw(`,"reasoning":{`)
	if r.Effort != nil {
		e.raw(`"effort":`)
		e.body(r.Effort)
		if summary != nil {
			e.raw(`,`)
		}
	}
	e.stringMember(`"summary":`, summary)
	e.raw(`}`)
}

func (e *encoder) text() {
	o := &e.r.Output
	if o.Kind == codec.OutputText && e.r.Verbosity == nil {
		return
	}
	e.raw(`,"text":{`)
	switch o.Kind {
	case codec.OutputJSON:
		e.raw(`"format":{"type":"json_object"}`)
	case codec.OutputSchema:
		name := o.Name
		if len(name) == 0 {
			name = []byte("structured_output") // required here, and other formats have no name
		}
		e.raw(`"format":{"type":"json_schema","name":`)
		e.body(name)
		e.stringMember(`,"description":`, o.Description)
		e.rawMember(`,"schema":`, o.Schema)
		e.booleanMember(`,"strict":`, o.Strict)
		e.raw(`}`)
	}
	if e.r.Verbosity != nil {
		if o.Kind != codec.OutputText {
			e.raw(`,`)
		}
		e.raw(`"verbosity":`)
		e.body(e.r.Verbosity)
	}
	e.raw(`}`)
}

func (e *encoder) identity() {
	e.stringMember(`,"user":`, e.r.User)
	e.stringMember(`,"safety_identifier":`, e.r.SafetyIdentifier)
	e.stringMember(`,"prompt_cache_key":`, e.r.PromptCacheKey)
	e.stringMember(`,"service_tier":`, e.r.ServiceTier)
	e.rawMember(`,"metadata":`, e.r.Metadata)
	for _, m := range e.r.Shared {
		e.raw(`,"`)
		e.raw(string(m.Name))
		e.raw(`":`)
		e.dst = append(e.dst, m.Value...)
	}
}

// unsaid notes settings that this format has no member for.
func (e *encoder) unsaid() {
	r := e.r
	drop := func(present bool, name string) {
		if present {
			r.Notes.Drop(name)
		}
	}
	drop(r.TopK != nil, "top_k")
	drop(r.Seed != nil, "seed")
	drop(r.PresencePenalty != nil, "presence_penalty")
	drop(r.FrequencyPenalty != nil, "frequency_penalty")
	drop(r.LogitBias != nil, "logit_bias")
	drop(r.N > 1, "n")
	drop(len(r.Stop) > 0, "stop")
	drop(r.CacheControl != nil, "cache_control")
}

// instructions returns the opening text if it is one string, which is all that the member takes. Several blocks are not
// joined, since that would change the bytes that caches compare; they become the first message of the input.
func (e *encoder) instructions() ([]byte, bool) {
	parts := e.r.Instructions
	if len(parts) != 1 || parts[0].Kind != codec.PartText || parts[0].Breakpoint != nil {
		return nil, false
	}
	return parts[0].Text, true
}
