package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// response writes the response object. Members that an answer repeats have the client's values if it sent them, and the
// format's defaults otherwise, because clients require them (docs/wire/responses.md#8).
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
		dst = e.outputList.append(dst)
	}
	dst = append(dst, `],"usage":`...)
	if status == statusInProgress {
		return append(dst, "null}"...)
	}
	input := e.o.EstimatedInput
	if status == statusFailed {
		input = 0 // nothing is estimated
	}
	return append(e.appendUsage(dst, input, e.size), '}')
}

func (e *streamEncoder) appendResponseID(dst []byte) []byte {
	if e.o.Begun != "" {
		return scan.Quote(dst, e.o.Begun)
	}
	dst = append(dst, `"`+answerPrefix...)
	return append(append(dst, e.o.ID...), '"')
}

// echoes are the members that an answer repeats, and their values if the request does not have them.
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
	if name == "previous_response_id" && e.o.Previous != "" {
		return scan.Quote(dst, e.o.Previous)
	}
	return append(dst, absent...)
}

// appendFlat copies a raw value without its line breaks. In a valid document they occur only between tokens, and inside
// an event a line break would end the data.
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
