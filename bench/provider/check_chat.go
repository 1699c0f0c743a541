package provider

import (
	"fmt"
	"strings"
)

var chatMembers = words(`messages model audio frequency_penalty function_call functions logit_bias logprobs
	max_completion_tokens max_tokens metadata modalities moderation n parallel_tool_calls prediction presence_penalty
	prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed
	service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity
	web_search_options`)

var deepSeekMembers = words(`model messages thinking reasoning_effort max_tokens temperature top_p presence_penalty
	frequency_penalty stop stream stream_options response_format logprobs top_logprobs tools tool_choice user_id`)

// responsesOnly are the models that only Responses serves (docs/wire/chat-completions.md#1.8).
var responsesOnly = []string{"o1-pro", "o3-pro", "o3-deep-research", "o4-mini-deep-research", "gpt-5-codex", "gpt-5.1-codex-max", "gpt-5-pro", "gpt-5.5-pro", "codex-mini", "computer-use-preview"}

// checkChat refuses what OpenAI or, by model name, DeepSeek refuse; of other hosts it knows the common rules only.
func checkChat(o object, model string, messages []raw) *fault {
	if model == "" {
		return refuse("", "you must provide a model parameter")
	}
	if !o.has("messages") {
		return missingParameter("messages")
	}
	if len(messages) == 0 {
		return emptyArray("messages")
	}
	var refusal *fault
	switch {
	case isDeepSeekModel(model):
		refusal = checkDeepSeek(o, model, messages)
	case isOpenAIModel(model):
		refusal = checkOpenAIChat(o, model)
	}
	if refusal != nil {
		return refusal
	}
	if refusal := checkChatTools(o); refusal != nil {
		return refusal
	}
	if refusal := checkBookkeeping(o); refusal != nil {
		return refusal
	}
	return checkChatMessages(messages, isOpenAIModel(model))
}

