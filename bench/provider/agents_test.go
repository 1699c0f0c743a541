package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// Requests in the shapes that coding agents really send pass the strictest checks, and their scripts are found
// after reminders, environment notes and system messages.
func TestRequestsOfCodingAgentsPass(t *testing.T) {
	prompt := quoted(`[[sim: call Bash {"command":"ls"} ; then ; text "done"]]`)
	tests := []struct {
		name, path, body string
		beta             bool
		want             string
	}{
		{
			name: "messages, first turn", path: "/v1/messages?beta=true", beta: true, want: `"name":"Bash"`,
			body: `{"model":"claude-opus-5-5","messages":[
				{"role":"user","content":[{"type":"text","text":"<system-reminder>be careful</system-reminder>"},{"type":"text","text":` + prompt + `}]},
				{"role":"system","content":[{"type":"text","text":"# Environment","cache_control":{"type":"ephemeral"}}],"output_config":{"effort":"medium"}}],
				"system":[{"type":"text","text":"x-anthropic-billing-header: v=1;"},{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}],
				"tools":[{"name":"Bash","description":"d","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{}}},
				{"name":"Later","description":"d","input_schema":{"type":"object"},"defer_loading":true}],
				"metadata":{"user_id":"{\"session_id\":\"s\"}"},"max_tokens":128000,"thinking":{"type":"adaptive","display":"omitted"},
				"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"output_config":{"effort":"medium"},"stream":true}`,
		},
		{
			name: "messages, second turn", path: "/v1/messages?beta=true", beta: true, want: `"text":"done"`,
			body: `{"model":"claude-opus-5-5","messages":[
				{"role":"user","content":[{"type":"text","text":"<system-reminder>be careful</system-reminder>"},{"type":"text","text":` + prompt + `}]},
				{"role":"system","content":"# Environment","output_config":{"effort":"medium"}},
				{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a","is_error":false,"cache_control":{"type":"ephemeral"}},{"type":"text","text":"<system-reminder>go on</system-reminder>"}]},
				{"role":"system","content":"A note."}],
				"tools":[{"name":"Bash","description":"d","input_schema":{"type":"object"}}],"max_tokens":128000,"thinking":{"type":"adaptive"}}`,
		},
		{
			name: "responses, first turn", path: "/v1/responses", want: `"namespace":"functions"`,
			body: `{"model":"gpt-6-sol","stream":true,"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","description":"d","tools":[{"type":"custom","name":"Bash"}]}]},
				{"type":"message","id":"msg_0c","role":"developer","content":[{"type":"input_text","text":"base"}]},
				{"type":"message","id":"msg_0a","role":"user","content":[{"type":"input_text","text":"<environment_context>x</environment_context>"}]},
				{"type":"message","id":"msg_0b","role":"user","content":[{"type":"input_text","text":` + quoted(`[[sim: custom Bash "ls" namespace=functions]]`) + `}]}],
				"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","context":"all_turns"},"store":false,
				"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","text":{"verbosity":"low"},"client_metadata":{"session_id":"s"}}`,
		},
		{
			name: "responses, second turn", path: "/v1/responses", want: `"text":"done"`,
			body: `{"model":"gpt-5.5","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":` + prompt + `}]},
				{"type":"custom_tool_call","status":"completed","call_id":"call_1","name":"Bash","input":"ls"},
				{"type":"custom_tool_call_output","id":"ctco_1","call_id":"call_1","output":[{"type":"input_text","text":"a"}]}],"store":false}`,
		},
		{
			name: "chat, with a picture behind the results", path: "/v1/chat/completions", want: `"content":"done"`,
			body: `{"model":"gpt-4.1","messages":[{"role":"system","content":"s"},{"role":"user","content":` + prompt + `},
				{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"Bash","arguments":"{}"}}]},
				{"role":"tool","tool_call_id":"call_1","content":[{"type":"text","text":"[image 1 attached below]"}]},
				{"role":"user","content":[{"type":"text","text":"image 1"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`,
		},
		{
			name: "gemini, with a picture in the response", path: "/v1beta/models/gemini-3.8-flash:generateContent", want: `"text":"done"`,
			body: `{"contents":[{"role":"user","parts":[{"text":` + prompt + `},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]},
				{"role":"model","parts":[{"functionCall":{"name":"Bash","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},
				{"role":"user","parts":[{"functionResponse":{"name":"Bash","response":{"output":"a"},"parts":[{"inlineData":{"mimeType":"image/png","data":"aaaa"}}]}}]},
				{"role":"user","parts":[{"text":"a note"}]}],"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"OFF"}]}`,
		},
	}
	s := start(t, provider.Options{Strict: true})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := request(t.Context(), t, s.URL()+test.path, test.body)
			if test.beta {
				r.Header.Set("Anthropic-Beta", "context-management-2025-06-27")
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := readAll(resp)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, test.want) {
				t.Errorf("%v %s %s\nwant %s", err, resp.Status, body, test.want)
			}
		})
	}
}

