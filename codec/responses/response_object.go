package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// response writes the response object. Members that an answer repeats are the client's own where it sent them, and the
// format's defaults otherwise: clients require them to be there (docs/wire/responses.md#8).
func (e *streamEncoder) response(dst []byte, status string, failure *codec.Error) []byte {
	dst = append(dst, `{"id":`...)
	dst = e.appendResponseID(dst)
	dst = append(dst, `,"object":"response","created_at":`...)
	dst = strconv.AppendInt(dst, e.created(), 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","error":`...)
	if failure != nil {
		dst = appendFailure(dst, failure)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"incomplete_details":`...)
	dst = e.appendIncomplete(dst, status)
	dst = append(dst, `,"model":`...)
	dst = scan.QuoteBody(dst, e.model)
	for i := range echoes {
		dst = append(dst, `,"`...)
		dst = append(dst, echoes[i].name...)
		dst = append(dst, `":`...)
		dst = e.echo(dst, echoes[i].name, echoes[i].absent)
	}
	dst = append(dst, `,"output":[`...)
	if status != statusInProgress {
		dst = e.appendOutput(dst)
	}
	dst = append(dst, `],"usage":`...)
	if status == statusInProgress {
		return append(dst, "null}"...)
	}
	return append(e.appendUsage(dst, status != statusFailed), '}')
}

func (e *streamEncoder) appendResponseID(dst []byte) []byte {
	if e.o.Begun != "" {
		return scan.Quote(dst, e.o.Begun)
	}
	dst = append(dst, `"`+answerPrefix...)
	return append(append(dst, e.o.ID...), '"')
}

// echoes are the members that an answer repeats, and what they are when the request has none.
var echoes = [...]struct{ name, absent string }{
	{"access_programs", "null"},
	{"background", "false"},
	{"instructions", "null"},
	{"max_output_tokens", "null"},
	{"max_tool_calls", "null"},
	{"metadata", "{}"},
	{"parallel_tool_calls", "true"},
	{"previous_response_id", "null"},
	{"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`},
	{"safety_identifier", "null"},
	{"service_tier", `"default"`},
	{"store", "true"},
	{"temperature", "1"},
	{"text", `{"format":{"type":"text"}}`},
	{"tool_choice", `"auto"`},
	{"tools", "[]"},
	{"top_logprobs", "0"},
	{"top_p", "1"},
	{"truncation", `"disabled"`},
	{"user", "null"},
}

func (e *streamEncoder) echo(dst []byte, name, absent string) []byte {
	if r := e.o.Request; r != nil {
		for i := range r.Echo {
			if string(r.Echo[i].Name) == name {
				return appendFlat(dst, r.Echo[i].Value)
			}
		}
	}
	return append(dst, absent...)
}

// appendFlat copies a raw value without its line breaks: in a valid document those stand between tokens only, and
// inside an event a line break would end the data.
func appendFlat(dst, raw []byte) []byte {
	from := len(dst)
	dst = append(dst, raw...)
	for i := from; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}

func (e *streamEncoder) created() int64 {
	if e.o.Created.IsZero() {
		return 0
	}
	return e.o.Created.Unix()
}

func (e *streamEncoder) appendIncomplete(dst []byte, status string) []byte {
	switch {
	case status != statusIncomplete:
		return append(dst, "null"...)
	case e.finish == codec.FinishFilter:
		return append(dst, `{"reason":"content_filter"}`...)
	}
	return append(dst, `{"reason":"max_output_tokens"}`...)
}

func (e *streamEncoder) appendOutput(dst []byte) []byte {
	for i := range e.outputs {
		if i > 0 {
			dst = append(dst, ',')
		}
		if out := &e.outputs[i]; out.done {
			dst = append(dst, e.done[out.from:out.to]...)
		} else {
			dst = appendItem(dst, out, statusIncomplete)
		}
	}
	return dst
}

// bytesPerToken is the rule of thumb for an estimate (docs/wire/translation.md#3.2).
const bytesPerToken = 4

// appendUsage writes the counters, all members of both detail objects included: Codex fails on one that lacks its
// member (pitfall P28). Where the provider reported nothing they may be estimated, if the prompt's size is known.
func (e *streamEncoder) appendUsage(dst []byte, estimate bool) []byte {
	u := e.usage
	if !e.reported {
		if !estimate || e.o.EstimatedInput <= 0 {
			return append(dst, "null"...)
		}
		u = codec.Usage{InputUncached: e.o.EstimatedInput, Output: (e.size + bytesPerToken - 1) / bytesPerToken}
	}
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.TotalInput(), 10)
	dst = append(dst, `,"input_tokens_details":{"cached_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheRead, 10)
	dst = append(dst, `,"cache_write_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheWrite, 10)
	dst = append(dst, `},"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"output_tokens_details":{"reasoning_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	dst = append(dst, `},"total_tokens":`...)
	dst = strconv.AppendInt(dst, u.Total(), 10)
	return append(dst, '}')
}
