package provider

import (
	"fmt"
	"strings"
)

// An itemRule is what an input item has to look like.
type itemRule struct {
	prefix   string // of its id
	required []string
	allowed  map[string]bool // nil: not checked
}

// itemRules are those of the input items (docs/wire/responses.md#3). Items that the checker lets through unseen have no allowed set.
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

// checkItemPairs checks that every call has its output after it and every output its call before it, and that no
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

// leadsSomewhere reports whether the items after a reasoning item go on with what the model did: more reasoning
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
