package crossing_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// turnWith is a conversation of Messages whose assistant's turn has these blocks, which are answered.
func turnWith(blocks string) string {
	return `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` + blocks + `]},{"role":"user","content":"c"}]`
}

// inputWith is a conversation of Responses with items between two questions.
func inputWith(items string) string {
	return `"input":[{"role":"user","content":"a"},` + items + `,{"role":"user","content":"c"}]`
}

func chatEffort(effort string) string {
	return `"max_completion_tokens":60000,"reasoning_effort":"` + effort + `",` + hi
}

func thinkingOf(thinking string) string {
	return `"thinking":` + thinking + `,"max_tokens":60000,` + hi
}

// Rules of docs/wire/translation.md, by section, that no pitfall is about.
var ruleTests = []requestTest{
	{"2.2 of two limits the newer member counts", codec.Chat, claude, `"max_tokens":100,"max_completion_tokens":200,` + hi, []string{`"max_tokens":200`}, nil, nil, ""},
	{"2.2 a limit is capped by the model's", codec.Chat, claude45, `"max_completion_tokens":10000000,` + hi, []string{`"max_tokens":`}, []string{"10000000"}, nil, ""},
	{"2.2 a limit of 0 has no meaning for Gemini", codec.Messages, gemini, `"max_tokens":0,` + hi, nil, nil, nil, "max_tokens"},
	{"2.2 stop may be a string", codec.Chat, claude, `"stop":"END",` + hi, []string{`"stop_sequences":["END"]`}, nil, nil, ""},
	{"2.2 stop may be a string for Gemini", codec.Chat, gemini, `"stop":"END",` + hi, []string{`"stopSequences":["END"]`}, nil, nil, ""},
	{"2.2 Gemini takes seed and penalties", codec.Chat, gemini, `"seed":7,"presence_penalty":0.5,"frequency_penalty":-0.5,` + hi, []string{`"seed":7`, `"presencePenalty":0.5`, `"frequencyPenalty":-0.5`}, nil, nil, ""},
	{"2.2 Messages does not", codec.Chat, claude, `"seed":7,"presence_penalty":0.5,"frequency_penalty":0.5,"logit_bias":{"1":1},` + hi, nil, []string{"seed", "penalty", "logit"}, []string{"dropped:seed", "dropped:presence_penalty", "dropped:frequency_penalty", "dropped:logit_bias"}, ""},
	{"2.2 nor Responses", codec.Chat, gpt, `"seed":7,"logit_bias":{"1":1},` + hi, nil, []string{"seed", "logit"}, []string{"dropped:seed", "dropped:logit_bias"}, ""},
	{"2.2 nor a bias Gemini", codec.Chat, gemini, `"logit_bias":{"1":1},` + hi, nil, []string{"ogit"}, []string{"dropped:logit_bias"}, ""},
	{"2.2 one answer from Responses", codec.Chat, gpt, `"n":2,` + hi, nil, nil, nil, "n"},
	{"2.2 one answer from Gemini", codec.Chat, gemini, `"n":2,` + hi, nil, nil, nil, "n"},
	{"2.2 n of 1 is nothing", codec.Chat, claude, `"n":1,` + hi, nil, []string{`"n"`}, nil, ""},
	{"2.2 log probabilities are noted for Responses", codec.Chat, gpt, `"logprobs":true,"top_logprobs":2,` + hi, nil, []string{"logprobs"}, []string{"dropped:logprobs"}, ""},
	{"2.2 and refused for Gemini", codec.Chat, gemini, `"logprobs":true,` + hi, nil, nil, nil, "logprobs"},
	{"2.2 Gemini's clients read their own name of n", codec.Gemini, claude, `"generationConfig":{"candidateCount":2},` + geminiHi, nil, nil, nil, "generationConfig.candidateCount"},
	{"2.2 and of log probabilities", codec.Gemini, claude, `"generationConfig":{"responseLogprobs":true},` + geminiHi, nil, nil, nil, "generationConfig.responseLogprobs"},
	{"2.2 and of what is left out", codec.Gemini, claude, `"generationConfig":{"seed":7,"presencePenalty":0.5},` + geminiHi, nil, []string{"seed", "enalty"}, []string{"dropped:generationConfig.seed", "dropped:generationConfig.presencePenalty"}, ""},
	{"2.2 usage of a stream is always asked for", codec.Messages, own, `"stream":true,` + messagesHi, []string{`"stream_options":{"include_usage":true`}, nil, nil, ""},
	{"2.2 the user reaches Messages", codec.Chat, claude, `"user":"u1",` + hi, []string{`"metadata":{"user_id":"u1"}`}, nil, nil, ""},
	{"2.2 a safety identifier before it", codec.Responses, claude, `"user":"u1","safety_identifier":"s1","input":"hi"`, []string{`"metadata":{"user_id":"s1"}`}, nil, nil, ""},
	{"2.2 a user id keeps caches together", codec.Messages, gpt, `"metadata":{"user_id":"u1"},` + messagesHi, []string{`"prompt_cache_key":"`}, []string{`"u1"`}, nil, ""},
	{"2.2 metadata is OpenAI's", codec.Chat, gpt, `"metadata":{"a":"b"},` + hi, []string{`"metadata":{"a":"b"}`}, nil, nil, ""},
	{"2.2 and noted elsewhere", codec.Chat, claude, `"metadata":{"a":"b"},` + hi, nil, []string{`"a":"b"`}, []string{"dropped:metadata"}, ""},
	{"2.2 other providers do not store", codec.Chat, claude, `"store":true,` + hi, nil, []string{"store"}, []string{"dropped:store"}, ""},
	{"2.2 a conversation lies with OpenAI", codec.Responses, claude, `"conversation":"conv_1","input":"hi"`, nil, nil, nil, "conversation"},
	{"2.2 a prompt lies with OpenAI", codec.Responses, gemini, `"prompt":{"id":"p"},"input":"hi"`, nil, nil, nil, "prompt"},
	{"2.2 truncation is noted", codec.Responses, claude, `"truncation":"auto","input":"hi"`, nil, []string{"truncation"}, []string{"dropped:truncation"}, ""},
	{"2.2 management of the context is noted", codec.Messages, gpt, `"context_management":{"edits":[]},` + messagesHi, nil, []string{"context_management"}, []string{"dropped:context_management"}, ""},
	{"2.2 a tier is OpenAI's", codec.Chat, gpt, `"service_tier":"flex",` + hi, []string{`"service_tier":"flex"`}, nil, nil, ""},
	{"2.2 and noted elsewhere, too", codec.Chat, claude, `"service_tier":"flex",` + hi, nil, []string{"flex"}, []string{"dropped:service_tier"}, ""},
	{"2.2 verbosity is text's", codec.Chat, gpt, `"verbosity":"low",` + hi, []string{`"text":{"verbosity":"low"`}, nil, nil, ""},
	{"2.2 verbosity is noted elsewhere", codec.Responses, claude, `"text":{"verbosity":"low"},"input":"hi"`, nil, []string{"verbosity"}, []string{"dropped:text.verbosity"}, ""},
	{"2.2 one call at a time", codec.Chat, claude, `"parallel_tool_calls":false,` + chatTool + `,` + hi, []string{`"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`}, nil, nil, ""},
	{"2.2 which needs tools", codec.Chat, claude, `"parallel_tool_calls":false,` + hi, nil, []string{"tool_choice"}, nil, ""},
	{"2.2 and which Gemini cannot", codec.Chat, gemini, `"parallel_tool_calls":false,` + chatTool + `,` + hi, nil, []string{"parallel"}, []string{"dropped:parallel_tool_calls"}, ""},
	{"2.2 by the client's name", codec.Messages, gemini, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},` + messagesHi + `,` + messagesTool, nil, nil, []string{"dropped:tool_choice.disable_parallel_tool_use"}, ""},
	{"2.2 and Messages says to OpenAI", codec.Messages, gpt, `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},` + messagesHi + `,` + messagesTool, []string{`"parallel_tool_calls":false`}, nil, nil, ""},
	{"2.2 most tool calls are noted", codec.Responses, claude, `"max_tool_calls":3,"input":"hi"`, nil, []string{"max_tool_calls"}, []string{"dropped:max_tool_calls"}, ""},
	{"2.2 where a model runs is noted", codec.Messages, gpt, `"inference_geo":"eu","container":"c1",` + messagesHi, nil, []string{"inference_geo", "container"}, []string{"dropped:inference_geo", "dropped:container"}, ""},
	{"2.2 text is what all answer in", codec.Chat, claude, `"modalities":["text"],` + hi, nil, []string{"modalities"}, nil, ""},
	{"2.2 sound is not", codec.Chat, claude, `"modalities":["text","audio"],"audio":{"voice":"a","format":"wav"},` + hi, nil, nil, nil, "modalities"},
	{"2.2 a prediction is noted", codec.Chat, claude, `"prediction":{"type":"content","content":"x"},` + hi, nil, []string{"prediction"}, []string{"dropped:prediction"}, ""},
	{"2.2 Codex's bookkeeping goes without a note", codec.Responses, claude, `"client_metadata":{"a":"b"},"input":"hi"`, nil, []string{"client_metadata"}, nil, ""},
	{"2.2 what is to be included is noted", codec.Responses, claude, `"include":["file_search_call.results"],"input":"hi"`, nil, []string{"include"}, []string{"dropped:include"}, ""},
	{"2.2 top_k is Google's, too", codec.Messages, gemini, `"top_k":5,` + messagesHi, []string{`"topK":5`}, nil, nil, ""},

	{"2.3 turns of one role stay apart for chat", codec.Messages, own, `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]`, []string{`{"role":"user","content":"a"}`, `{"role":"user","content":"b"}`}, nil, nil, ""},
	{"2.3 and are one for Messages", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]`, []string{`"text":"a"`, `"text":"b"`}, []string{`"role":"user","content":[{"type":"text","text":"b"`}, nil, ""},
	{"2.3 an instruction behind the assistant is the person's", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"system","content":"mid"},{"role":"user","content":"c"}]`, []string{`"b"`, `"role":"user"`, `"mid"`, `"c"`}, []string{`"role":"system"`}, []string{"emulated:messages[2].role"}, ""},
	{"2.3 Claude Code's instructions stay in place", codec.Messages, gpt, `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"system","content":"mid"}]`, []string{`"c"`, `"role":"system"`, `mid`}, nil, nil, ""},
	{"2.3 an unanswered call at the end is named for Responses", codec.Messages, gpt, `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]}],` + messagesTool, nil, nil, nil, "messages[1]"},
	{"2.3 and for Gemini", codec.Chat, gemini, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `],` + chatTool, nil, nil, nil, "messages[1]"},
	{"2.3 a result without its call becomes words for Responses", codec.Messages, gpt, `"max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t0","content":"old"}]}]`, []string{"Result of an earlier tool call", "old"}, []string{"function_call_output"}, nil, ""},
	{"2.3 and for Gemini, too", codec.Chat, gemini, `"messages":[` + chatResult("c0", "old") + `,{"role":"user","content":"a"}],` + chatTool, []string{"Result of an earlier tool call", "old"}, []string{"functionResponse"}, nil, ""},
	{"2.3 a result without an id may not be anyone's", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"r"},` + chatResult("c2", "s") + `],` + chatTool, nil, nil, nil, "messages[2]"},
	{"2.3 texts of a result stay texts", codec.Messages, gpt, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}`), []string{`"output":[{"type":"input_text","text":"x"},{"type":"input_text","text":"y"}]`}, nil, nil, ""},
	{"2.3 a picture of a result stays in it", codec.Messages, gpt, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]}`), []string{`"output":[{"type":"input_image"`}, nil, nil, ""},
	{"2.3 a document, too", codec.Messages, gpt, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERg=="}}]}`), []string{`"output":[{"type":"input_file"`}, nil, nil, ""},
	{"2.3 a search result is told in words", codec.Messages, gpt, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"search_result","source":"https://x","title":"X","content":[{"type":"text","text":"found"}]}]}`), []string{`https://x`, `found`}, []string{"search_result"}, nil, ""},
	{"2.3 what is unknown in a result is named", codec.Messages, gpt, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"},{"type":"browser_state","url":"https://x"}]}`), []string{`"x"`}, nil, []string{"dropped:messages.content.browser_state"}, ""},
	{"2.3 arguments that are nothing are an object", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":""}}]},` + chatResult("c1", "r") + `],` + chatTool, []string{`"input":{}`}, nil, nil, ""},
	{"2.3 arguments that are no object are kept", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"[1]"}}]},` + chatResult("c1", "r") + `],` + chatTool, []string{`"input":{"_raw":"[1]"}`}, nil, nil, ""},
	{"2.3 a file at OpenAI is read through either format", codec.Chat, gpt, `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]`, []string{`"file_id":"file-1"`}, nil, nil, ""},
	{"2.3 but nowhere else", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]`, nil, nil, nil, "messages[0]"},
	{"2.3 and the other way", codec.Responses, gpt4, `"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]`, []string{`{"type":"file","file":{"file_id":"file-1"}}`}, nil, nil, ""},
	{"2.3 but a picture's, which chat cannot name", codec.Responses, gpt4, `"input":[{"role":"user","content":[{"type":"input_image","file_id":"file-1"}]}]`, nil, nil, nil, "input[0]"},
	{"2.3 another host has no file of OpenAI's", codec.Responses, own, `"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]`, nil, nil, nil, "input[0]"},
	{"2.3 Gemini listens", codec.Chat, gemini, `"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]`, []string{`"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}`}, nil, nil, ""},
	{"2.3 Messages does not", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]`, nil, nil, nil, "messages[0]"},
	{"2.3 nor Responses", codec.Chat, gpt, `"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}]}]`, nil, nil, nil, "messages[0]"},
	{"2.3 old functions are tools", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"}],"functions":[{"name":"f","parameters":{"type":"object"}}]`, []string{`"name":"f"`, `"type":"tool_use","id":"call_fn_`, `"tool_use_id":"call_fn_`}, nil, nil, ""},
	{"2.3 a refusal of the history stays one", codec.Chat, gpt, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"refusal":"no"},{"role":"user","content":"b"}]`, []string{`{"type":"refusal","refusal":"no"}`}, nil, nil, ""},
	{"2.3 a phase goes without a note", codec.Responses, claude, inputWith(`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"b"}]}`), []string{`"b"`}, []string{"commentary"}, nil, ""},
	{"2.3 a compacted conversation is OpenAI's", codec.Responses, claude, inputWith(`{"type":"compaction","id":"cmp_1","encrypted_content":"x"}`), nil, nil, nil, "input[1]"},
	{"2.3 what agents say to each other is text", codec.Responses, claude, inputWith(`{"type":"agent_message","id":"am_1","author":"helper","recipient":"main","content":[{"type":"input_text","text":"done"}]}`), []string{"helper", "done"}, nil, nil, ""},
	{"2.3 a finished call of a provider's tool is told", codec.Responses, claude, inputWith(`{"type":"mcp_call","id":"mcp_1","server_label":"s","name":"look","arguments":"{}","output":"seen"}`), []string{"look"}, []string{"mcp_1"}, []string{"dropped:input.mcp_call"}, ""},
	{"2.3 a question for approval is OpenAI's", codec.Responses, claude, inputWith(`{"type":"mcp_approval_request","id":"mcpr_1","server_label":"s","name":"look","arguments":"{}"}`), nil, nil, nil, "input[1]"},
	{"2.3 a search of Anthropic's is told", codec.Messages, gpt, turnWith(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"otters"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"Otter","url":"https://o.example","encrypted_content":"SECRET"}]},{"type":"text","text":"b"}`), []string{"otters", "https://o.example"}, []string{"SECRET", "function_call"}, nil, ""},
	{"2.3 an upload to a container cannot be left out", codec.Messages, gpt, `"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"container_upload","file_id":"file_1"}]}]`, nil, nil, nil, "messages[0].content[1]"},
	{"2.3 citations are not shown to models", codec.Messages, gpt, turnWith(`{"type":"text","text":"b","citations":[{"type":"char_location","cited_text":"CITED","document_index":0,"start_char_index":0,"end_char_index":1}]}`), []string{`"b"`}, []string{"CITED"}, nil, ""},
	{"2.3 a shell call of Codex is a call where the tool is declared", codec.Responses, claude, inputWith(`{"type":"local_shell_call","id":"lsh_1","call_id":"c1","status":"completed","action":{"type":"exec","command":["ls"]}},{"type":"local_shell_call_output","call_id":"c1","output":"a.txt"}`) + `,"tools":[{"type":"local_shell"}]`, []string{`"type":"tool_use"`, `"ls"`, `"type":"tool_result"`, "a.txt"}, nil, nil, ""},
	{"2.3 a web search of OpenAI's is told", codec.Responses, claude, inputWith(`{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"otters"}}`), []string{"otters"}, []string{"ws_1"}, nil, ""},

	{"2.4 a function without a schema takes nothing", codec.Chat, claude, `"tools":[{"type":"function","function":{"name":"f"}}],` + hi, []string{`"input_schema":{"type":"object","properties":{}}`}, nil, nil, ""},
	{"2.4 and has none for Gemini", codec.Responses, gemini, `"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}],"input":"hi"`, []string{`{"name":"f"}`}, nil, nil, ""},
	{"2.4 what only Messages says of tools", codec.Messages, gpt, messagesHi + `,"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"},"eager_input_streaming":true,"input_examples":[{"a":1}]}]`, []string{`"name":"f"`}, []string{"cache_control", "eager_input_streaming", "input_examples"}, nil, ""},
	{"2.4 a root of several objects is one", codec.Chat, claude, `"tools":[{"type":"function","function":{"name":"f","parameters":{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}}},{"type":"object","properties":{"b":{"type":"string"}}}]}}}],` + hi, []string{`"input_schema":{`, `"a"`, `"b"`}, []string{"anyOf"}, nil, ""},
	{"2.4 bounds of an answer are told", codec.Chat, claude, `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"],"additionalProperties":false}}},` + hi, []string{`"output_config":{"format":{"type":"json_schema"`, `"description":"{maxLength: 3}"`}, nil, nil, ""},

	{"2.5 a shell of Codex is a function", codec.Responses, claude, `"tools":[{"type":"local_shell"}],"input":"hi"`, []string{`"name":"local_shell","description"`}, nil, nil, ""},
	{"2.5 what is searched for is there at once", codec.Responses, claude, `"tools":[{"type":"tool_search"},{"type":"function","name":"f","defer_loading":true,"parameters":{"type":"object"}}],"input":"hi"`, []string{`"name":"f"`}, []string{"tool_search", "defer_loading"}, []string{"dropped:tools[0]"}, ""},
	{"2.5 Anthropic's tools that clients run are functions", codec.Messages, gpt, messagesHi + `,"tools":[{"type":"bash_20250124","name":"bash"}]`, []string{`"type":"function"`, `"name":"bash"`, `"command"`}, nil, nil, ""},
	{"2.5 those that it runs are noted", codec.Messages, gpt, messagesHi + `,"tools":[{"type":"web_fetch_20250910","name":"web_fetch"},{"name":"f","input_schema":{"type":"object"}}]`, []string{`"name":"f"`}, []string{"web_fetch"}, []string{"dropped:tools[0]"}, ""},
	{"2.5 unless they are chosen", codec.Messages, gpt, messagesHi + `,"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}],"tool_choice":{"type":"tool","name":"web_fetch"}`, nil, nil, nil, "tool_choice"},

	{"2.6 no calls is NONE", codec.Messages, gemini, `"tool_choice":{"type":"none"},` + messagesHi + `,` + messagesTool, []string{`"functionDeclarations"`, `"mode":"NONE"`}, nil, nil, ""},
	{"2.6 some call is ANY", codec.Messages, gemini, `"tool_choice":{"type":"any"},` + messagesHi + `,` + messagesTool, []string{`"mode":"ANY"`}, nil, nil, ""},
	{"2.6 some call is required", codec.Messages, own, `"tool_choice":{"type":"any"},` + messagesHi + `,` + messagesTool, []string{`"tool_choice":"required"`}, nil, nil, ""},
	{"2.6 one tool is its name", codec.Messages, own, `"tool_choice":{"type":"tool","name":"f"},` + messagesHi + `,` + messagesTool, []string{`"tool_choice":{"type":"function","function":{"name":"f"}}`}, nil, nil, ""},
	{"2.6 and flat in Responses", codec.Chat, gpt, `"tool_choice":{"type":"function","function":{"name":"f"}},` + chatTool + `,` + hi, []string{`"tool_choice":{"type":"function","name":"f"}`}, nil, nil, ""},
	{"2.6 a freeform tool is chosen by its name", codec.Responses, claude, `"input":"hi","tools":[{"type":"custom","name":"patch"}],"tool_choice":{"type":"custom","name":"patch"}`, []string{`"tool_choice":{"type":"tool","name":"patch"}`}, nil, nil, ""},

	{"2.7 none, adaptive", codec.Chat, claude, chatEffort("none"), nil, []string{`"enabled"`, `"adaptive"`, "effort"}, nil, ""},
	{"2.7 minimal, adaptive", codec.Chat, claude, chatEffort("minimal"), []string{`"effort":"low"`}, nil, nil, ""},
	{"2.7 medium, adaptive", codec.Chat, claude, chatEffort("medium"), []string{`"effort":"medium"`}, nil, nil, ""},
	{"2.7 none, budget", codec.Chat, claude45, chatEffort("none"), nil, []string{"budget_tokens"}, nil, ""},
	{"2.7 minimal, budget", codec.Chat, claude45, chatEffort("minimal"), []string{`"budget_tokens":1024`}, nil, nil, ""},
	{"2.7 medium, budget", codec.Chat, claude45, chatEffort("medium"), []string{`"budget_tokens":8192`}, nil, nil, ""},
	{"2.7 high, budget", codec.Chat, claude45, chatEffort("high"), []string{`"budget_tokens":24576`}, nil, nil, ""},
	{"2.7 xhigh, budget", codec.Chat, claude45, chatEffort("xhigh"), []string{`"budget_tokens":32768`}, nil, nil, ""},
	{"2.7 none, level", codec.Chat, gemini, chatEffort("none"), []string{`"thinkingLevel":"MINIMAL"`}, nil, []string{"dropped:reasoning_effort"}, ""},
	{"2.7 medium, level", codec.Chat, gemini, chatEffort("medium"), []string{`"thinkingLevel":"MEDIUM"`}, nil, nil, ""},
	{"2.7 max, level", codec.Chat, gemini, chatEffort("max"), []string{`"thinkingLevel":"HIGH"`}, nil, []string{"dropped:reasoning_effort"}, ""},
	{"2.7 none, Google's budget", codec.Chat, gemini2, chatEffort("none"), []string{`"thinkingBudget":128`}, nil, []string{"dropped:reasoning_effort"}, ""},
	{"2.7 none, where it can be off", codec.Chat, "gemini-2.5-flash", chatEffort("none"), []string{`"thinkingBudget":0`}, nil, nil, ""},
	{"2.7 minimal, Google's budget", codec.Chat, gemini2, chatEffort("minimal"), []string{`"thinkingBudget":512`}, nil, nil, ""},
	{"2.7 high, Google's budget", codec.Chat, gemini2, chatEffort("high"), []string{`"thinkingBudget":24576`}, nil, nil, ""},
	{"2.7 absent", codec.Chat, gemini, hi, nil, []string{"thinking"}, nil, ""},
	{"2.7 a small budget", codec.Messages, gpt, thinkingOf(`{"type":"enabled","budget_tokens":1024}`), []string{`"effort":"low"`}, nil, nil, ""},
	{"2.7 a large budget", codec.Messages, gpt, thinkingOf(`{"type":"enabled","budget_tokens":20000}`), []string{`"effort":"high"`}, nil, nil, ""},
	{"2.7 a very large budget", codec.Messages, gpt, thinkingOf(`{"type":"enabled","budget_tokens":30000}`), []string{`"effort":"xhigh"`}, nil, nil, ""},
	{"2.7 adaptive without a word", codec.Messages, gpt, thinkingOf(`{"type":"adaptive"}`), nil, []string{`"effort"`}, nil, ""},
	{"2.7 off", codec.Messages, gpt, thinkingOf(`{"type":"disabled"}`), []string{`"effort":"none"`}, nil, nil, ""},
	{"2.7 a summary is Google's thought", codec.Responses, gemini, `"reasoning":{"effort":"low","summary":"auto"},"input":"hi"`, []string{`"includeThoughts":true`}, nil, nil, ""},
	{"2.7 and shown by Messages", codec.Responses, claude, `"reasoning":{"effort":"low","summary":"auto"},"input":"hi"`, []string{`"display":"summarized"`}, nil, nil, ""},
	{"2.7 without one it is not shown", codec.Responses, claude, `"reasoning":{"effort":"low"},"input":"hi"`, []string{`"display":"omitted"`}, nil, nil, ""},
	{"2.7 what Messages shows is a summary", codec.Messages, gpt, thinkingOf(`{"type":"adaptive","display":"summarized"}`), []string{`"summary":"auto"`}, nil, nil, ""},

	{"2.8 JSON for Gemini", codec.Chat, gemini, `"response_format":{"type":"json_object"},` + hi, []string{`"responseMimeType":"application/json"`}, nil, nil, ""},
	{"2.8 a schema for Gemini", codec.Chat, gemini, `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object","properties":{"a":{"type":"string"}}}}},` + hi, []string{`"responseMimeType":"application/json","responseJsonSchema":{"type":"object"`}, nil, nil, ""},
	{"2.8 a schema of Messages has a name elsewhere", codec.Messages, gpt, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},` + messagesHi, []string{`"name":"structured_output"`}, nil, nil, ""},
	{"2.8 a schema is flat in Responses", codec.Chat, gpt, `"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object"}}},` + hi, []string{`"text":{"format":{"type":"json_schema","name":"s"`}, nil, nil, ""},
	{"2.8 text is nothing", codec.Chat, claude, `"response_format":{"type":"text"},` + hi, nil, []string{"output_config", "text\":{"}, nil, ""},
}

func TestTheRulesOfTheMappingTablesHold(t *testing.T) {
	for i := range ruleTests {
		c := &ruleTests[i]
		t.Run(c.name+" ("+c.surface.String()+" to "+c.model+")", c.run)
	}
}

// ending is an answer of a text that ends with a provider's word.
func ending(format codec.Format, word string) string {
	switch format {
	case codec.Chat:
		return chatAnswer(`{"role":"assistant","content":"b"}`, word)
	case codec.Messages:
		return strings.Replace(messagesAnswer(`{"type":"text","text":"b"}`, word), `"stop_sequence":null`, map[bool]string{true: `"stop_sequence":"END"`, false: `"stop_sequence":null`}[word == "stop_sequence"], 1)
	case codec.Responses:
		answer := responsesAnswer(`{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"b","annotations":[]}]}`)
		if status, reason, incomplete := strings.Cut(word, "/"); incomplete {
			answer = strings.Replace(answer, `"status":"completed","model"`, `"status":"`+status+`","incomplete_details":{"reason":"`+reason+`"},"model"`, 1)
		}
		return answer
	}
	return strings.Replace(geminiAnswer(`{"text":"b"}`), "STOP", word, 1)
}

// The words by which providers end an answer, and what each client reads for them (docs/wire/translation.md#3.1). "" is an error.
func TestEveryEndOfAnAnswerHasTheClientsWord(t *testing.T) {
	models := map[codec.Format]string{codec.Chat: own, codec.Responses: gpt, codec.Messages: claude, codec.Gemini: gemini}
	const (
		refused = `"stop_reason":"refusal"`
		filter  = `"finish_reason":"content_filter"`
		hidden  = `"incomplete_details":{"reason":"content_filter"}`
		cut     = `"incomplete_details":{"reason":"max_output_tokens"}`
		done    = `"status":"completed"`
	)
	for _, row := range []struct {
		from                            codec.Format
		word                            string
		toChat, toResponses, toMessages string
	}{
		{codec.Chat, "stop", "-", done, `"stop_reason":"end_turn"`},
		{codec.Chat, "length", "-", cut, `"stop_reason":"max_tokens"`},
		{codec.Chat, "content_filter", "-", hidden, refused},
		{codec.Chat, "something_new", "-", done, `"stop_reason":"end_turn"`},
		{codec.Responses, "completed", `"finish_reason":"stop"`, "-", `"stop_reason":"end_turn"`},
		{codec.Responses, "incomplete/max_output_tokens", `"finish_reason":"length"`, "-", `"stop_reason":"max_tokens"`},
		{codec.Responses, "incomplete/content_filter", filter, "-", refused},
		{codec.Messages, "end_turn", `"finish_reason":"stop"`, done, "-"},
		{codec.Messages, "stop_sequence", `"finish_reason":"stop"`, done, "-"},
		{codec.Messages, "max_tokens", `"finish_reason":"length"`, cut, "-"},
		{codec.Messages, "model_context_window_exceeded", `"finish_reason":"length"`, cut, "-"},
		{codec.Messages, "refusal", filter, hidden, "-"},
		{codec.Messages, "pause_turn", `"finish_reason":"stop"`, done, "-"},
		{codec.Messages, "compaction", `"finish_reason":"stop"`, done, "-"},
		{codec.Messages, "something_new", `"finish_reason":"stop"`, done, "-"},
		{codec.Gemini, "STOP", `"finish_reason":"stop"`, done, `"stop_reason":"end_turn"`},
		{codec.Gemini, "MAX_TOKENS", `"finish_reason":"length"`, cut, `"stop_reason":"max_tokens"`},
		{codec.Gemini, "SAFETY", filter, hidden, refused},
		{codec.Gemini, "RECITATION", filter, hidden, refused},
		{codec.Gemini, "BLOCKLIST", filter, hidden, refused},
		{codec.Gemini, "PROHIBITED_CONTENT", filter, hidden, refused},
		{codec.Gemini, "SPII", filter, hidden, refused},
		{codec.Gemini, "LANGUAGE", filter, hidden, refused},
		{codec.Gemini, "IMAGE_SAFETY", filter, hidden, refused},
		{codec.Gemini, "IMAGE_PROHIBITED_CONTENT", filter, hidden, refused},
		{codec.Gemini, "IMAGE_RECITATION", filter, hidden, refused},
		{codec.Gemini, "OTHER", `"finish_reason":"stop"`, done, `"stop_reason":"end_turn"`},
		{codec.Gemini, "NO_IMAGE", `"finish_reason":"stop"`, done, `"stop_reason":"end_turn"`},
		{codec.Gemini, "SOMETHING_NEW", `"finish_reason":"stop"`, done, `"stop_reason":"end_turn"`},
		{codec.Gemini, "MALFORMED_FUNCTION_CALL", "", "", ""},
		{codec.Gemini, "UNEXPECTED_TOOL_CALL", "", "", ""},
		{codec.Gemini, "TOO_MANY_TOOL_CALLS", "", "", ""},
	} {
		for surface, want := range map[codec.Format]string{codec.Chat: row.toChat, codec.Responses: row.toResponses, codec.Messages: row.toMessages} {
			if want == "-" { // its own format passes
				continue
			}
			body := strings.Replace(askForCalls[surface], "HISTORY", "", 1)
			x, _, err := prepare(surface, models[row.from], `{"model":"`+models[row.from]+`",`+body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			heard, _, err := x.Answer(nil, []byte(ending(row.from, row.word)))
			x.Release()
			if (err != nil) != (want == "") || err == nil && !strings.Contains(string(heard), want) {
				t.Errorf("%s of %s: %s reads %v\n%s", row.word, row.from, surface, err, heard)
			}
		}
	}
}
