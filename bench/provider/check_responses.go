package provider

import (
	"fmt"
	"strings"
)

var responsesMembers = words(`model input instructions access_programs background context_management conversation image
	include max_output_tokens max_tool_calls metadata moderation parallel_tool_calls previous_response_id prompt
	prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream
	stream_options temperature text tool_choice tools top_logprobs top_p truncation user client_metadata`)

var includeValues = words(`reasoning.encrypted_content message.output_text.logprobs message.input_image.image_url
	file_search_call.results web_search_call.results web_search_call.action.sources code_interpreter_call.outputs
	computer_call_output.output.image_url`)

// checkResponses refuses what OpenAI refuses. pending are the calls of the previous response, stored the answers
// whose items a request may refer to.
func checkResponses(o object, model string, items []raw, pending []string, stored *storedAnswers) *fault {
	if name, ok := o.stranger(responsesMembers); ok {
		return unknownParameter(name)
	}
	if model == "" && !o.has("prompt") {
		return missingParameter("model")
	}
	if strings.HasPrefix(model, "claude") || strings.HasPrefix(model, "gemini") {
		return refuse("model", "The requested model '%s' does not exist.", model).coded("model_not_found")
	}
	if isSearchModel(model) {
		return &fault{class: classNotFound, param: "model", message: "This model is only supported in v1/chat/completions and not in v1/responses."}
	}
	switch {
	case o.has("previous_response_id") && o.has("conversation"):
		return refuse("previous_response_id", "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.").coded("mutually_exclusive_parameters")
	case !o.has("input") && !o.has("prompt") && !o.has("previous_response_id") && !o.has("conversation"):
		return missingParameter("input")
	case o.has("input") && o["input"][0] != '"' && o["input"][0] != '[':
		return invalidType("input", "one of a string or array of objects", o["input"])
	}
	for _, check := range []func(object, string) *fault{checkResponsesOptions, checkResponsesReasoning, checkResponsesTools} {
		if refusal := check(o, model); refusal != nil {
			return refusal
		}
	}
	if refusal := checkBookkeeping(o); refusal != nil {
		return refusal
	}
	for i, value := range items {
		if refusal := checkItem(value, fmt.Sprintf("input[%d]", i)); refusal != nil {
			return refusal
		}
	}
	if refusal := checkItemReferences(items, stored); refusal != nil {
		return refusal
	}
	return checkItemPairs(items, pending)
}

func checkResponsesOptions(o object, model string) *fault {
	for i, value := range o.list("include") {
		if s, _ := parseString(value); !includeValues[s] {
			return invalidValue(fmt.Sprintf("include[%d]", i), s, quoteList(includeValues))
		}
	}
	text := o.object("text")
	if name, ok := text.stranger(words("format verbosity")); ok {
		return unknownParameter("text." + name)
	}
	switch format := text.object("format"); format.text("type") {
	case "json_schema":
		if name, ok := format.stranger(words("type name schema description strict")); ok {
			return unknownParameter("text.format." + name)
		}
		if refusal := checkJSONSchema("text.format", format); refusal != nil {
			return refusal
		}
	case "json_object":
		if !strings.Contains(strings.ToLower(string(o["input"])+string(o["instructions"])), "json") {
			return refuse("input", "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.")
		}
	case "", "text":
	default:
		return invalidValue("text.format.type", format.text("type"), "'text', 'json_schema', and 'json_object'")
	}
	return checkBounds(o, []bound{
		{"max_output_tokens", 16, 1 << 31, true}, {"temperature", 0, 2, false}, {"top_p", 0, 1, false}, {"top_logprobs", 0, 20, true},
	})
}

func checkResponsesReasoning(o object, model string) *fault {
	reasoning := o.object("reasoning")
	if name, ok := reasoning.stranger(words("effort summary generate_summary context mode")); ok {
		return unknownParameter("reasoning." + name)
	}
	if isReasoningModel(model) {
		for name, neutral := range map[string]float64{"temperature": 1, "top_p": 1, "top_logprobs": 0} {
			if n, ok := o.number(name); ok && n != neutral {
				return unsupportedParameter(name, "")
			}
		}
	} else if isOpenAIModel(model) {
		for _, name := range []string{"effort", "summary"} {
			if reasoning.has(name) {
				return unsupportedParameter("reasoning."+name, "")
			}
		}
	}
	if summary := reasoning.text("summary"); summary != "" && summary != "auto" && summary != "concise" && summary != "detailed" {
		return invalidValue("reasoning.summary", summary, "'auto', 'concise', and 'detailed'")
	}
	return checkEffort("reasoning.effort", reasoning.text("effort"))
}

var responsesToolTypes = words(`function custom namespace tool_search web_search web_search_2025_08_26 web_search_preview
	web_search_preview_2025_03_11 file_search computer computer_use_preview mcp code_interpreter image_generation local_shell
	shell apply_patch programmatic_tool_calling`)

func checkResponsesTools(o object, _ string) *fault {
	declared := map[string]bool{}
	if refusal := checkToolList(o.list("tools"), "tools", declared); refusal != nil {
		return refusal
	}
	choice := o.object("tool_choice")
	if choice == nil {
		if word := o.text("tool_choice"); o.has("tool_choice") && word != "none" && word != "auto" && word != "required" {
			return invalidValue("tool_choice", word, "'none', 'auto', and 'required'")
		}
		return nil
	}
	if kind := choice.text("type"); (kind == "function" || kind == "custom") && !declared[choice.text("name")] {
		return refuse("tool_choice", "Tool choice '%s' '%s' not found in 'tools' parameter.", kind, choice.text("name"))
	}
	return nil
}

func checkToolList(tools []raw, path string, declared map[string]bool) *fault {
	for i, value := range tools {
		at := fmt.Sprintf("%s[%d]", path, i)
		entry, ok := parseObject(value)
		if !ok {
			return invalidType(at, "an object", value)
		}
		kind, name := entry.text("type"), entry.text("name")
		if !responsesToolTypes[kind] {
			return invalidValue(at+".type", kind, quoteList(responsesToolTypes))
		}
		if kind != "function" && kind != "custom" && kind != "namespace" {
			continue
		}
		if !entry.has("name") {
			return missingParameter(at + ".name")
		}
		if refusal := checkName(at+".name", name, 64); refusal != nil {
			return refusal
		}
		declared[name] = true
		switch kind {
		case "function":
			if stranger, ok := entry.stranger(words("type name description parameters strict output_schema defer_loading async allowed_callers")); ok {
				return unknownParameter(at + "." + stranger)
			}
			if refusal := checkFunctionSchema(at+".parameters", name, entry["parameters"], entry.flag("strict")); refusal != nil {
				return refusal
			}
		case "namespace":
			if refusal := checkToolList(entry.list("tools"), at+".tools", map[string]bool{}); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}
