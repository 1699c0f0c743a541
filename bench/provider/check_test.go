package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// A refused request, the status and a piece of the answer.
type refused struct {
	name string
	body string
	want string // "" when the request is fine
}

func checkTable(t *testing.T, path string, table []refused) {
	t.Helper()
	s := start(t, provider.Options{Strict: true})
	for _, test := range table {
		t.Run(test.name, func(t *testing.T) {
			resp, body, err := send(t, s.URL()+path, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if resp.StatusCode != http.StatusOK {
					t.Errorf("refused: %s", body)
				}
				return
			}
			if resp.StatusCode < 400 || resp.StatusCode > 499 || !strings.Contains(strings.ReplaceAll(body, `\"`, `"`), test.want) {
				t.Errorf("%d %s\nwant %s", resp.StatusCode, body, test.want)
			}
		})
	}
}

func TestChatCheckerRefusesWhatOpenAIRefuses(t *testing.T) {
	with := func(model, messages, more string) string {
		if messages == "" {
			messages = `{"role":"user","content":"hi"}`
		}
		return `{"model":"` + model + `","messages":[` + messages + `]` + more + `}`
	}
	call := `{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	result := `,{"role":"tool","tool_call_id":"call_1","content":"r"}`
	function := func(parameters string, strict string) string {
		return `,"tools":[{"type":"function","function":{"name":"f","parameters":` + parameters + strict + `}}]`
	}
	checkTable(t, "/v1/chat/completions", []refused{
		{"plain", with("gpt-5.5", "", ""), ""},
		{"no model", `{"messages":[{"role":"user","content":"hi"}]}`, `you must provide a model parameter`},
		{"no JSON", `{"model":`, `could not parse the JSON body`},
		{"no messages", `{"model":"gpt-5.5"}`, `"code":"missing_required_parameter"`},
		{"empty messages", `{"model":"gpt-5.5","messages":[]}`, `"code":"empty_array"`},
		{"unknown member", with("gpt-5.5", "", `,"service_chat_key":"k"`), `Unknown parameter: 'service_chat_key'.`},
		{"foreign member of a message", with("gpt-5.5", `{"role":"user","content":"x"},{"role":"assistant","content":"y","reasoning_content":"z"}`, ""), `messages[1].reasoning_content`},
		{"unknown role", with("gpt-5.5", `{"role":"bot","content":"x"}`, ""), `Invalid value: 'bot'`},
		{"max_tokens for a reasoning model", with("gpt-5.5", "", `,"max_tokens":5`), `Use 'max_completion_tokens' instead.`},
		{"max_tokens for an older model", with("gpt-4.1", "", `,"max_tokens":5`), ""},
		{"temperature for a reasoning model", with("o3", "", `,"temperature":0.5`), `"code":"unsupported_value"`},
		{"the default temperature is fine", with("o3", "", `,"temperature":1`), ""},
		{"stop for a reasoning model", with("gpt-5.5", "", `,"stop":["x"]`), `"code":"unsupported_parameter"`},
		{"temperature out of range", with("gpt-4.1", "", `,"temperature":2.5`), `"code":"decimal_above_max_value"`},
		{"effort for an older model", with("gpt-4.1", "", `,"reasoning_effort":"low"`), `Unrecognized request argument supplied: reasoning_effort`},
		{"an effort nobody knows", with("gpt-5.5", "", `,"reasoning_effort":"ultra"`), `Invalid value: 'ultra'`},
		{"effort with tools", with("gpt-5.4", "", `,"reasoning_effort":"low"`+function(`{"type":"object"}`, "")), `/v1/responses instead`},
		{"a model of Responses only", with("gpt-5-codex", "", ""), `only supported in v1/responses`},
		{"stream_options without stream", with("gpt-5.5", "", `,"stream_options":{"include_usage":true}`), `only allowed when 'stream' is enabled`},
		{"tool_choice without tools", with("gpt-5.5", "", `,"tool_choice":"auto"`), `only allowed when 'tools' are specified`},
		{"tool_choice of an unknown tool", with("gpt-5.5", "", `,"tool_choice":{"type":"function","function":{"name":"g"}}`+function(`{"type":"object"}`, "")), `no function named 'g'`},
		{"a tool name with a dot", with("gpt-5.5", "", `,"tools":[{"type":"function","function":{"name":"a.b"}}]`), `'^[a-zA-Z0-9_-]+$'`},
		{"a tool name of 65", with("gpt-5.5", "", `,"tools":[{"type":"function","function":{"name":"`+strings.Repeat("a", 65)+`"}}]`), `"code":"string_above_max_length"`},
		{"a hosted tool", with("gpt-5.5", "", `,"tools":[{"type":"web_search"}]`), `'function' and 'custom'`},
		{"a flat function tool", with("gpt-5.5", "", `,"tools":[{"type":"function","name":"f"}]`), `Missing required parameter: 'tools[0].function'.`},
		{"a schema that is no object", with("gpt-5.5", "", function(`{"type":"array"}`, "")), `got 'type: "array"'`},
		{"a schema without type", with("gpt-5.5", "", function(`{}`, "")), `"code":"invalid_function_parameters"`},
		{"strict without closed object", with("gpt-5.5", "", function(`{"type":"object","properties":{}}`, `,"strict":true`)), `'additionalProperties' is required to be supplied and to be false`},
		{"strict with an optional property", with("gpt-5.5", "", function(`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`, `,"strict":true`)), `Missing 'a'`},
		{"calls and results", with("gpt-5.5", call+result, ""), ""},
		{"a call without its result", with("gpt-5.5", call, ""), `did not have response messages: call_1`},
		{"a call followed by the user", with("gpt-5.5", call+`,{"role":"user","content":"x"}`+result, ""), `did not have response messages: call_1`},
		{"a result without its call", with("gpt-5.5", `{"role":"user","content":"x"}`+result, ""), `must be a response to a prec`},
		{"empty tool_calls", with("gpt-5.5", `{"role":"assistant","content":"x","tool_calls":[]}`, ""), `'messages[0].tool_calls': empty array`},
		{"arguments as an object", with("gpt-5.5", strings.Replace(call, `"{}"`, `{}`, 1)+result, ""), `expected a string, but got an object`},
		{"a call id of 41", with("gpt-5.5", strings.ReplaceAll(call+result, "call_1", strings.Repeat("c", 41)), ""), `maximum length 40`},
		{"a picture in a tool message", with("gpt-5.5", call+`,{"role":"tool","tool_call_id":"call_1","content":[{"type":"image_url","image_url":{"url":"https://x"}}]}`, ""), `Invalid value: 'image_url'`},
		{"null content", with("gpt-5.5", `{"role":"user","content":null}`, ""), `expected a string, got null`},
		{"an empty content array", with("gpt-5.5", `{"role":"user","content":[]}`, ""), `"code":"empty_array"`},
		{"a picture without a type", with("gpt-5.5", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,aaaa"}}]}`, ""), `"code":"invalid_image_format"`},
		{"a picture", with("gpt-5.5", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/webp;base64,aaaa"}},{"type":"text","text":"?"}]}`, ""), ""},
		{"a picture from a drive", with("gpt-5.5", `{"role":"user","content":[{"type":"image_url","image_url":{"url":"gs://x/y.png"}}]}`, ""), `Expected a valid URL`},
		{"a strict schema", with("gpt-5.5", "", function(`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"object","properties":{},"additionalProperties":false}]},"b":{"type":"array","items":{"$ref":"#/$defs/c"}}},"required":["a","b"],"additionalProperties":false,"$defs":{"c":{"type":"string"}}}`, `,"strict":true`)), ""},
		{"strict with an open object deep inside", with("gpt-5.5", "", function(`{"type":"object","properties":{"b":{"type":"array","items":{"type":"object","properties":{}}}},"required":["b"],"additionalProperties":false}`, `,"strict":true`)), `In context=('properties', 'b', 'items'), 'additionalProperties'`},
		{"strict with oneOf", with("gpt-5.5", "", function(`{"type":"object","properties":{"b":{"oneOf":[{}]}},"required":["b"],"additionalProperties":false}`, `,"strict":true`)), `'oneOf' is not permitted`},
		{"structured output", with("gpt-5.5", "", `,"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object","properties":{},"additionalProperties":false}}}`), ""},
		{"structured output that is a list", with("gpt-5.5", "", `,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"array"}}}`), `Invalid schema for response_format 's'`},
		{"json_object without the word", with("gpt-5.5", "", `,"response_format":{"type":"json_object"}`), `must contain the word 'json'`},
		{"a nameless schema", with("gpt-5.5", "", `,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}`), `response_format.json_schema.name`},
		{"a long cache key", with("gpt-5.5", "", `,"prompt_cache_key":"`+strings.Repeat("k", 65)+`"`), `maximum length 64`},
		{"metadata that is no string", with("gpt-5.5", "", `,"metadata":{"a":1}`), `Invalid type for 'metadata.a'`},
	})
}