func TestAnAgentWithoutAScriptCallsOneHarmlessTool(t *testing.T) {
	url := start(t, provider.Options{LookRound: true}).URL()
	const (
		bash   = `{"name":"Write","input_schema":{"type":"object"}},{"name":"Bash","input_schema":{"type":"object"}}`
		asked  = `{"role":"user","content":"hello"}`
		called = asked + `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"pwd"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"/tmp"}]}`
	)
	for name, of := range map[string]struct {
		tools, more, messages string
		calls                 bool
	}{
		"a tool that only reads":    {bash, "", asked, true},
		"its result":                {bash, "", called, false},
		"tools of another program":  {`{"name":"delete_all","input_schema":{"type":"object"}}`, "", asked, false},
		"a tool that gets nothing":  {`{"name":"getaway","input_schema":{"type":"object"}}`, "", asked, false},
		"no tool is to be called":   {bash, `"tool_choice":{"type":"none"},`, asked, false},
		"a script of the prompt's":  {bash, "", `{"role":"user","content":"[[sim: text \"x\"]]"}`, false},
		"an answer of this program": {"", "", asked, false},
	} {
		_, answer, err := send(t, url+"/v1/messages", `{"model":"claude-opus-4-8","max_tokens":100,`+of.more+`"tools":[`+of.tools+`],"messages":[`+of.messages+`]}`)
		if err != nil || strings.Contains(answer, `"tool_use"`) != of.calls || of.calls && !strings.Contains(answer, `"pwd"`) {
			t.Errorf("%s: %v %s", name, err, answer)
		}
	}
}

// The examples of most SDKs declare such a tool.
func TestAToolThatOnlyGetsSomethingIsCalledWithMadeUpArguments(t *testing.T) {
	url := start(t, provider.Options{LookRound: true}).URL()
	for _, name := range []string{"get_weather", "getWeather"} {
		_, answer, err := send(t, url+"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":"hello"}],"tools":[{"type":"function",
			"function":{"name":"`+name+`","parameters":{"type":"object","properties":{"location":{"type":"string"},"unit":{"type":"string"}},"required":["location"]}}}]}`)
		if want := `"name":"` + name + `","arguments":"{\"location\":\"simulated\"}"`; err != nil || !strings.Contains(answer, want) {
			t.Errorf("%v %s\nwant %s", err, answer, want)
		}
	}
}

func TestAgentsPlayTheScriptOfTheProvider(t *testing.T) {
	url := start(t, provider.Options{Script: `[[sim: text "of the provider"]]`}).URL() + "/v1/chat/completions"
	const tools = `"tools":[{"type":"function","function":{"name":"run"}}],`
	for name, of := range map[string]struct{ tools, prompt, said string }{
		"an agent":            {tools, "hello", "of the provider"},
		"an agent's script":   {tools, `[[sim: text \"of the prompt\"]]`, "of the prompt"},
		"a request unlike it": {"", "hello", "You wrote: hello"},
	} {
		_, answer, err := send(t, url, `{"model":"gpt-5.5",`+of.tools+`"messages":[{"role":"user","content":"`+of.prompt+`"}]}`)
		if err != nil || !strings.Contains(answer, of.said) {
			t.Errorf("%s: %v %s", name, err, answer)
		}
	}
}
