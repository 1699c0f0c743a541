package responses

import (
	"bytes"
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
	dst = append(dst, `,"completed_at":`...)
	dst = e.appendCompleted(dst, status)
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
	if e.echoed == nil {
		e.echoed = e.appendEchoes(nil)
	}
	dst = append(dst, e.echoed...)
	ended := status != statusInProgress && status != StatusQueued
	dst = append(dst, `,"output":[`...)
	if ended {
		dst = e.outputList.append(dst)
	}
	dst = append(dst, `],"usage":`...)
	if !ended {
		return append(dst, "null}"...)
	}
	input := e.o.EstimatedInput
	if status == statusFailed || status == StatusCancelled {
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

// echoes are the members that an answer repeats, and their values if the request does not have them. Those that are
// objects are completed with the members of their own that clients require.
var echoes = [...]struct {
	name, absent string
	whole        []member
}{
	{"access_programs", "null", nil},
	{"background", "false", nil},
	{"frequency_penalty", "0", nil},
	{"instructions", "null", nil},
	{"max_output_tokens", "null", nil},
	{"max_tool_calls", "null", nil},
	{"metadata", "{}", nil},
	{"parallel_tool_calls", "true", nil},
	{"presence_penalty", "0", nil},
	{"previous_response_id", "null", nil},
	{"prompt_cache_key", "null", nil},
	{"reasoning", `{"effort":null,"summary":null}`, []member{{"effort", "null"}, {"summary", "null"}}},
	{"safety_identifier", "null", nil},
	{"service_tier", `"default"`, nil},
	{"store", "true", nil},
	{"temperature", "1", nil},
	{"text", `{"format":{"type":"text"}}`, []member{{"format", `{"type":"text"}`}}},
	{"tool_choice", `"auto"`, nil},
	{"tools", "[]", nil},
	{"top_logprobs", "0", nil},
	{"top_p", "1", nil},
	{"truncation", `"disabled"`, nil},
	{"user", "null", nil},
}

// member is a member of an object, with its raw value.
type member struct{ name, value string }

// functionMembers are the members that every function has in an answer. A function is not strict unless its request
// says so, because that is how other providers are asked.
var functionMembers = []member{{"description", "null"}, {"parameters", "null"}, {"strict", "false"}}

func (e *streamEncoder) appendEchoes(dst []byte) []byte {
	for i := range echoes {
		echo := &echoes[i]
		dst = append(dst, `,"`...)
		dst = append(dst, echo.name...)
		dst = append(dst, `":`...)
		switch value := e.asked(echo.name); {
		case value == nil && echo.name == "previous_response_id" && e.o.Previous != "":
			dst = scan.Quote(dst, e.o.Previous)
		case value == nil:
			dst = append(dst, echo.absent...)
		case echo.name == "tools":
			dst = appendTools(dst, value)
		case echo.whole != nil:
			dst = appendWhole(dst, value, echo.whole)
		default:
			dst = appendFlat(dst, value)
		}
	}
	return dst
}

// asked returns the request's value of a member, nil if it has none.
func (e *streamEncoder) asked(name string) []byte {
	if r := e.o.Request; r != nil {
		for i := range r.Echo {
			if string(r.Echo[i].Name) == name {
				return r.Echo[i].Value
			}
		}
	}
	return nil
}

func appendTools(dst, tools []byte) []byte {
	dst = append(dst, '[')
	first := len(dst)
	for t := scan.Array(tools); t.Next(); {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		if string(scan.Get(t.Value, "type")) == `"function"` {
			dst = appendWhole(dst, t.Value, functionMembers)
		} else {
			dst = appendFlat(dst, t.Value)
		}
	}
	return append(dst, ']')
}

// appendWhole copies an object and adds the members that it lacks.
func appendWhole(dst, object []byte, members []member) []byte {
	if !scan.IsObject(object) {
		return appendFlat(dst, object)
	}
	var has uint
	any := false
	for m := scan.Object(object); m.Next(); any = true {
		for i := range members {
			if string(m.Key) == members[i].name {
				has |= 1 << i
			}
		}
	}
	dst = appendFlat(dst, object)
	dst = dst[:bytes.LastIndexByte(dst, '}')]
	for i := range members {
		if has&(1<<i) != 0 {
			continue
		}
		if any {
			dst = append(dst, ',')
		}
		any = true
		dst = append(dst, '"')
		dst = append(dst, members[i].name...)
		dst = append(dst, `":`...)
		dst = append(dst, members[i].value...)
	}
	return append(dst, '}')
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

// appendCompleted writes when the answer was completed. Only a complete answer was.
func (e *streamEncoder) appendCompleted(dst []byte, status string) []byte {
	if status != statusCompleted {
		return append(dst, "null"...)
	}
	completed := e.created()
	if e.o.Clock != nil {
		completed = max(completed, e.o.Clock().Unix())
	}
	return strconv.AppendInt(dst, completed, 10)
}

func (e *streamEncoder) created() int64 {
	if e.o.Created.IsZero() {
		return 0
	}
	return e.o.Created.Unix()
}