func TestChatCheckerKnowsDeepSeek(t *testing.T) {
	with := func(model, messages, more string) string {
		return `{"model":"` + model + `","messages":[` + messages + `]` + more + `}`
	}
	user := `{"role":"user","content":"hi"}`
	call := `,{"role":"assistant","content":"","REASONING"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}`
	bare := strings.Replace(call, `"REASONING`, ``, 1)
	full := strings.Replace(call, `"REASONING`, `"reasoning_content":"r",`, 1)
	const demand = `The reasoning_content in the thinking mode must be passed back to the API.`
	checkTable(t, "/chat/completions", []refused{
		{"plain", with("deepseek-v4-pro", user, `,"max_tokens":5,"thinking":{"type":"enabled"}`), ""},
		{"a member of OpenAI", with("deepseek-v4-pro", user, `,"parallel_tool_calls":true`), `Unknown parameter: parallel_tool_calls`},
		{"developer role", with("deepseek-v4-pro", `{"role":"developer","content":"x"},`+user, ""), "unknown variant `developer`"},
		{"system content as parts", with("deepseek-v4-pro", `{"role":"system","content":[{"type":"text","text":"x"}]},`+user, ""), `expected a string`},
		{"json_schema", with("deepseek-v4-pro", user, `,"response_format":{"type":"json_schema"}`), `This response_format type is unavailable now`},
		{"tool turn without its reasoning", with("deepseek-v4-pro", user+bare, ""), demand},
		{"tool turn with its reasoning", with("deepseek-v4-pro", user+full, ""), ""},
		{"later turn without its reasoning", with("deepseek-v4-pro", user+full+`,{"role":"assistant","content":"x"},`+user, ""), demand},
		{"plain turn without its reasoning", with("deepseek-v4-pro", user+`,{"role":"assistant","content":"x"},`+user, ""), ""},
		{"no reasoning with thinking off", with("deepseek-v4-pro", user+bare, `,"thinking":{"type":"disabled"}`), ""},
		{"old reasoning for the old model", with("deepseek-reasoner", user+full, ""), `not supported as input`},
	})
}

