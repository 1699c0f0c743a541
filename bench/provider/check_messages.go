package provider

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

var messagesMembers = words(`model max_tokens messages system stream stop_sequences temperature top_p top_k metadata service_tier
	inference_geo speed cache_control container diagnostics thinking output_config tools tool_choice`)

// messagesBetaMembers need an anthropic-beta header.
var messagesBetaMembers = words(`output_format context_management compaction mcp_servers fallbacks fallback_credit_token thread
	billing_policy tags safeguards program_use_case_id`)

// A claudeModel is what the rules need to know of a model's name.
type claudeModel struct {
	line    string // opus, sonnet, haiku, …
	version int    // major*100 + minor
}

// parseClaude reads "claude-opus-4-8-20260101" as opus 4.8. Names without a number count as newest.
func parseClaude(model string) claudeModel {
	m := claudeModel{version: 999}
	rest, _ := strings.CutPrefix(model, "claude-")
	var numbers []int
	for _, word := range strings.Split(rest, "-") {
		if n, err := strconv.Atoi(word); err == nil && n < 100 {
			numbers = append(numbers, n)
		} else if err != nil && m.line == "" {
			m.line = word
		}
	}
	if len(numbers) > 0 {
		m.version = numbers[0] * 100
	}
	if len(numbers) > 1 {
		m.version += numbers[1]
	}
	return m
}

func (m claudeModel) takesSystemRole() bool {
	return m.version >= 500 || m.line == "opus" && m.version >= 408
}
func (m claudeModel) takesAdaptive() bool { return m.version >= 406 }
func (m claudeModel) takesBudget() bool {
	return m.version < 407 && !(m.line != "opus" && m.version >= 500)
}
func (m claudeModel) takesPrefill() bool  { return m.version < 406 }
func (m claudeModel) takesSampling() bool { return m.version <= 406 }

// A messagesCheck is one run of the checker.
type messagesCheck struct {
	o           object
	model       claudeModel
	version     string
	beta        bool
	anthropic   bool // not DeepSeek's endpoint, which takes the same bodies with fewer rules
	breakpoints int
	toolsUsed   bool
}

func checkMessages(o object, h http.Header, messages []raw) *fault {
	name := o.text("model")
	c := &messagesCheck{
		o: o, model: parseClaude(name), version: h.Get("Anthropic-Version"), beta: h.Get("Anthropic-Beta") != "",
		anthropic: !isDeepSeekModel(name),
	}
	if name == "" {
		return refuse("", "model: Field required")
	}
	if refusal := c.modelOfHouse(name); refusal != nil {
		return refusal
	}
	if !o.has("max_tokens") {
		return refuse("", "max_tokens: Field required")
	}
	if n, ok := o.number("max_tokens"); !ok || n < 0 || n != float64(int64(n)) {
		return refuse("", "max_tokens: Input should be greater than or equal to 0")
	}
	return c.run(messages)
}

// modelOfHouse refuses models of other houses. DeepSeek's endpoint takes Anthropic's names, too.
func (c *messagesCheck) modelOfHouse(name string) *fault {
	if strings.HasPrefix(name, "claude") || !c.anthropic {
		return nil
	}
	return &fault{class: classNotFound, message: "model: " + name}
}

func checkCountTokens(o object, h http.Header) *fault {
	for _, name := range []string{"max_tokens", "stream", "metadata", "stop_sequences", "temperature"} {
		if o.has(name) {
			return refuse("", "%s: Extra inputs are not permitted", name)
		}
	}
	if o.text("model") == "" {
		return refuse("", "model: Field required")
	}
	c := &messagesCheck{
		o: o, model: parseClaude(o.text("model")), version: h.Get("Anthropic-Version"), beta: h.Get("Anthropic-Beta") != "",
		anthropic: !isDeepSeekModel(o.text("model")),
	}
	if refusal := c.modelOfHouse(o.text("model")); refusal != nil {
		return refusal
	}
	return c.run(o.list("messages"))
}

func (c *messagesCheck) run(messages []raw) *fault {
	if len(messages) == 0 {
		return refuse("", "messages: at least one message is required")
	}
	checks := []func() *fault{c.members, c.sampling, c.thinking, c.outputConfig, c.tools, c.system, func() *fault { return c.conversation(messages) }, c.limits}
	for _, check := range checks {
		if refusal := check(); refusal != nil {
			return refusal
		}
	}
	return nil
}

func extra(path string) *fault { return refuse("", "%s: Extra inputs are not permitted", path) }

func (c *messagesCheck) members() *fault {
	if !c.anthropic {
		return nil
	}
	for _, name := range sortedNames(c.o) {
		if !messagesMembers[name] && !(c.beta && messagesBetaMembers[name]) {
			return extra(name)
		}
	}
	if name, ok := c.o.object("metadata").stranger(words("user_id")); ok {
		return extra("metadata." + name)
	}
	if id := c.o.object("metadata").text("user_id"); len(id) > 512 {
		return refuse("", "metadata.user_id: String should have at most 512 characters")
	}
	for i, value := range c.o.list("stop_sequences") {
		if s, ok := parseString(value); !ok || strings.TrimSpace(s) == "" {
			return refuse("", "stop_sequences: each stop sequence must contain non-whitespace (stop_sequences.%d)", i)
		}
	}
	if tier := c.o.text("service_tier"); tier != "" && tier != "auto" && tier != "standard_only" {
		return refuse("", "service_tier: Input should be 'auto' or 'standard_only'")
	}
	return nil
}

