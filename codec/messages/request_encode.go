package messages

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// fallbackMaxOutput is the output limit if neither the client nor the model's data have one, since the format requires
// it (docs/wire/translation.md#2.2).
const fallbackMaxOutput = 32000

// AppendRequest writes the body of a message request. The list of messages comes last and nothing before it depends on
// it, so that each turn's request is the beginning of the next one's.
func (provider) AppendRequest(dst []byte, r *codec.Request, t *codec.Target) ([]byte, error) {
	e := requestEncoder{dst: dst, r: r, t: t}
	e.dropped()
	e.limits()
	e.sampling()
	e.bookkeeping()
	e.reasoning()
	e.output()
	if err := e.tools(); err != nil {
		return dst, err
	}
	e.system()
	if err := e.messages(); err != nil {
		return dst, err
	}
	e.raw("}")
	return e.dst, nil
}

// requestEncoder writes one request.
type requestEncoder struct {
	dst     []byte
	r       *codec.Request
	t       *codec.Target
	opening int  // messages moved to system
	listed  bool // the current list has an element
}

func (e *requestEncoder) raw(text string) { e.dst = append(e.dst, text...) }

func (e *requestEncoder) bytes(b []byte) { e.dst = append(e.dst, b...) }

// member writes the name of a member that is not the first.
func (e *requestEncoder) member(name string) {
	e.raw(`,"`)
	e.raw(name)
	e.raw(`":`)
}

// body writes a string value.
func (e *requestEncoder) body(b []byte) { e.dst = scan.QuoteBody(e.dst, b) }

// element begins another element of the current list.
func (e *requestEncoder) element() {
	if e.listed {
		e.raw(",")
	}
	e.listed = true
}

// dropped notes the members that the format lacks.
func (e *requestEncoder) dropped() {
	r := e.r
	r.DropShared()
	for _, absent := range [...]struct {
		name string
		set  bool
	}{
		{"seed", r.Seed != nil},
		{"presence_penalty", r.PresencePenalty != nil},
		{"frequency_penalty", r.FrequencyPenalty != nil},
		{"logit_bias", r.LogitBias != nil},
		{"verbosity", r.Verbosity != nil},
		{"metadata", r.Metadata != nil},
		{"store", r.Store == codec.True},
	} {
		if absent.set {
			r.Notes.Drop(absent.name)
		}
	}
}

func (e *requestEncoder) limits() {
	e.raw(`{"model":`)
	e.dst = appendQuoted(e.dst, e.t.Model)
	limit := e.r.MaxOutput
	if limit < 0 {
		limit = e.t.DefaultMaxOutput
		if limit <= 0 {
			limit = fallbackMaxOutput
		}
		if e.t.MaxOutput > 0 {
			limit = min(limit, e.t.MaxOutput)
		}
	}
	e.member("max_tokens")
	e.dst = appendInt(e.dst, limit)
	if e.r.Stream {
		e.member("stream")
		e.raw("true")
	}
	e.stops()
}

// stops drops white-space sequences, which providers refuse.
func (e *requestEncoder) stops() {
	e.listed = false
	for _, stop := range e.r.Stop {
		if scan.Blank(stop) {
			e.r.Notes.Drop("stop")
			continue
		}
		if !e.listed {
			e.member("stop_sequences")
			e.raw("[")
		}
		e.element()
		e.body(stop)
	}
	if e.listed {
		e.raw("]")
	}
}

func (e *requestEncoder) bookkeeping() {
	user := e.r.SafetyIdentifier
	if user == nil {
		user = e.r.User
	}
	if len(user) > 0 {
		e.member("metadata")
		e.raw(`{"user_id":`)
		e.body(user)
		e.raw("}")
	}
	e.serviceTier()
	if e.r.CacheControl != nil {
		e.member("cache_control")
		e.bytes(e.r.CacheControl)
	}
}

