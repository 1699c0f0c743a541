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

// An itemRule is what an input item has to look like.
type itemRule struct {
	prefix   string // of its id
	required []string
	allowed  map[string]bool // nil: not checked
}

// Input items (wire sheet: responses, section 3). Items that the checker lets through unseen have no allowed set.
var itemRules = map[string]itemRule{
	"message":                 {prefix: "msg", required: []string{"role", "content"}, allowed: words("type id role content status phase")},
	"function_call":           {prefix: "fc", required: []string{"call_id", "name", "arguments"}, allowed: words("type id call_id name arguments status namespace caller async")},
	"function_call_output":    {prefix: "fc", required: []string{"output"}, allowed: words("type id call_id output name namespace caller status")},
	"custom_tool_call":        {prefix: "ctc", required: []string{"call_id", "name", "input"}, allowed: words("type id call_id name input namespace caller async status")},
	"custom_tool_call_output": {prefix: "ctc", required: []string{"call_id", "output"}, allowed: words("type id call_id output caller status name")},
	"reasoning":               {prefix: "rs", required: []string{"summary"}, allowed: words("type id summary encrypted_content content status")},
	"item_reference":          {required: []string{"id"}},
	"compaction":              {required: []string{"encrypted_content"}},
	"additional_tools":        {required: []string{"role", "tools"}},
	"compaction_trigger":      {}, "configuration_update": {}, "tool_search_call": {}, "tool_search_output": {},
	"web_search_call": {prefix: "ws"}, "file_search_call": {}, "computer_call": {}, "computer_call_output": {}, "image_generation_call": {},
	"code_interpreter_call": {}, "local_shell_call": {}, "local_shell_call_output": {}, "shell_call": {}, "shell_call_output": {},
	"apply_patch_call": {}, "apply_patch_call_output": {}, "mcp_list_tools": {}, "mcp_approval_request": {}, "mcp_approval_response": {},
	"mcp_call": {}, "program": {}, "program_output": {}, "agent_message": {}, "context_compaction": {},
}

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

