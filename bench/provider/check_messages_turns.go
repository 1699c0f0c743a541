package provider

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// A joinedTurn is a run of messages of one role, which the service joins.
type joinedTurn struct {
	role   string
	blocks []object
	paths  []string
}

func (c *messagesCheck) conversation(messages []raw) *fault {
	var turns []joinedTurn
	for i, value := range messages {
		message, _ := parseObject(value)
		role := message.text("role")
		path := fmt.Sprintf("messages.%d", i)
		previous := ""
		if i > 0 {
			before, _ := parseObject(messages[i-1])
			previous = before.text("role")
		}
		if refusal := c.role(role, previous, path); refusal != nil {
			return refusal
		}
		allowed := words("role content")
		if c.beta && role == "system" {
			allowed = words("role content clear_at output_config")
		}
		if name, ok := message.stranger(allowed); ok && c.anthropic {
			return extra(path + "." + name)
		}
		blocks, refusal := c.content(message, role, path, i == len(messages)-1)
		if refusal != nil {
			return refusal
		}
		if len(turns) == 0 || turns[len(turns)-1].role != role {
			turns = append(turns, joinedTurn{role: role})
		}
		turn := &turns[len(turns)-1]
		for j, block := range blocks {
			turn.blocks = append(turn.blocks, block)
			turn.paths = append(turn.paths, fmt.Sprintf("%s.content.%d", path, j))
		}
	}
	for _, check := range []func([]joinedTurn) *fault{c.pairs, c.ending, c.leadingThinking} {
		if refusal := check(turns); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (c *messagesCheck) role(role, previous, path string) *fault {
	switch {
	case role == "system" && c.anthropic && !c.model.takesSystemRole():
		return refuse("", "role 'system' is not supported on this model")
	case role == "system" && previous != "user":
		return refuse("", "%s: role 'system' must directly follow a user message", path)
	case role != "user" && role != "assistant" && role != "system":
		return refuse("", "%s.role: Input should be 'user' or 'assistant'", path)
	case role == "assistant" && previous == "":
		return refuse("", "messages: first message must use the \"user\" role")
	}
	return nil
}

// blockMembers are those of the blocks that translators write; blocks that only pass through are not looked into.
var blockMembers = map[string]map[string]bool{
	"text":              words("type text cache_control citations"),
	"image":             words("type source cache_control transformations"),
	"document":          words("type source title context citations cache_control"),
	"thinking":          words("type thinking signature"),
	"redacted_thinking": words("type data"),
	"tool_use":          words("type id name input caller toolset_name cache_control"),
	"tool_result":       words("type tool_use_id content is_error toolset_name cache_control"),
}

var blocksOfRole = map[string]map[string]bool{
	"user": words("text image document search_result tool_result container_upload mcp_tool_result"),
	"assistant": words(`text thinking redacted_thinking tool_use server_tool_use web_search_tool_result web_fetch_tool_result
		code_execution_tool_result bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result
		advisor_tool_result mcp_tool_use mcp_tool_result mcp_tool_listing compaction fallback`),
	"system": words("text tool_addition tool_removal"),
}

// content checks one message's blocks.
func (c *messagesCheck) content(message object, role, path string, last bool) ([]object, *fault) {
	content := message["content"]
	if text, ok := parseString(content); ok {
		if strings.TrimSpace(text) == "" && !(last && role == "assistant") {
			return nil, refuse("", "messages: text content blocks must contain non-whitespace text")
		}
		return []object{{"type": raw(`"text"`), "text": content}}, nil
	}
	if !message.has("content") {
		if role == "system" && message.has("output_config") {
			return nil, nil
		}
		return nil, refuse("", "%s.content: Field required", path)
	}
	list, ok := parseList(content)
	if !ok {
		return nil, refuse("", "%s.content: Input should be a valid list", path)
	}
	if len(list) == 0 && !(last && role == "assistant") {
		return nil, refuse("", "%s: all messages must have non-empty content except for the optional final assistant message", path)
	}
	blocks := make([]object, len(list))
	for j, value := range list {
		block, _ := parseObject(value)
		blocks[j] = block
		c.breakpoint(block)
		if refusal := c.block(block, role, fmt.Sprintf("%s.content.%d", path, j)); refusal != nil {
			return nil, refusal
		}
	}
	return blocks, nil
}

func (c *messagesCheck) block(block object, role, path string) *fault {
	kind := block.text("type")
	if !blocksOfRole[role][kind] {
		return refuse("", "%s: Input tag '%s' found using 'type' does not match any of the expected tags: %s", path, kind, quoteList(blocksOfRole[role]))
	}
	path += "." + kind
	if allowed := blockMembers[kind]; allowed != nil && c.anthropic {
		if name, ok := block.stranger(allowed); ok {
			return extra(path + "." + name)
		}
	}
	switch kind {
	case "text":
		return c.textBlock(block, role, path)
	case "image":
		return checkSource(block.object("source"), path, imageTypes)
	case "document":
		return checkSource(block.object("source"), path, words("application/pdf text/plain"))
	case "thinking", "redacted_thinking":
		return c.thinkingBlock(block, kind, path)
	case "tool_use":
		return c.toolUse(block, path)
	case "tool_result":
		return c.toolResult(block, path)
	}
	return nil
}

func (c *messagesCheck) textBlock(block object, role, path string) *fault {
	text, ok := parseString(block["text"])
	switch {
	case !ok:
		return refuse("", "%s.text: Input should be a valid string", path)
	case text == "":
		return refuse("", "messages: text content blocks must be non-empty")
	case strings.TrimSpace(text) == "" && role != "assistant":
		return refuse("", "messages: text content blocks must contain non-whitespace text")
	case role == "user" && c.version == "2026-10-21" && len(block.list("citations")) > 0:
		return extra(path + ".citations")
	}
	return nil
}

func checkSource(source object, path string, types map[string]bool) *fault {
	switch kind := source.text("type"); kind {
	case "base64":
		if mediaType := source.text("media_type"); !types[mediaType] {
			return refuse("", "%s.source.base64.media_type: Input should be one of %s", path, quoteList(types))
		}
		data := source.text("data")
		if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
			return refuse("", "%s.source.base64.data: Invalid base64 data", path)
		}
	case "url":
		if !strings.HasPrefix(source.text("url"), "https://") && !strings.HasPrefix(source.text("url"), "http://") {
			return refuse("", "%s.source.url.url: Only HTTPS URLs are supported.", path)
		}
	case "file", "text", "content":
	default:
		return refuse("", "%s.source: Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'url', 'file'", path, kind)
	}
	return nil
}

// thinkingBlock accepts only state that a simulated provider made. DeepSeek's endpoint does not look at it.
func (c *messagesCheck) thinkingBlock(block object, kind, path string) *fault {
	if !c.anthropic {
		return nil
	}
	at := strings.TrimSuffix(path, "."+kind)
	if kind == "redacted_thinking" {
		if !isOpaque(stateRedacted, block.text("data")) {
			return refuse("", "%s: Invalid `data` in `redacted_thinking` block", at)
		}
		return nil
	}
	if _, ok := parseString(block["thinking"]); !ok {
		return refuse("", "%s.thinking: Field required", path)
	}
	if _, ok := block["signature"]; !ok {
		return refuse("", "%s.signature: Field required", path)
	}
	if !isOpaque(stateSignature, block.text("signature")) {
		return refuse("", "%s: Invalid `signature` in `thinking` block", at)
	}
	return nil
}

func (c *messagesCheck) toolUse(block object, path string) *fault {
	c.toolsUsed = true
	switch {
	case !isName(block.text("id"), 1<<10):
		return refuse("", "%s.id: String should match pattern '^[a-zA-Z0-9_-]+$'", path)
	case !isName(block.text("name"), 128):
		return refuse("", "%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", path)
	case block.object("input") == nil:
		return refuse("", "%s.input: Input should be a valid dictionary", path)
	}
	return nil
}

func (c *messagesCheck) toolResult(block object, path string) *fault {
	c.toolsUsed = true
	if !isName(block.text("tool_use_id"), 1<<10) {
		return refuse("", "%s.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'", path)
	}
	content := block["content"]
	if !block.has("content") || content[0] == '"' {
		return nil
	}
	for k, value := range block.list("content") {
		inner, _ := parseObject(value)
		c.breakpoint(inner)
		at := fmt.Sprintf("%s.content.%d", path, k)
		switch kind := inner.text("type"); kind {
		case "text":
			if inner.text("text") == "" {
				return refuse("", "messages: text content blocks must be non-empty")
			}
		case "image":
			if refusal := checkSource(inner.object("source"), at+".image", imageTypes); refusal != nil {
				return refusal
			}
		case "search_result", "document", "tool_reference", "browser_state":
		default:
			return refuse("", "%s: Input tag '%s' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text', 'tool_reference'", at, kind)
		}
	}
	return nil
}

// pairs checks that the turn after a turn with calls starts with the results of exactly these calls.
func (c *messagesCheck) pairs(turns []joinedTurn) *fault {
	var waiting []string
	seen := map[string]bool{}
	for i := range turns {
		turn := &turns[i]
		leading := true
		answered := map[string]bool{}
		for j, block := range turn.blocks {
			switch block.text("type") {
			case "tool_result":
				id := block.text("tool_use_id")
				if indexOf(waiting, id) < 0 || answered[id] {
					return refuse("", "%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", turn.paths[j], id)
				}
				if leading {
					answered[id] = true
				}
			case "tool_use":
				id := block.text("id")
				if seen[id] {
					return refuse("", "messages: `tool_use` ids must be unique")
				}
				seen[id] = true
			default:
				leading = false
			}
		}
		if missing := without(waiting, answered); len(missing) > 0 {
			return unansweredUse(turns[i-1].paths, missing)
		}
		waiting = nil
		for _, block := range turn.blocks {
			if block.text("type") == "tool_use" {
				waiting = append(waiting, block.text("id"))
			}
		}
	}
	if len(waiting) > 0 {
		return unansweredUse(turns[len(turns)-1].paths, waiting)
	}
	return nil
}

func without(ids []string, taken map[string]bool) []string {
	var left []string
	for _, id := range ids {
		if !taken[id] {
			left = append(left, id)
		}
	}
	return left
}

func unansweredUse(paths, ids []string) *fault {
	message, _, _ := strings.Cut(paths[0], ".content")
	return refuse("", "%s: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", message, strings.Join(ids, ", "))
}

// ending checks a prefill: an assistant message at the end.
func (c *messagesCheck) ending(turns []joinedTurn) *fault {
	last := turns[len(turns)-1]
	if last.role != "assistant" || !c.anthropic {
		return nil
	}
	if !c.model.takesPrefill() {
		return refuse("", "This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	if kind := c.o.object("thinking").text("type"); kind == "enabled" || kind == "adaptive" {
		return refuse("", "When thinking is enabled, the conversation must end with a user message.")
	}
	if len(last.blocks) > 0 {
		if text := last.blocks[len(last.blocks)-1].text("text"); text != strings.TrimRight(text, " \t\r\n") {
			return refuse("", "messages: final assistant content cannot end with trailing whitespace")
		}
	}
	return nil
}

// leadingThinking: with a thinking budget, the assistant turn of a running tool loop starts with its thinking.
// Adaptive thinking does not ask for it.
func (c *messagesCheck) leadingThinking(turns []joinedTurn) *fault {
	if len(turns) < 2 || !c.anthropic || c.o.object("thinking").text("type") != "enabled" {
		return nil
	}
	last := turns[len(turns)-1]
	if last.role != "user" || len(last.blocks) == 0 || last.blocks[0].text("type") != "tool_result" {
		return nil
	}
	for i := len(turns) - 2; i >= 0; i-- {
		if turns[i].role != "assistant" || len(turns[i].blocks) == 0 {
			continue
		}
		if kind := turns[i].blocks[0].text("type"); kind != "thinking" && kind != "redacted_thinking" {
			return refuse("", "%s.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`.", turns[i].paths[0], kind) //nolint:misspell // Anthropic's own spelling
		}
		return nil
	}
	return nil
}