// serviceTier writes the tiers that the format has words for. Priority would be speed "fast", which most models refuse
// without a beta header, so it is dropped.
func (e *requestEncoder) serviceTier() {
	switch string(e.r.ServiceTier) {
	case "":
	case "auto":
		e.member("service_tier")
		e.raw(`"auto"`)
	case "default":
		e.member("service_tier")
		e.raw(`"standard_only"`)
	default:
		e.r.Notes.Drop("service_tier")
	}
}

// thinks reports whether the request asks the model to think.
func (e *requestEncoder) thinks() bool {
	mode := e.r.Reasoning.Mode
	return (mode == codec.ReasoningBudget || mode == codec.ReasoningAdaptive) && !e.forced()
}

// forced reports whether a tool must be called. Providers refuse that together with thinking.
func (e *requestEncoder) forced() bool {
	if len(e.r.Tools) == 0 || !e.t.ForcedTools {
		return false
	}
	choice := &e.r.ToolChoice
	switch choice.Mode {
	case codec.ChoiceRequired, codec.ChoiceTool, codec.ChoiceHosted:
		return true
	case codec.ChoiceAllowed:
		return choice.AllowedRequired
	}
	return false
}

func (e *requestEncoder) reasoning() {
	reasoning := &e.r.Reasoning
	switch {
	case reasoning.Mode == codec.ReasoningUnset:
		return
	case reasoning.Mode == codec.ReasoningOff:
		e.member("thinking")
		e.raw(`{"type":"disabled"}`)
		return
	case !e.thinks():
		e.r.Notes.Drop("reasoning")
		return
	}
	e.member("thinking")
	if reasoning.Mode == codec.ReasoningBudget {
		e.raw(`{"type":"enabled","budget_tokens":`)
		e.dst = appendInt(e.dst, reasoning.Budget)
	} else {
		e.raw(`{"type":"adaptive"`)
	}
	if display := e.display(); display != nil {
		e.member("display")
		e.body(display)
	}
	e.raw("}")
}

// display returns the word for whether the client wants to see the thinking, nil if it left that open.
func (e *requestEncoder) display() []byte {
	switch reasoning := &e.r.Reasoning; {
	case reasoning.Display != nil || reasoning.Visible == codec.Unset:
		return reasoning.Display
	case reasoning.Visible == codec.True:
		return []byte("summarized")
	default:
		return []byte("omitted")
	}
}

// output writes output_config. The format has no form for any JSON object: crossing requests it in words.
func (e *requestEncoder) output() {
	schema := e.r.Output.Kind == codec.OutputSchema && e.r.Output.Schema != nil
	effort := e.r.Reasoning.Effort
	if !schema && effort == nil {
		return
	}
	e.member("output_config")
	e.raw("{")
	if effort != nil {
		e.raw(`"effort":`)
		e.body(effort)
	}
	if schema {
		if effort != nil {
			e.raw(",")
		}
		e.raw(`"format":{"type":"json_schema","schema":`)
		e.dst = appendOutputSchema(e.dst, e.r.Output.Schema)
		e.raw("}")
	}
	e.raw("}")
}

// system writes the opening text, one block per part: providers read some blocks by position, and cache by block.
// Opening system messages belong to it.
func (e *requestEncoder) system() {
	e.listed = false
	for i := range e.r.Instructions {
		e.systemBlock(&e.r.Instructions[i])
	}
	for ; e.opening < len(e.r.Messages); e.opening++ {
		m := &e.r.Messages[e.opening]
		if m.Role != codec.RoleSystem && m.Role != codec.RoleDeveloper {
			break
		}
		for i := range m.Parts {
			e.systemBlock(&m.Parts[i])
		}
	}
	if e.listed {
		e.raw("]")
	}
}

func (e *requestEncoder) systemBlock(p *codec.Part) {
	if p.Kind != codec.PartText || len(p.Text) == 0 {
		return
	}
	if !e.listed {
		e.member("system")
		e.raw("[")
	}
	e.element()
	e.text(p)
}