// checkItemReferences checks items that stand for something the service keeps: references and reasoning without its
// content need a stored answer, and an item that followed reasoning needs that reasoning beside it.
func checkItemReferences(items []raw, stored *storedAnswers) *fault {
	present := map[string]bool{}
	for _, value := range items {
		item, _ := parseObject(value)
		present[item.text("id")] = true
	}
	for _, value := range items {
		item, _ := parseObject(value)
		id, kind := item.text("id"), item.text("type")
		stem, reasoning := parseItemID(id)
		bare := kind == "item_reference" || kind == "reasoning" && !item.has("encrypted_content")
		if _, kept := stored.get("resp_" + stem); bare && id != "" && !kept {
			f := refuse("input", "Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", id)
			f.status = 404
			return f
		}
		if reasoning != "" && !present[reasoning] {
			return refuse("input", "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, kind, reasoning)
		}
	}
	return nil
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

func checkItem(value raw, path string) *fault {
	item, ok := parseObject(value)
	if !ok {
		return invalidType(path, "an object", value)
	}
	kind := item.text("type")
	if !item.has("type") {
		kind = "item_reference"
		if item.has("role") {
			kind = "message"
		}
	}
	rule, known := itemRules[kind]
	if !known {
		return invalidValue(path+".type", kind, "the types of input items")
	}
	for _, name := range rule.required {
		if _, ok := item[name]; !ok {
			return missingParameter(path + "." + name)
		}
	}
	if rule.allowed != nil {
		if name, strange := item.stranger(rule.allowed); strange && name != "internal_chat_message_metadata_passthrough" {
			return unknownParameter(path + "." + name)
		}
	}
	if id := item.text("id"); id != "" && rule.prefix != "" {
		if !strings.HasPrefix(id, rule.prefix) {
			return refuse(path+".id", "Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", path, id, rule.prefix).coded("invalid_value")
		}
		if len(id) > 64 {
			return tooLong(path+".id", 64, len(id))
		}
	}
	if id := item.text("call_id"); len(id) > 64 {
		return tooLong(path+".call_id", 64, len(id))
	}
	switch kind {
	case "message":
		return checkItemMessage(item, path)
	case "function_call", "custom_tool_call":
		text := "arguments"
		if kind == "custom_tool_call" {
			text = "input"
		}
		if _, ok := parseString(item[text]); !ok {
			return invalidType(path+"."+text, "a string", item[text])
		}
		return checkName(path+".name", item.text("name"), 128)
	case "reasoning":
		return checkItemReasoning(item, path)
	}
	return nil
}

var itemParts = map[string]map[string]bool{
	"user":      words("input_text input_image input_file input_audio"),
	"system":    words("input_text input_image input_file"),
	"developer": words("input_text input_image input_file"),
	"assistant": words("output_text refusal"),
}

func checkItemMessage(item object, path string) *fault {
	role := item.text("role")
	allowed, known := itemParts[role]
	if !known {
		return invalidValue(path+".role", role, "'assistant', 'system', 'developer', and 'user'")
	}
	content := item["content"]
	switch content[0] {
	case '"':
		return nil
	case '[':
	default:
		return invalidType(path+".content", "one of an array of objects or string", content)
	}
	for j, value := range item.list("content") {
		part, _ := parseObject(value)
		at := fmt.Sprintf("%s.content[%d]", path, j)
		switch kind := part.text("type"); {
		case !allowed[kind]:
			return invalidValue(at, kind, quoteList(allowed))
		case kind == "input_text" || kind == "output_text":
			if !part.has("text") {
				return missingParameter(at + ".text")
			}
			if name, strange := part.stranger(words("type text annotations logprobs prompt_cache_breakpoint")); strange {
				return unknownParameter(at + "." + name)
			}
		case kind == "input_image" && part.has("image_url"):
			if refusal := checkImageURL(at+".image_url", part.text("image_url")); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// checkItemReasoning accepts only encrypted content that a simulated provider made.
func checkItemReasoning(item object, path string) *fault {
	if !item.has("encrypted_content") {
		return nil
	}
	if state := item.text("encrypted_content"); !isOpaque(stateEncrypted, state) {
		return refuse(path+".encrypted_content", "The encrypted content %s could not be verified. Reason: Encrypted content could not be decrypted or parsed.", firstCharacters(state, 12)).coded("invalid_encrypted_content")
	}
	return nil
}

// checkItemPairs checks that every call has its output behind it and every output its call before it, and that no
// reasoning item stands alone.
func checkItemPairs(items []raw, pending []string) *fault {
	open := map[string]bool{}
	for _, id := range pending {
		open[id] = true
	}
	order := append([]string(nil), pending...)
	for i, value := range items {
		item, _ := parseObject(value)
		kind, id := item.text("type"), item.text("call_id")
		switch kind {
		case "function_call", "custom_tool_call":
			if open[id] {
				return refuse(fmt.Sprintf("input[%d].call_id", i), "Duplicate call_id '%s' in input.", id).coded("invalid_value")
			}
			open[id] = true
			order = append(order, id)
		case "function_call_output", "custom_tool_call_output":
			if !open[id] {
				name := strings.ReplaceAll(strings.TrimSuffix(kind, "_output"), "_", " ")
				return refuse("input", "No tool call found for %s output with call_id %s.", name, id)
			}
			delete(open, id)
		case "reasoning":
			if !leadsSomewhere(items[i+1:]) {
				return refuse("input", "Item '%s' of type 'reasoning' was provided without its required following item.", item.text("id"))
			}
		}
	}
	for _, id := range order {
		if open[id] {
			return refuse("input", "No tool output found for function call %s.", id)
		}
	}
	return nil
}

// leadsSomewhere tells whether the items behind a reasoning item go on with what the model did: more reasoning
// aside, the first of them is a call or a message of its own.
func leadsSomewhere(rest []raw) bool {
	for _, value := range rest {
		item, _ := parseObject(value)
		kind := item.text("type")
		switch {
		case kind == "reasoning":
			continue
		case kind == "" || kind == "message":
			return item.text("role") == "assistant" || !item.has("role")
		}
		return !strings.HasSuffix(kind, "_output")
	}
	return false
}