func TestResponsesCheckerRefusesWhatOpenAIRefuses(t *testing.T) {
	with := func(items, more string) string {
		return `{"model":"gpt-5.5","store":false,"input":[` + items + `]` + more + `}`
	}
	user := `{"role":"user","content":"hi"}`
	call := `,{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"}`
	output := `,{"type":"function_call_output","call_id":"call_1","output":"r"}`
	checkTable(t, "/v1/responses", []refused{
		{"a string", `{"model":"gpt-5.5","input":"hi"}`, ""},
		{"items", with(user, ""), ""},
		{"what Codex sends", with(user, `,"client_metadata":{"a":"b"},"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","reasoning":{"effort":"medium","summary":"auto"},"parallel_tool_calls":false,"text":{"verbosity":"low"}`), ""},
		{"no input", `{"model":"gpt-5.5"}`, `Missing required parameter: 'input'.`},
		{"unknown member", with(user, `,"max_tokens":5`), `"code":"unknown_parameter"`},
		{"service key", with(user, `,"service_external_session_id":"s"`), `Unknown parameter: 'service_external_session_id'.`},
		{"few output tokens", with(user, `,"max_output_tokens":15`), `Expected a value >= 16, but got 15 instead.`},
		{"temperature", with(user, `,"temperature":0`), `Unsupported parameter: 'temperature' is not supported with this model.`},
		{"the default temperature is fine", with(user, `,"temperature":1`), ""},
		{"effort for an older model", `{"model":"gpt-4.1","input":"x","reasoning":{"effort":"low"}}`, `Unsupported parameter: 'reasoning.effort'`},
		{"temperature for an older model", `{"model":"gpt-4.1","input":"x","temperature":0.2}`, ""},
		{"an include nobody knows", with(user, `,"include":["all"]`), `"param":"include[0]"`},
		{"calls and outputs", with(user+call+output, ""), ""},
		{"a call without its output", with(user+call, ""), `No tool output found for function call call_1.`},
		{"an output without its call", with(user+output, ""), `No tool call found for function call output with call_id call_1.`},
		{"an output before its call", with(user+output+call, ""), `No tool call found`},
		{"a freeform call and its output", with(user+`,{"type":"custom_tool_call","call_id":"c","name":"p","input":"x"},{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"x"}]}`, ""), ""},
		{"a long call id", with(user+strings.ReplaceAll(call+output, "call_1", strings.Repeat("c", 65)), ""), `maximum length 64`},
		{"an id of another house", with(user+strings.Replace(call, `"call_id"`, `"id":"toolu_1","call_id"`, 1)+output, ""), `Expected an ID that begins with 'fc'.`},
		{"a message id of another house", with(`{"type":"message","id":"chatcmpl-1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"x"}]},`+user, ""), `Expected an ID that begins with 'msg'.`},
		{"arguments as an object", with(user+strings.Replace(call, `"{}"`, `{}`, 1)+output, ""), `expected a string, but got an object`},
		{"a name with a dot", with(user+strings.Replace(call, `"f"`, `"a.f"`, 1)+output, ""), `'^[a-zA-Z0-9_-]+$'`},
		{"foreign reasoning", with(user+`,{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAABfremd"}`+call+output, ""), `could not be verified`},
		{"reasoning that leads nowhere", with(user+`,{"type":"reasoning","summary":[]},`+user, ""), `without its required following item`},
		{"reasoning that is not kept", with(user+`,{"type":"reasoning","id":"rs_1","summary":[]}`+call+output, ""), `Item with id 'rs_1' not found.`},
		{"a call torn from its reasoning", with(user+strings.Replace(call, `"call_id"`, `"id":"fc_0123456789abcdef01234567001000","call_id"`, 1)+output, ""), `without its required 'reasoning' item: 'rs_0123456789abcdef01234567000'`},
		{"a model of another house", `{"model":"claude-opus-5","input":"x"}`, `"code":"model_not_found"`},
		{"assistant with input_text", with(`{"role":"assistant","content":[{"type":"input_text","text":"x"}]},`+user, ""), `Invalid value: 'input_text'`},
		{"user with output_text", with(`{"role":"user","content":[{"type":"output_text","text":"x"}]}`, ""), `Invalid value: 'output_text'`},
		{"foreign member of a part", with(`{"role":"user","content":[{"type":"input_text","text":"x","cache_control":{}}]}`, ""), `input[0].content[0].cache_control`},
		{"foreign member of an item", with(user+strings.Replace(call, `"name"`, `"thought_signature":"x","name"`, 1)+output, ""), `input[1].thought_signature`},
		{"unknown item", with(user+`,{"type":"tool_result"}`, ""), `Invalid value: 'tool_result'`},
		{"a nested function tool", with(user, `,"tools":[{"type":"function","function":{"name":"f"}}]`), `Missing required parameter: 'tools[0].name'.`},
		{"tools in a namespace", with(user, `,"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"a b","parameters":null,"strict":false}]}]`), `tools[0].tools[0].name`},
		{"tool_choice of an unknown tool", with(user, `,"tool_choice":{"type":"function","name":"g"}`), `Tool choice 'function' 'g' not found in 'tools' parameter.`},
		{"stream_options of chat", with(user, `,"stream_options":{"include_usage":true}`), `only allowed when 'stream' is enabled`},
		{"a nested schema", with(user, `,"text":{"format":{"type":"json_schema","json_schema":{}}}`), `text.format.json_schema`},
	})
}

