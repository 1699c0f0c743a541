package grid

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"
)

// said is an answer as a client understands it, in no particular format.
type said struct {
	Text      string
	Reasoning string
	Refusal   string
	Calls     []string // "name arguments", freeform calls as "name=input", namespaced ones as "namespace/name"
	Cited     []string // URLs
	Stop      string   // end, calls, length, filter, sequence
	Usage     counts
	Error     string // status and code of an error before the answer, or "broken off" and the code of one inside
}

type counts struct{ Input, Cached, Written, Output, Reasoning int64 }

// mustJSON returns v as JSON.
func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// members decodes an object; nil if it is not one.
func members(text string) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &all)
	return all
}

// text returns a string member, "" if there is none.
func text(object map[string]json.RawMessage, name string) string {
	var s string
	_ = json.Unmarshal(object[name], &s)
	return s
}

// failure returns an SDK's error in the grid's notation: the status before an answer, "broken off" inside one.
func failure(err error, started bool) said {
	status, code := 0, ""
	var fromOpenAI *openai.Error
	var fromAnthropic *anthropic.Error
	var fromGoogle genai.APIError
	switch {
	case errors.As(err, &fromOpenAI):
		status, code = fromOpenAI.StatusCode, fromOpenAI.Code
		if param := fromOpenAI.Param; param != "" {
			code += " " + param
		}
	case errors.As(err, &fromAnthropic):
		status = fromAnthropic.StatusCode
		code = text(members(string(members(fromAnthropic.RawJSON())["error"])), "type")
	case errors.As(err, &fromGoogle):
		status, code = fromGoogle.Code, fromGoogle.Status
	}
	if started {
		return said{Error: "broken off"}
	}
	if status == 0 {
		return said{Error: fmt.Sprint(err)}
	}
	return said{Error: strconv.Itoa(status) + " " + code}
}