// sampling: the version 2026-10-21 has no sampling members; models after Opus 4.6 take only their defaults.
func (c *messagesCheck) sampling() *fault {
	if !c.anthropic {
		return nil
	}
	if c.version == "2026-10-21" {
		for _, name := range []string{"temperature", "top_p", "top_k"} {
			if c.o.has(name) {
				return extra(name)
			}
		}
		return nil
	}
	temperature, warm := c.o.number("temperature")
	topP, nucleus := c.o.number("top_p")
	switch {
	case warm && (temperature < 0 || temperature > 1):
		return refuse("", "temperature: range: 0..1")
	case nucleus && (topP < 0 || topP > 1):
		return refuse("", "top_p: range: 0..1")
	case !c.model.takesSampling() && (warm && temperature != 1 || nucleus && topP < 0.99 || c.o.has("top_k")):
		return refuse("", "`temperature`, `top_p` and `top_k` are deprecated for this model.")
	case c.model.version >= 401 && warm && nucleus:
		return refuse("", "`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
	}
	if kind := c.o.object("thinking").text("type"); kind == "enabled" || kind == "adaptive" {
		switch {
		case warm && temperature != 1:
			return refuse("", "`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
		case nucleus && topP < 0.95:
			return refuse("", "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
		case c.o.has("top_k"):
			return refuse("", "`top_k` must be unset when thinking is enabled.")
		}
	}
	return nil
}

func (c *messagesCheck) thinking() *fault {
	if !c.o.has("thinking") || !c.anthropic {
		return nil
	}
	thinking := c.o.object("thinking")
	kind := thinking.text("type")
	if display := thinking.text("display"); display != "" && display != "summarized" && display != "omitted" && !(c.beta && display == "updates") {
		return refuse("", "thinking.%s.display: Input should be 'summarized' or 'omitted'", kind)
	}
	allowed := words("type display")
	if c.beta {
		allowed["block_binding"] = true
	}
	switch kind {
	case "disabled", "between_tools":
		allowed = words("type")
	case "adaptive":
		if !c.model.takesAdaptive() {
			return refuse("", "adaptive thinking is not supported on this model")
		}
	case "enabled":
		if refusal := c.budget(thinking); refusal != nil {
			return refusal
		}
		allowed["budget_tokens"] = true
	default:
		return refuse("", "thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'between_tools', 'disabled', 'enabled'", kind)
	}
	if name, ok := thinking.stranger(allowed); ok {
		return extra("thinking." + kind + "." + name)
	}
	if choice := c.o.object("tool_choice").text("type"); (choice == "any" || choice == "tool") && kind != "disabled" {
		return refuse("", "Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

func (c *messagesCheck) budget(thinking object) *fault {
	if !c.model.takesBudget() {
		return refuse("", "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.")
	}
	budget, ok := thinking.number("budget_tokens")
	limit, limited := c.o.number("max_tokens")
	switch {
	case !ok:
		return refuse("", "thinking.enabled.budget_tokens: Field required")
	case budget < 1024:
		return refuse("", "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case limited && budget >= limit:
		return refuse("", "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")
	}
	return nil
}

func (c *messagesCheck) outputConfig() *fault {
	config := c.o.object("output_config")
	if !c.anthropic || config == nil {
		return nil
	}
	if name, ok := config.stranger(words("effort format task_budget")); ok {
		return extra("output_config." + name)
	}
	if effort := config.text("effort"); effort != "" && (!effortWords[effort] || effort == "none" || effort == "minimal") {
		return refuse("", "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	if !config.has("format") {
		return nil
	}
	format := config.object("format")
	if format.text("type") != "json_schema" || format.object("schema") == nil {
		return refuse("", "output_config.format: Input should be an object with type 'json_schema' and a schema")
	}
	if name, ok := format.stranger(words("type schema")); ok {
		return extra("output_config.format." + name)
	}
	return checkOutputSchema(format["schema"], 0)
}

var outputSchemaMembers = words(`type properties required additionalProperties items enum const anyOf allOf description title
	default format minItems $ref $defs definitions`)

var outputFormats = words("date-time time date duration email hostname uri ipv4 ipv6 uuid")

// checkOutputSchema checks what the constrained decoder takes (docs/wire/messages.md#2.10).
func checkOutputSchema(schema raw, depth int) *fault {
	o, ok := parseObject(schema)
	if !ok {
		return nil
	}
	if depth > maxSchemaDepth {
		return refuse("", "output_config.format.schema: Schema is too deeply nested")
	}
	if name, strange := o.stranger(outputSchemaMembers); strange {
		return refuse("", "output_config.format.schema: For '%s' type, property '%s' is not supported", o.text("type"), name)
	}
	if o.text("type") == "object" && string(o["additionalProperties"]) != "false" {
		return refuse("", "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")
	}
	if format := o.text("format"); format != "" && !outputFormats[format] {
		return refuse("", "output_config.format.schema: String format '%s' is not supported", format)
	}
	if n, has := o.number("minItems"); has && n != 0 && n != 1 {
		return refuse("", "output_config.format.schema: For 'array' type, 'minItems' values other than 0 or 1 are not supported")
	}
	inner := []raw{o["items"]}
	inner = append(append(inner, o.list("anyOf")...), o.list("allOf")...)
	for _, name := range []string{"properties", "$defs", "definitions"} {
		named := o.object(name)
		for _, key := range sortedNames(named) {
			inner = append(inner, named[key])
		}
	}
	for _, value := range inner {
		if refusal := checkOutputSchema(value, depth+1); refusal != nil {
			return refusal
		}
	}
	return nil
}

var customToolMembers = words(`type name description input_schema cache_control strict defer_loading allowed_callers
	eager_input_streaming input_examples`)

// typedTools are the stems of the tools that the service defines itself; the rest of a type is its date.
var typedTools = words(`bash text_editor memory computer computer_toolset browser_toolset web_search web_fetch code_execution
	tool_search_tool_regex tool_search_tool_bm25 advisor mcp_toolset`)

func isTypedTool(kind string) bool {
	stem := strings.TrimRight(kind, "0123456789")
	return typedTools[strings.TrimSuffix(stem, "_")]
}

func (c *messagesCheck) tools() *fault {
	seen := map[string]bool{}
	for i, value := range c.o.list("tools") {
		entry, _ := parseObject(value)
		kind, name := entry.text("type"), entry.text("name")
		c.breakpoint(entry)
		path := fmt.Sprintf("tools.%d.custom", i)
		if kind == "" || kind == "custom" {
			if refusal := c.customTool(entry, name, path); refusal != nil {
				return refusal
			}
		} else if !isTypedTool(kind) {
			return refuse("", "tools.%d: Input tag '%s' found using 'type' does not match any of the expected tags: 'custom', %s", i, kind, quoteList(typedTools))
		}
		if seen[name] && name != "" {
			return refuse("", "tools: Tool names must be unique.")
		}
		seen[name] = true
	}
	if !c.o.has("tool_choice") {
		return nil
	}
	choice := c.o.object("tool_choice")
	switch kind := choice.text("type"); {
	case len(seen) == 0:
		return refuse("", "tool_choice: tool_choice may only be specified while providing tools.")
	case kind == "tool" && !seen[choice.text("name")]:
		return refuse("", "Tool '%s' not found in provided tools", choice.text("name"))
	case kind != "auto" && kind != "any" && kind != "tool" && kind != "none":
		return refuse("", "tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", kind)
	}
	if name, ok := choice.stranger(words("type name disable_parallel_tool_use")); ok {
		return extra("tool_choice." + choice.text("type") + "." + name)
	}
	return nil
}

func (c *messagesCheck) customTool(entry object, name, path string) *fault {
	if stranger, ok := entry.stranger(customToolMembers); ok && c.anthropic {
		return extra(path + "." + stranger)
	}
	schema := entry.object("input_schema")
	switch {
	case !entry.has("name"):
		return refuse("", "%s.name: Field required", path)
	case !isName(name, 128):
		return refuse("", "%s.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", path)
	case schema == nil:
		return refuse("", "%s.input_schema: Field required", path)
	case !schema.has("type"):
		return refuse("", "%s.input_schema.type: Field required", path)
	case schema.text("type") != "object":
		return refuse("", "%s.input_schema.type: Input should be 'object'", path)
	case schema.has("oneOf") || schema.has("allOf") || schema.has("anyOf"):
		return refuse("", "%s.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", path)
	}
	return nil
}

func (c *messagesCheck) breakpoint(o object) {
	if o.has("cache_control") {
		c.breakpoints++
	}
}

func (c *messagesCheck) limits() *fault {
	c.breakpoint(c.o)
	if c.breakpoints > 4 && c.anthropic {
		return refuse("", "A maximum of 4 blocks with cache_control may be provided. Found %d.", c.breakpoints)
	}
	if c.toolsUsed && len(c.o.list("tools")) == 0 && c.anthropic {
		return refuse("", "Requests which include `tool_use` or `tool_result` blocks must define tools.")
	}
	return nil
}

func (c *messagesCheck) system() *fault {
	if !c.o.has("system") {
		return nil
	}
	if _, ok := parseString(c.o["system"]); ok {
		return nil
	}
	if c.o["system"][0] != '[' {
		return refuse("", "system: Input should be a valid list")
	}
	for i, value := range c.o.list("system") {
		block, _ := parseObject(value)
		c.breakpoint(block)
		path := fmt.Sprintf("system.%d", i)
		if block.text("type") != "text" {
			return refuse("", "%s.type: Input should be 'text'", path)
		}
		if name, ok := block.stranger(blockMembers["text"]); ok {
			return extra(path + "." + name)
		}
		if block.text("text") == "" {
			return refuse("", "system: text content blocks must be non-empty")
		}
	}
	return nil
}