func checkOpenAIChat(o object, model string) *fault {
	if name, ok := o.stranger(chatMembers); ok {
		return unknownParameter(name)
	}
	for _, prefix := range responsesOnly {
		if strings.HasPrefix(model, prefix) {
			return &fault{class: classNotFound, param: "model", message: "This model is only supported in v1/responses and not in v1/chat/completions."}
		}
	}
	if o.has("web_search_options") && !isSearchModel(model) {
		return refuse("web_search_options", "Web search options not supported with this model.")
	}
	if isReasoningModel(model) {
		if refusal := checkReasoningChat(o, model); refusal != nil {
			return refusal
		}
	} else if o.has("reasoning_effort") {
		return refuse("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort")
	}
	if refusal := checkEffort("reasoning_effort", o.text("reasoning_effort")); refusal != nil {
		return refusal
	}
	if o.has("max_tokens") && o.has("max_completion_tokens") {
		return refuse("max_tokens", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if stop := o.list("stop"); len(stop) > 4 {
		return refuse("stop", "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array with length %d instead.", len(stop)).coded("array_above_max_length")
	}
	if o.has("top_logprobs") && !o.flag("logprobs") {
		return refuse("top_logprobs", "'logprobs' must be set to true if 'top_logprobs' is used.")
	}
	switch format := o.object("response_format"); format.text("type") {
	case "json_schema":
		if refusal := checkJSONSchema("response_format.json_schema", format.object("json_schema")); refusal != nil {
			return refusal
		}
	case "json_object":
		if !strings.Contains(strings.ToLower(string(o["messages"])), "json") {
			return refuse("messages", "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.")
		}
	case "", "text":
	default:
		return invalidValue("response_format.type", format.text("type"), "'json_object', 'json_schema', and 'text'")
	}
	return checkBounds(o, []bound{
		{"temperature", 0, 2, false},
		{"top_p", 0, 1, false},
		{"presence_penalty", -2, 2, false},
		{"frequency_penalty", -2, 2, false},
		{"n", 1, 128, true},
		{"top_logprobs", 0, 20, true},
		{"max_tokens", 1, 1 << 31, true},
		{"max_completion_tokens", 1, 1 << 31, true},
	})
}

func checkReasoningChat(o object, model string) *fault {
	if o.has("max_tokens") {
		return unsupportedParameter("max_tokens", " Use 'max_completion_tokens' instead.")
	}
	for _, name := range []string{"temperature", "top_p"} {
		if n, ok := o.number(name); ok && n != 1 {
			return refuse(name, "Unsupported value: '%s' does not support %s with this model. Only the default (1) value is supported.", name, o[name]).coded("unsupported_value")
		}
	}
	for _, name := range []string{"presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias", "stop"} {
		if o.has(name) && string(o[name]) != "0" && string(o[name]) != "false" {
			return unsupportedParameter(name, "")
		}
	}
	if effort := o.text("reasoning_effort"); effort != "" && effort != "none" && o.has("tools") &&
		(strings.HasPrefix(model, "gpt-5.2") || strings.HasPrefix(model, "gpt-5.4")) {
		return refuse("reasoning_effort", "Function tools with reasoning_effort are not supported for %s in /v1/chat/completions. Please use /v1/responses instead.", model)
	}
	return nil
}

func checkChatTools(o object) *fault {
	declared := map[string]bool{}
	tools := o.list("tools")
	if o.has("tools") && len(tools) == 0 {
		return emptyArray("tools")
	}
	if len(tools) > 128 {
		return refuse("tools", "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length %d instead.", len(tools)).coded("array_above_max_length")
	}
	for i, value := range tools {
		entry, _ := parseObject(value)
		kind := entry.text("type")
		if kind != "function" && kind != "custom" {
			return invalidValue(fmt.Sprintf("tools[%d].type", i), kind, "'function' and 'custom'")
		}
		path := fmt.Sprintf("tools[%d].%s", i, kind)
		inner := entry.object(kind)
		if inner == nil {
			return missingParameter(path)
		}
		name := inner.text("name")
		if refusal := checkName(path+".name", name, 64); refusal != nil {
			return refusal
		}
		declared[name] = true
		if kind == "function" {
			if stranger, ok := inner.stranger(words("name description parameters strict")); ok {
				return unknownParameter(path + "." + stranger)
			}
			if refusal := checkFunctionSchema(path+".parameters", name, inner["parameters"], inner.flag("strict")); refusal != nil {
				return refusal
			}
		}
	}
	for _, name := range []string{"tool_choice", "parallel_tool_calls"} {
		if o.has(name) && len(tools) == 0 && !o.has("functions") {
			return refuse(name, "Invalid value for '%s': '%s' is only allowed when 'tools' are specified.", name, name)
		}
	}
	choice := o.object("tool_choice")
	if choice == nil {
		if word := o.text("tool_choice"); o.has("tool_choice") && word != "none" && word != "auto" && word != "required" {
			return invalidValue("tool_choice", word, "'none', 'auto', and 'required'")
		}
		return nil
	}
	kind := choice.text("type")
	if kind == "allowed_tools" {
		return nil
	}
	if name := choice.object(kind).text("name"); !declared[name] {
		return refuse("tool_choice", "Invalid value for 'tool_choice': no %s named '%s' was specified in the 'tools' parameter.", kind, name)
	}
	return nil
}

var chatMessageMembers = map[string]map[string]bool{
	"system":    words("role content name"),
	"developer": words("role content name"),
	"user":      words("role content name"),
	"assistant": words("role content name refusal audio tool_calls function_call annotations"),
	"tool":      words("role content tool_call_id"),
	"function":  words("role content name"),
}

var chatParts = map[string]map[string]bool{
	"system":    words("text"),
	"developer": words("text"),
	"user":      words("text image_url input_audio file"),
	"assistant": words("text refusal"),
	"tool":      words("text"),
}

// checkChatMessages checks shape, order and the pairing of calls with their results. closed refuses unknown members.
func checkChatMessages(messages []raw, closed bool) *fault {
	var open []string // call ids that wait for their tool messages
	opened := 0       // the message that opened them
	for i, value := range messages {
		path := fmt.Sprintf("messages[%d]", i)
		message, ok := parseObject(value)
		if !ok {
			return invalidType(path, "an object", value)
		}
		role := message.text("role")
		allowed, known := chatMessageMembers[role]
		if !known {
			return invalidValue(path+".role", role, "'system', 'assistant', 'user', 'function', 'tool', and 'developer'")
		}
		if name, strange := message.stranger(allowed); strange && closed {
			return unknownParameter(path + "." + name)
		}
		if role == "tool" {
			id := message.text("tool_call_id")
			if !message.has("tool_call_id") {
				return missingParameter(path + ".tool_call_id")
			}
			at := indexOf(open, id)
			if at < 0 {
				return refuse(fmt.Sprintf("messages.[%d].role", i), "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.") //nolint:misspell // OpenAI's own spelling
			}
			open = append(open[:at:at], open[at+1:]...)
		} else if len(open) > 0 {
			return unansweredCalls(opened, open)
		}
		if refusal := checkChatContent(message, role, path); refusal != nil {
			return refusal
		}
		if role == "assistant" {
			var refusal *fault
			if open, refusal = checkChatCalls(message, path); refusal != nil {
				return refusal
			}
			opened = i
		}
	}
	if len(open) > 0 {
		return unansweredCalls(opened, open)
	}
	return nil
}

func unansweredCalls(message int, ids []string) *fault {
	return refuse(fmt.Sprintf("messages.[%d].role", message), "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(ids, ", "))
}

func indexOf(list []string, s string) int {
	for i := range list {
		if list[i] == s {
			return i
		}
	}
	return -1
}

func checkChatContent(message object, role, path string) *fault {
	content := message["content"]
	path += ".content"
	switch {
	case !message.has("content"):
		if role == "assistant" && (message.has("tool_calls") || message.has("function_call") || message.has("refusal") || message.has("audio")) {
			return nil
		}
		return refuse(path, "Invalid value for 'content': expected a string, got null.")
	case content[0] == '"':
		return nil
	case content[0] != '[':
		return invalidType(path, "one of a string or array of objects", content)
	}
	parts, _ := parseList(content)
	if len(parts) == 0 {
		return emptyArray(path)
	}
	for j, value := range parts {
		at := fmt.Sprintf("%s[%d]", path, j)
		part, ok := parseObject(value)
		kind := part.text("type")
		switch {
		case !ok:
			return invalidType(at, "an object", value)
		case !chatParts[role][kind]:
			return invalidValue(at+".type", kind, quoteList(chatParts[role]))
		case kind == "text" && !part.has("text"):
			return missingParameter(at + ".text")
		case kind == "image_url":
			if refusal := checkImageURL(at+".image_url", part.object("image_url").text("url")); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// quoteList writes a set as the providers list legal values.
func quoteList(set map[string]bool) string {
	return "'" + strings.Join(sortedNames(set), "', '") + "'"
}

var imageTypes = words("image/jpeg image/png image/gif image/webp")

func checkImageURL(path, url string) *fault {
	data, isData := strings.CutPrefix(url, "data:")
	if !isData {
		if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
			return nil
		}
		return refuse(path, "Invalid '%s'. Expected a valid URL, but got a value with an invalid format.", path).coded("invalid_value")
	}
	mediaType, _, ok := strings.Cut(data, ";base64,")
	if !ok || !imageTypes[mediaType] {
		return refuse(path, "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].").coded("invalid_image_format")
	}
	return nil
}

// checkChatCalls checks an assistant message's calls and gives their ids. OpenAI takes ids of up to 40 characters.
func checkChatCalls(message object, path string) (ids []string, refusal *fault) {
	if !message.has("tool_calls") {
		return nil, nil
	}
	calls := message.list("tool_calls")
	path += ".tool_calls"
	if len(calls) == 0 {
		return nil, emptyArray(path)
	}
	for j, value := range calls {
		at := fmt.Sprintf("%s[%d]", path, j)
		entry, _ := parseObject(value)
		id, kind := entry.text("id"), entry.text("type")
		switch {
		case id == "":
			return nil, missingParameter(at + ".id")
		case len(id) > 40:
			return nil, tooLong(at+".id", 40, len(id))
		case indexOf(ids, id) >= 0:
			return nil, refuse(at+".id", "Duplicate value for 'tool_call_id' of '%s'", id)
		case kind != "function" && kind != "custom":
			return nil, invalidValue(at+".type", kind, "'function' and 'custom'")
		}
		inner, text := entry.object(kind), "arguments"
		if kind == "custom" {
			text = "input"
		}
		if refusal := checkName(at+"."+kind+".name", inner.text("name"), 64); refusal != nil {
			return nil, refusal
		}
		if _, ok := parseString(inner[text]); !ok {
			return nil, invalidType(at+"."+kind+"."+text, "a string", inner[text])
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// checkDeepSeek refuses what DeepSeek's dialect does not have (docs/wire/fourth-provider.md#2).
func checkDeepSeek(o object, model string, messages []raw) *fault {
	if name, ok := o.stranger(deepSeekMembers); ok {
		return refuse(name, "Unknown parameter: %s", name).coded("invalid_request_error")
	}
	thinking := o.object("thinking").text("type")
	if o.has("thinking") && thinking != "enabled" && thinking != "disabled" {
		return refuse("thinking", "thinking.type: unknown variant `%s`, expected `enabled` or `disabled`", thinking).coded("invalid_request_error")
	}
	if effort := o.text("reasoning_effort"); effort != "" && (!effortWords[effort] || effort == "none") {
		return refuse("reasoning_effort", "reasoning_effort: unknown variant `%s`", effort).coded("invalid_request_error")
	}
	switch o.object("response_format").text("type") {
	case "json_schema":
		return refuse("response_format", "This response_format type is unavailable now").coded("invalid_request_error")
	case "json_object":
		if !strings.Contains(strings.ToLower(string(o["messages"])), "json") {
			return refuse("response_format", "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'.").coded("invalid_request_error")
		}
	}
	legacy := strings.HasPrefix(model, "deepseek-chat") || strings.HasPrefix(model, "deepseek-reasoner")
	return checkDeepSeekMessages(messages, !legacy && thinking != "disabled", strings.HasPrefix(model, "deepseek-reasoner"))
}

// checkDeepSeekMessages checks roles, contents that have to be strings, and the reasoning that has to come back:
// from the first assistant turn with tool calls on, every assistant turn carries it.
func checkDeepSeekMessages(messages []raw, needReasoning, refuseReasoning bool) *fault {
	toolsUsed := false
	for i, value := range messages {
		message, _ := parseObject(value)
		role := message.text("role")
		switch role {
		case "assistant":
			toolsUsed = toolsUsed || message.has("tool_calls")
			_, carried := parseString(message["reasoning_content"])
			if needReasoning && toolsUsed && !carried {
				return refuse("", "The reasoning_content in the thinking mode must be passed back to the API.").coded("invalid_request_error")
			}
			if refuseReasoning && message.has("reasoning_content") {
				return refuse("", "The reasoning_content is not supported as input for this model.").coded("invalid_request_error")
			}
		case "system", "tool":
			if _, ok := parseString(message["content"]); !ok {
				return refuse("", "Failed to deserialize the JSON body into the target type: messages[%d].content: invalid type, expected a string", i).coded("invalid_request_error")
			}
		case "user":
		default:
			f := refuse("", "Failed to deserialize the JSON body into the target type: messages[%d].role: unknown variant `%s`, expected one of `system`, `user`, `assistant`, `tool`", i, role).coded("invalid_request_error")
			f.status = 422
			return f
		}
		if role == "tool" && message.has("name") {
			return refuse("", "messages[%d]: unknown field `name`", i).coded("invalid_request_error")
		}
	}
	return nil
}
