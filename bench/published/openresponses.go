package published

import (
	"encoding/json"
	"fmt"
)

// The members that Open Responses requires of a response, of its settings and of its functions, beyond those that the
// types of the SDK require (docs/wire/responses.md#8). Those in whole must not be null.
var (
	openRequired = []string{
		"completed_at", "previous_response_id", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key",
	}
	openWhole = []string{
		"status", "truncation", "text", "presence_penalty", "frequency_penalty", "top_logprobs", "store", "background", "service_tier", "metadata",
	}
	openFunction  = []string{"description", "parameters", "strict"}
	openReasoning = []string{"effort", "summary"}
)

// openProblems returns where a response lacks what Open Responses requires.
func openProblems(at string, response []byte) []string {
	var members map[string]json.RawMessage
	if json.Unmarshal(response, &members) != nil {
		return nil // which the types say
	}
	found := lacking(at, members, openRequired, true)
	found = append(found, lacking(at, members, openWhole, false)...)
	found = append(found, lackingIn(at+".reasoning", members["reasoning"], openReasoning, true)...)
	found = append(found, lackingIn(at+".text", members["text"], []string{"format"}, false)...)
	var tools []json.RawMessage
	_ = json.Unmarshal(members["tools"], &tools)
	for i, tool := range tools {
		var named discriminator
		if json.Unmarshal(tool, &named) == nil && named.Type == "function" {
			found = append(found, lackingIn(fmt.Sprintf("%s.tools[%d]", at, i), tool, openFunction, true)...)
		}
	}
	return found
}

func lackingIn(at string, object json.RawMessage, names []string, nullable bool) []string {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil || members == nil {
		return nil
	}
	return lacking(at, members, names, nullable)
}

func lacking(at string, members map[string]json.RawMessage, names []string, nullable bool) (found []string) {
	for _, name := range names {
		switch value, has := members[name]; {
		case !has:
			found = append(found, at+"."+name+": Open Responses requires it, and it is missing")
		case !nullable && string(value) == "null":
			found = append(found, at+"."+name+": Open Responses requires it, and it is null")
		}
	}
	return found
}