func TestMessagesCheckerRefusesWhatAnthropicRefuses(t *testing.T) {
	with := func(model, messages, more string) string {
		if messages == "" {
			messages = `{"role":"user","content":"hi"}`
		}
		return `{"model":"` + model + `","max_tokens":4000,"messages":[` + messages + `]` + more + `}`
	}
	tools := `,"tools":[{"name":"f","input_schema":{"type":"object"}}]`
	use := `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`
	result := `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"r"}]}`
	cached := `{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`
	checkTable(t, "/v1/messages", []refused{
		{"plain", with("claude-opus-5", "", ""), ""},
		{"a model of another house", with("gpt-5.5", "", ""), `"message":"model: gpt-5.5"`},
		{"no max_tokens", `{"model":"claude-opus-5","messages":[{"role":"user","content":"x"}]}`, `max_tokens: Field required`},
		{"no messages", `{"model":"claude-opus-5","max_tokens":5,"messages":[]}`, `at least one message is required`},
		{"unknown member", with("claude-opus-5", "", `,"service_chat_key":"k"`), `service_chat_key: Extra inputs are not permitted`},
		{"a beta member without its header", with("claude-opus-5", "", `,"context_management":{}`), `context_management: Extra inputs are not permitted`},
		{"assistant first", with("claude-opus-5", `{"role":"assistant","content":"x"},{"role":"user","content":"y"}`, ""), `first message must use the`},
		{"a tool role", with("claude-opus-5", `{"role":"tool","content":"x"}`, ""), `Input should be 'user' or 'assistant'`},
		{"system behind a user turn", with("claude-opus-5", `{"role":"user","content":"x"},{"role":"system","content":"y"}`, ""), ""},
		{"system behind an assistant turn", with("claude-opus-5", `{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"system","content":"y"}`, ""), `must directly follow a user message`},
		{"system for an older model", with("claude-opus-4-5", `{"role":"user","content":"x"},{"role":"system","content":"y"}`, ""), `role 'system' is not supported on this model`},
		{"empty text", with("claude-opus-5", `{"role":"user","content":[{"type":"text","text":""}]}`, ""), `text content blocks must be non-empty`},
		{"blank text", with("claude-opus-5", `{"role":"user","content":"  "}`, ""), `must contain non-whitespace text`},
		{"empty content", with("claude-opus-5", `{"role":"user","content":[]}`, ""), `must have non-empty content`},
		{"empty system text", with("claude-opus-5", "", `,"system":[{"type":"text","text":""}]`), `text content blocks must be non-empty`},
		{"a block of another format", with("claude-opus-5", `{"role":"user","content":[{"type":"input_text","text":"x"}]}`, ""), `Input tag 'input_text'`},
		{"foreign member of a block", with("claude-opus-5", `{"role":"user","content":[{"type":"text","text":"x","annotations":[]}]}`, ""), `messages.0.content.0.text.annotations: Extra inputs`},
		{"uses and results", with("claude-opus-5", use+result, tools), ""},
		{"a use without its result", with("claude-opus-5", use+`,{"role":"user","content":"x"}`, tools), "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."},
		{"a use at the end", with("claude-opus-4-5", use, tools), "`tool_use` ids were found without"},
		{"a result behind text", with("claude-opus-5", use+strings.Replace(result, `[{`, `[{"type":"text","text":"first"},{`, 1), tools), "`tool_use` ids were found without"},
		{"text behind a result", with("claude-opus-5", use+strings.Replace(result, `}]`, `},{"type":"text","text":"last"}]`, 1), tools), ""},
		{"a result without its use", with("claude-opus-5", `{"role":"user","content":"x"}`+result, tools), "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"},
		{"results in two user messages", with("claude-opus-5", strings.Replace(use, `}]}`, `},{"type":"tool_use","id":"toolu_2","name":"f","input":{}}]}`, 1)+result+strings.Replace(result, "toolu_1", "toolu_2", 1), tools), ""},
		{"one use twice", with("claude-opus-5", use+result+`,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`+result, tools), "`tool_use` ids must be unique"},
		{"tools used but not declared", with("claude-opus-5", use+result, ""), `must define tools`},
		{"an id with a dot", with("claude-opus-5", strings.ReplaceAll(use+result, "toolu_1", "call.1"), tools), `'^[a-zA-Z0-9_-]+$'`},
		{"input as a string", with("claude-opus-5", strings.Replace(use, `"input":{}`, `"input":"{}"`, 1)+result, tools), `tool_use.input: Input should be a valid dictionary`},
		{"a foreign signature", with("claude-opus-5", strings.Replace(use, `[{`, `[{"type":"thinking","thinking":"t","signature":"sv1.foreign"},{`, 1)+result, tools), "messages.1.content.0: Invalid `signature` in `thinking` block"},
		{"an empty signature", with("claude-opus-5", strings.Replace(use, `[{`, `[{"type":"thinking","thinking":"t","signature":""},{`, 1)+result, tools), "Invalid `signature` in `thinking` block"},
		{"foreign redacted thinking", with("claude-opus-5", strings.Replace(use, `[{`, `[{"type":"redacted_thinking","data":"abc"},{`, 1)+result, tools), "Invalid `data` in `redacted_thinking` block"},
		{"a tool loop that lost its thinking", with("claude-opus-4-5", use+result, tools+`,"thinking":{"type":"enabled","budget_tokens":1024}`), "Expected `thinking` or `redacted_thinking`, but found `tool_use`"},
		{"the same with adaptive thinking", with("claude-opus-5", use+result, tools+`,"thinking":{"type":"adaptive"}`), ""},
		{"a small budget", with("claude-opus-4-5", "", `,"thinking":{"type":"enabled","budget_tokens":1000}`), `greater than or equal to 1024`},
		{"a budget over max_tokens", with("claude-opus-4-5", "", `,"thinking":{"type":"enabled","budget_tokens":4000}`), "`max_tokens` must be greater than `thinking.budget_tokens`"},
		{"a budget for a new model", with("claude-sonnet-5-5", "", `,"thinking":{"type":"enabled","budget_tokens":2000}`), `not supported for this model`},
		{"adaptive for an old model", with("claude-sonnet-4-5", "", `,"thinking":{"type":"adaptive"}`), `adaptive thinking is not supported`},
		{"thinking with a forced tool", with("claude-opus-5", "", tools+`,"thinking":{"type":"adaptive"},"tool_choice":{"type":"any"}`), `Thinking may not be enabled when tool_choice forces tool use.`},
		{"temperature over 1", with("claude-sonnet-4-5", "", `,"temperature":1.5`), `temperature: range: 0..1`},
		{"temperature and top_p", with("claude-sonnet-4-5", "", `,"temperature":0.5,"top_p":0.5`), `cannot both be specified`},
		{"temperature for a new model", with("claude-opus-5", "", `,"temperature":0.5`), `deprecated for this model`},
		{"temperature while thinking", with("claude-opus-4-5", "", `,"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":2000}`), `may only be set to 1 when thinking is enabled`},
		{"five breakpoints", with("claude-opus-5", `{"role":"user","content":[`+strings.Repeat(cached+",", 4)+cached+`]}`, ""), `A maximum of 4 blocks with cache_control may be provided. Found 5.`},
		{"a breakpoint on thinking", with("claude-opus-5", strings.Replace(use, `[{`, `[{"type":"thinking","thinking":"t","signature":"s","cache_control":{}},{`, 1)+result, tools), `thinking.cache_control: Extra inputs`},
		{"a tool name with a dot", with("claude-opus-5", "", `,"tools":[{"name":"a.b","input_schema":{"type":"object"}}]`), `'^[a-zA-Z0-9_-]{1,128}$'`},
		{"a tool twice", with("claude-opus-5", "", `,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`), `Tool names must be unique`},
		{"a schema without type", with("claude-opus-5", "", `,"tools":[{"name":"f","input_schema":{}}]`), `input_schema.type: Field required`},
		{"a schema with a union at its root", with("claude-opus-5", "", `,"tools":[{"name":"f","input_schema":{"type":"object","anyOf":[{}]}}]`), `does not support oneOf, allOf, or anyOf at the top level`},
		{"a tool of OpenAI", with("claude-opus-5", "", `,"tools":[{"type":"function","function":{"name":"f"}}]`), `Input tag 'function'`},
		{"a server tool", with("claude-opus-5", "", `,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":3}]`), ""},
		{"tool_choice without tools", with("claude-opus-5", "", `,"tool_choice":{"type":"auto"}`), `only be specified while providing tools`},
		{"tool_choice of an unknown tool", with("claude-opus-5", "", tools+`,"tool_choice":{"type":"tool","name":"g"}`), `Tool 'g' not found in provided tools`},
		{"a prefill", with("claude-opus-5", `{"role":"user","content":"x"},{"role":"assistant","content":"y"}`, ""), `does not support assistant message prefill`},
		{"a prefill of an older model", with("claude-opus-4-5", `{"role":"user","content":"x"},{"role":"assistant","content":"y"}`, ""), ""},
		{"a prefill that ends in a blank", with("claude-opus-4-5", `{"role":"user","content":"x"},{"role":"assistant","content":"y "}`, ""), `cannot end with trailing whitespace`},
		{"a picture of an odd type", with("claude-opus-5", `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/jpg","data":"aaaa"}}]}`, ""), `source.base64.media_type`},
		{"a picture and a document", with("claude-opus-5", `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aaaa"}},{"type":"text","text":"?"}]}`, ""), ""},
		{"a picture that is no base64", with("claude-opus-5", `{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%%"}}]}`, ""), `Invalid base64 data`},
		{"a picture in a result", with("claude-opus-5", use+strings.Replace(result, `"r"`, `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aaaa"}}]`, 1), tools), ""},
		{"a part of OpenAI in a result", with("claude-opus-5", use+strings.Replace(result, `"r"`, `[{"type":"input_text","text":"r"}]`, 1), tools), `Input tag 'input_text'`},
		{"an empty text in a result", with("claude-opus-5", use+strings.Replace(result, `"r"`, `[{"type":"text","text":""}]`, 1), tools), `must be non-empty`},
		{"a result without content", with("claude-opus-5", use+strings.Replace(result, `,"content":"r"`, ``, 1), tools), ""},
		{"an output schema", with("claude-opus-5", "", `,"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","format":"uuid"}}},"required":["a"],"additionalProperties":false}}}`), ""},
		{"a format outside the list", with("claude-opus-5", "", `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string","format":"byte"}},"additionalProperties":false}}}`), `String format 'byte' is not supported`},
		{"a blank stop sequence", with("claude-opus-5", "", `,"stop_sequences":["\n"]`), `must contain non-whitespace`},
		{"metadata of OpenAI", with("claude-opus-5", "", `,"metadata":{"user_id":"u","team":"t"}`), `metadata.team: Extra inputs`},
		{"an open output schema", with("claude-opus-5", "", `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{}}}}`), `'additionalProperties' must be explicitly set to false`},
		{"a bound in an output schema", with("claude-opus-5", "", `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"additionalProperties":false}}}`), `property 'minimum' is not supported`},
		{"an effort of OpenAI", with("claude-opus-5", "", `,"output_config":{"effort":"minimal"}`), `output_config.effort`},
	})
}

func TestGeminiCheckerRefusesWhatGoogleRefuses(t *testing.T) {
	with := func(contents, more string) string {
		if contents == "" {
			contents = `{"role":"user","parts":[{"text":"hi"}]}`
		}
		return `{"contents":[` + contents + `]` + more + `}`
	}
	user := `{"role":"user","parts":[{"text":"x"}]}`
	call := `,{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}`
	response := `,{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{"output":"r"}}}]}`
	unsigned := strings.Replace(call, `,"thoughtSignature":"skip_thought_signature_validator"`, ``, 1)
	declare := func(member, schema string) string {
		return `,"tools":[{"functionDeclarations":[{"name":"f","description":"d","` + member + `":` + schema + `}]}]`
	}
	table := []refused{
		{"plain", with("", ""), ""},
		{"no contents", `{"contents":[]}`, `contents is not specified`},
		{"unknown member", with("", `,"model":"m"`), `Unknown name "model": Cannot find field.`},
		{"unknown member inside", with("", `,"generationConfig":{"max_tokens":5}`), `Unknown name "max_tokens" at 'generation_config': Cannot find field.`},
		{"unknown member of a part", with(`{"role":"user","parts":[{"text":"x","cache_control":{}}]}`, ""), `Unknown name "cache_control" at 'contents[0].parts[0]'`},
		{"snake case", with("", `,"generation_config":{"max_output_tokens":5},"system_instruction":{"parts":[{"text":"s"}]}`), ""},
		{"assistant role", with(user+`,{"role":"assistant","parts":[{"text":"x"}]},`+user, ""), `Please use a valid role: user, model.`},
		{"no parts", with(`{"role":"user","parts":[]}`, ""), `contents.parts must not be empty`},
		{"a part without data", with(`{"role":"user","parts":[{"thought":true}]}`, ""), `must have one initialized field`},
		{"a part with two data", with(`{"role":"user","parts":[{"text":"x","functionCall":{"name":"f"}}]}`, ""), `must have one initialized field`},
		{"model first", with(`{"role":"model","parts":[{"text":"x"}]},`+user, ""), `starts with a user turn`},
		{"calls and responses", with(user+call+response, ""), ""},
		{"a call without its response", with(user+call+`,`+user, ""), `number of function response parts is equal`},
		{"a call at the end", with(user+call, ""), `does not end with a function call turn`},
		{"a response without its call", with(user+response, ""), `immediately after a function call turn`},
		{"a response with text beside it", with(user+call+strings.Replace(response, `}]}`, `},{"text":"x"}]}`, 1), ""), `function response parts only`},
		{"a response with another name", with(user+call+strings.Replace(response, `"f"`, `"g"`, 1), ""), `in the same order`},
		{"a response that is a string", with(user+call+strings.Replace(response, `{"output":"r"}`, `"r"`, 1), ""), `(type.googleapis.com/google.protobuf.Struct)`},
		{"a turn of the model in pieces", with(user+`,{"role":"model","parts":[{"text":"x"}]}`+call+response, ""), ""},
		{"pieces, and no response for each call", with(user+call+call+response, ""), `number of function response parts is equal`},
		{"args as a string", with(user+strings.Replace(call, `"args":{}`, `"args":"{}"`, 1)+response, ""), `function_call.args`},
		{"a lost signature", with(user+unsigned+response, ""), `Function call is missing a thought_signature in functionCall parts.`},
		{"a lost signature of an earlier turn", with(user+unsigned+response+`,{"role":"model","parts":[{"text":"x"}]},`+user, ""), ""},
		{"a foreign signature", with(user+strings.Replace(call, "skip_thought_signature_validator", "Zm9yZWlnbg==", 1)+response, ""), `Corrupted thought signature.`},
		{"a signature that is no base64", with(user+strings.Replace(call, "skip_thought_signature_validator", "sv1.x", 1)+response, ""), `Base64 decoding failed`},
		{"JSON Schema", with("", declare("parametersJsonSchema", `{"type":"object","properties":{"format":{"type":"string","enum":["a"]},"$schema":{"type":["string","null"]}},"additionalProperties":false}`)), ""},
		{"a keyword outside the subset", with("", declare("parametersJsonSchema", `{"$schema":"x","type":"object"}`)), `Unsupported JSON schema keyword "$schema"`},
		{"a keyword deep inside", with("", declare("parametersJsonSchema", `{"type":"object","properties":{"a":{"type":"array","items":{"const":1}}}}`)), `"const"`},
		{"a ref with a neighbor", with("", declare("parametersJsonSchema", `{"type":"object","properties":{"a":{"$ref":"#/$defs/b","description":"d"}},"$defs":{"b":{}}}`)), `A schema with $ref`},
		{"JSON Schema in parameters", with("", declare("parameters", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`)), `Unknown name "additionalProperties" at 'tools[0].function_declarations[0].parameters'`},
		{"an empty object in parameters", with("", declare("parameters", `{"type":"object","properties":{}}`)), `should be non-empty for OBJECT type`},
		{"a required name nobody defined", with("", declare("parameters", `{"type":"OBJECT","properties":{"a":{"type":"STRING"}},"required":["b"]}`)), `property is not defined`},
		{"the OpenAPI subset", with("", declare("parameters", `{"type":"OBJECT","properties":{"a":{"type":"ARRAY","items":{"type":"STRING","enum":["x"]}},"b":{"anyOf":[{"type":"NUMBER"},{"type":"NULL"}]}},"required":["a"]}`)), ""},
		{"a type list in parameters", with("", declare("parameters", `{"type":["string","null"]}`)), `Invalid value at 'tools[0].function_declarations[0].parameters.type'`},
		{"an array without items", with("", declare("parameters", `{"type":"ARRAY"}`)), `items: missing field`},
		{"an enum of numbers in parameters", with("", declare("parameters", `{"type":"STRING","enum":[1]}`)), `(TYPE_STRING)`},
		{"structured output", with("", `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`), ""},
		{"structured output with a keyword outside the subset", with("", `,"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"string","pattern":"x"}}`), `"pattern" at 'generation_config.response_json_schema'`},
		{"a picture that is no base64", with(`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"%%"}}]}`, ""), `Base64 decoding failed`},
		{"a picture without a type", with(`{"role":"user","parts":[{"inlineData":{"data":"aaaa"}}]}`, ""), `mime_type: must be specified`},
		{"a function name with a digit first", with("", `,"tools":[{"functionDeclarations":[{"name":"1f"}]}]`), `Invalid function name`},
		{"a function twice", with("", `,"tools":[{"functionDeclarations":[{"name":"f"},{"name":"f"}]}]`), `Duplicate function declaration found: f`},
		{"declarations in two tools", with("", `,"tools":[{"functionDeclarations":[{"name":"f"}]},{"functionDeclarations":[{"name":"g"}]}]`), `Multiple tools are supported only`},
		{"allowed names with AUTO", with("", declare("parametersJsonSchema", `{}`)+`,"toolConfig":{"functionCallingConfig":{"mode":"AUTO","allowedFunctionNames":["f"]}}`), `ANY or VALIDATED`},
		{"an allowed name nobody declared", with("", declare("parametersJsonSchema", `{}`)+`,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["g"]}}`), `'g' is not declared`},
		{"six stop sequences", with("", `,"generationConfig":{"stopSequences":["a","b","c","d","e","f"]}`), `must not be more than 5`},
		{"budget and level", with("", `,"generationConfig":{"thinkingConfig":{"thinkingBudget":5,"thinkingLevel":"LOW"}}`), `only set one of`},
		{"a schema without JSON", with("", `,"generationConfig":{"responseJsonSchema":{"type":"object"}}`), `response_mime_type is not application/json`},
		{"a system instruction with a picture", with("", `,"systemInstruction":{"parts":[{"inlineData":{"mimeType":"image/png","data":"aaaa"}}]}`), `Unknown name "inlineData" at 'system_instruction.parts[0]'`},
	}
	checkTable(t, "/v1beta/models/gemini-3.8-flash:generateContent", table)
	checkTable(t, "/v1beta/models/gemini-2.5-pro:generateContent", []refused{
		{"no signature needed", with(user+unsigned+response, ""), ""},
		{"a level for an older model", with("", `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}`), `Thinking level is not supported`},
		{"a model that always thinks", with("", `,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`), `only works in thinking mode`},
	})
}

func TestEmbeddingsCheckerRefusesWhatProvidersRefuse(t *testing.T) {
	checkTable(t, "/v1/embeddings", []refused{
		{"a string", `{"model":"text-embedding-3-small","input":"x"}`, ""},
		{"tokens", `{"model":"text-embedding-3-small","input":[1,2,3]}`, ""},
		{"token arrays", `{"model":"text-embedding-3-small","input":[[1,2],[3]]}`, ""},
		{"empty string", `{"model":"text-embedding-3-small","input":""}`, `'$.input' is invalid`},
		{"empty array", `{"model":"text-embedding-3-small","input":[]}`, `'$.input' is invalid`},
		{"mixed array", `{"model":"text-embedding-3-small","input":["a",1]}`, `'$.input' is invalid`},
		{"too many", `{"model":"text-embedding-3-small","input":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, `maximum length 2048`},
		{"unknown member", `{"model":"text-embedding-3-small","input":"x","input_type":"query"}`, `Unknown parameter: 'input_type'.`},
		{"an encoding nobody knows", `{"model":"text-embedding-3-small","input":"x","encoding_format":"int8"}`, `Invalid value: 'int8'`},
		{"more dimensions than there are", `{"model":"text-embedding-3-small","input":"x","dimensions":1537}`, `does not support 1537 dimensions`},
		{"dimensions of a fixed model", `{"model":"text-embedding-ada-002","input":"x","dimensions":512}`, `does not support 512 dimensions`},
		{"a model without embeddings", `{"model":"gpt-5.5","input":"x"}`, `not allowed to generate embeddings`},
		{"voyage", `{"model":"voyage-4","input":["a"],"output_dimension":512,"input_type":"document"}`, ""},
		{"voyage with OpenAI's member", `{"model":"voyage-4","input":["a"],"dimensions":512}`, `Unknown parameter: 'dimensions'.`},
		{"voyage with tokens", `{"model":"voyage-4","input":[1,2]}`, `expected an array of strings`},
	})
	checkTable(t, "/v1beta/models/gemini-embedding-001:batchEmbedContents", []refused{
		{"one", `{"requests":[{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"a"}]},"outputDimensionality":768}]}`, ""},
		{"none", `{"requests":[]}`, `between 1 and 100`},
		{"too many", `{"requests":[` + strings.Repeat(`{"content":{"parts":[{"text":"a"}]}},`, 100) + `{"content":{"parts":[{"text":"a"}]}}]}`, `between 1 and 100`},
		{"another model", `{"requests":[{"model":"models/other","content":{"parts":[{"text":"a"}]}}]}`, `does not match`},
		{"OpenAI's member", `{"requests":[{"content":{"parts":[{"text":"a"}]},"dimensions":768}]}`, `Unknown name "dimensions"`},
		{"an odd size", `{"requests":[{"content":{"parts":[{"text":"a"}]},"outputDimensionality":64}]}`, `between 128 and 3072`},
	})
}

func TestCredentialsAndVersionAreAskedFor(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	for _, e := range endpoints {
		url := s.URL() + e.path(false)
		bare := request(t.Context(), t, url, e.body("hi", false))
		bare.Header = map[string][]string{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}}
		resp, err := client.Do(bare)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s without a credential: %s", e.name, resp.Status)
		}
	}
	for version, want := range map[string]int{"": 400, "2020-01-01": 400, "2023-06-01": 200, "2026-10-21": 200} {
		r := request(t.Context(), t, s.URL()+"/v1/messages", endpoints[2].body("hi", false))
		r.Header.Set("Anthropic-Version", version)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("version %q gives %s", version, resp.Status)
		}
	}
}

// Nothing that a hostile body holds brings the provider down; it stays able to answer.
func TestHostileBodiesGetAnAnswer(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 3000) + `1` + strings.Repeat(`}}`, 3000)
	for _, body := range []string{
		``, `[]`, `null`, `{}`, `{"model":1,"messages":{}}`, `{"model":"gpt-5.5","messages":[null,1,"x",[]]}`, `{"input":[{},null]}`,
		`{"model":"gpt-5.5","messages":[{"role":"user","content":[null]}],"input":[{"role":"user","content":5}],"tools":[null,5,{}],"contents":[{"parts":[null]}]}`,
		`{"model":"gpt-5.5","max_tokens":1e400,"messages":[{"role":"user","content":"x"}],"input":"x"}`,
		`{"model":"gpt-5.5","input":"x","tools":[{"type":"function","name":"f","strict":true,"parameters":` + deep + `}]}`,
		`{"model":"claude-opus-5","max_tokens":5,"messages":[{"role":"user","content":"x"}],"output_config":{"format":{"type":"json_schema","schema":` + deep + `}}}`,
		`{"contents":[{"parts":[{"text":"x"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":` + deep + `}]}]}`,
		strings.Repeat(`[`, 100_000),
		"{\"model\":\"\xff\xfe\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}],\"input\":\"\xff\",\"max_tokens\":5}",
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/gemini-3-pro:generateContent", "/v1beta/models/gemini-embedding-001:embedContent", "/v1/embeddings", "/v1/messages/count_tokens"} {
			if _, _, err := send(t, s.URL()+path, body); err != nil {
				t.Errorf("%s: %.60q: %v", path, body, err)
			}
		}
	}
}

func TestAnUnknownPathIsRefusedInTheFormOfItsAPI(t *testing.T) {
	checkTable(t, "/v1/nothing", []refused{{"OpenAI", `{}`, `"type":"invalid_request_error"`}})
	for _, path := range []string{"/v1beta/files/x", "/upload/v1/files"} {
		checkTable(t, path, []refused{{"Google " + path, `{}`, `"status":"NOT_FOUND"`}})
	}
}
