package crossing_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
)

// routes knows the models; nothing is called through it.
var routes = sync.OnceValue(func() *router.Router {
	r, err := router.New(router.Config{
		Breakpoints: true,
		Providers: map[string]router.ProviderConfig{
			"openai-chat": {Dialect: "openai", BaseURL: "http://127.0.0.1:1/v1", Formats: []codec.Format{codec.Chat}},
			"mistral":     {BaseURL: "http://127.0.0.1:1/v1"},
			"own":         {BaseURL: "http://127.0.0.1:1/v1"},
		},
		Routes: []router.RouteRule{{Prefix: "gpt-4.1", Provider: "openai-chat"}, {Prefix: "gpt-4o-search", Provider: "openai-chat"}, {Prefix: "own-", Provider: "own"}},
	})
	if err != nil {
		panic(err)
	}
	return r
})

// targetOf is the target and format for a model.
func targetOf(model string) (codec.Target, codec.Format) {
	place, failed := routes().Place(model)
	if failed != nil {
		panic(failed)
	}
	format := map[string]codec.Format{
		"openai": codec.Responses, "anthropic": codec.Messages, "gemini": codec.Gemini,
	}[place.Provider.Name()]
	if format == codec.FormatUnknown {
		format = codec.Chat
	}
	return routes().Target(place), format
}

// prepare crosses a request to a model and gives the provider's body.
func prepare(surface codec.Format, model, body string, change func(*crossing.Settings)) (*crossing.Exchange, string, error) {
	target, format := targetOf(model)
	settings := &crossing.Settings{Target: target, Account: "acme", Answer: codec.AnswerOptions{ID: "0123456789abcdefghjkmnpqrs", Model: model, ShowReasoning: true}}
	if change != nil {
		change(settings)
	}
	x, out, err := crossing.Prepare(nil, surface, format, []byte(body), settings)
	return x, string(out), err
}

const (
	claude   = "claude-opus-4-8"
	claude45 = "claude-opus-4-5"
	gpt      = "gpt-5.5"
	gpt4     = "gpt-4.1"
	searcher = "gpt-4o-search-preview"
	gemini   = "gemini-3.8-flash"
	gemini2  = "gemini-2.5-pro"
	deepseek = "deepseek-v4-pro"
	own      = "own-model"
)

// A request test says what a client asks and what the provider must and must not get to read.
type requestTest struct {
	name    string // begins with the numbers of the pitfalls that it is about
	surface codec.Format
	model   string
	body    string // without the model
	has     []string
	lacks   []string
	notes   []string // that X-Service-Translation has to mention
	refused string   // the member that a 400 names
}

func (c *requestTest) run(t *testing.T) {
	x, out, err := prepare(c.surface, c.model, `{"model":"`+c.model+`",`+c.body+`}`, nil)
	if c.refused != "" {
		var e *codec.Error
		if !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest || e.Param != c.refused {
			t.Fatalf("got error %v, want one about %s\n%s", err, c.refused, out)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	if !json.Valid([]byte(out)) {
		t.Fatalf("not JSON: %s", out)
	}
	at := 0
	for _, want := range c.has { // in this order
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Errorf("there is no (further) %s in\n%s", want, out)
			continue
		}
		at += i + len(want)
	}
	for _, unwanted := range c.lacks {
		if strings.Contains(out, unwanted) {
			t.Errorf("there is %s in\n%s", unwanted, out)
		}
	}
	for _, note := range c.notes {
		if !slices.Contains(x.NoteNames(), note) {
			t.Errorf("%s is not noted: %s", note, x.Notes())
		}
	}
}

const (
	chatSearch   = `"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Oslo"}}},` + hi
	hi           = `"messages":[{"role":"user","content":"hi"}]`
	messagesHi   = `"max_tokens":3000,` + hi
	geminiHi     = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
	chatTool     = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`
	responseTool = `"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}},"strict":false}]`
	messagesTool = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`
)

const (
	titled = `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"document","title":"The \"T\"","context":"of ours","source":{"type":"text","media_type":"text/plain","data":"chapter one"}}]}]`
	filed  = `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"document","title":"a.pdf","context":"of ours","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}}]}]`
)

func chatCall(id string) string {
	return `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":"{}"}}]}`
}

func chatResult(id, content string) string {
	return `{"role":"tool","tool_call_id":"` + id + `","content":"` + content + `"}`
}

var scalarTests = []requestTest{
	{"what both formats of OpenAI have is kept", codec.Chat, gpt, `"prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"mode":"explicit"},"moderation":{"model":"m"},` + hi, []string{`"prompt_cache_key":"k"`, `"prompt_cache_retention":"24h"`, `"prompt_cache_options":{"mode":"explicit"}`, `"moderation":{"model":"m"}`}, nil, nil, ""},
	{"and the other way", codec.Responses, gpt4, `"prompt_cache_key":"k","prompt_cache_retention":"24h","input":"hi"`, []string{`"prompt_cache_key":"k"`, `"prompt_cache_retention":"24h"`}, nil, nil, ""},
	{"breakpoints of OpenAI's are kept", codec.Chat, gpt, `"messages":[{"role":"system","content":[{"type":"text","text":"s","prompt_cache_breakpoint":{"mode":"explicit"}}]},{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="},"prompt_cache_breakpoint":{"mode":"explicit"}}]}]`, []string{`"text":"s","prompt_cache_breakpoint":{"mode":"explicit"}`, `"text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}`, `iVBORw==","prompt_cache_breakpoint":{"mode":"explicit"}`}, []string{"cache_control"}, nil, ""},
	{"both ways", codec.Responses, gpt4, `"input":[{"role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]`, []string{`"text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}`}, nil, nil, ""},
	{"and are Anthropic's there", codec.Responses, claude, `"input":[{"role":"user","content":[{"type":"input_text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}}]}]`, []string{`"text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}`}, []string{"prompt_cache_breakpoint"}, nil, ""},
	{"elsewhere it is noted", codec.Chat, claude, `"prompt_cache_retention":"24h",` + hi, nil, []string{"retention"}, []string{"dropped:prompt_cache_retention"}, ""},
	{"Gemini has none of it either", codec.Responses, gemini, `"prompt_cache_retention":"24h","input":"hi"`, nil, []string{"retention"}, []string{"dropped:prompt_cache_retention"}, ""},
	{"nor have most hosts", codec.Responses, own, `"prompt_cache_retention":"24h","input":"hi"`, nil, []string{"retention"}, []string{"dropped:prompt_cache_retention"}, ""},
	{"P53 max_tokens is required by Messages", codec.Chat, claude, hi, []string{`"max_tokens":32000`}, nil, nil, ""},
	{"P53 a limit of 0 has no meaning elsewhere", codec.Messages, gpt, `"max_tokens":0,` + hi, nil, nil, nil, "max_tokens"},
	{"P54 OpenAI's chat wants max_completion_tokens", codec.Messages, gpt4, messagesHi, []string{`"max_completion_tokens":3000`}, []string{`"max_tokens"`}, nil, ""},
	{"P54 other hosts want max_tokens", codec.Messages, own, messagesHi, []string{`"max_tokens":3000`}, []string{`max_completion_tokens`}, nil, ""},
	{"a limit below Responses' least is raised", codec.Messages, gpt, `"max_tokens":5,` + hi, []string{`"max_output_tokens":16`}, nil, []string{"emulated:max_output_tokens"}, ""},
	{"P55 Messages takes temperature or top_p", codec.Chat, claude45, `"temperature":0.5,"top_p":0.9,` + hi, []string{`"temperature":0.5`}, []string{"top_p"}, []string{"dropped:top_p"}, ""},
	{"P55 a temperature above 1 is brought to 1", codec.Chat, claude45, `"temperature":1.7,` + hi, []string{`"temperature":1`}, []string{"1.7"}, []string{"dropped:temperature"}, ""},
	{"P55 but for the one that thinking goes with", codec.Chat, claude45, `"temperature":1,"reasoning_effort":"low",` + hi, []string{`"temperature":1`, `"thinking":{"type":"enabled"`}, nil, nil, ""},
	{"P55 and a top_p that leaves nearly everything in", codec.Chat, claude45, `"top_p":0.97,"reasoning_effort":"low",` + hi, []string{`"top_p":0.97`, `"thinking":{"type":"enabled"`}, nil, nil, ""},
	{"P55 thinking leaves no room for a temperature", codec.Chat, claude45, `"temperature":0.5,"reasoning_effort":"low",` + hi, []string{`"thinking":{"type":"enabled"`}, []string{`"temperature"`}, []string{"dropped:temperature"}, ""},
	{"P59 zero is a value", codec.Chat, claude45, `"temperature":0,` + hi, []string{`"temperature":0`}, nil, nil, ""},
	{"P59 false is a value", codec.Chat, gpt, `"parallel_tool_calls":false,` + chatTool + `,` + hi, []string{`"parallel_tool_calls":false`}, nil, nil, ""},
	{"reasoning models refuse sampling members", codec.Messages, gpt, `"temperature":0.5,"top_k":5,` + messagesHi, nil, []string{"temperature", "top_k"}, []string{"dropped:temperature", "dropped:top_k"}, ""},
	{"P56 a budget leaves room for the answer", codec.Chat, claude45, `"max_completion_tokens":2000,"reasoning_effort":"high",` + hi, []string{`"budget_tokens":1999`}, nil, nil, ""},
	{"P56 no room for a budget, no thinking", codec.Chat, claude45, `"max_completion_tokens":1024,"reasoning_effort":"high",` + hi, nil, []string{"thinking"}, []string{"dropped:reasoning_effort"}, ""},
	{"P57 effort words are brought to those of the model", codec.Chat, deepseek, `"reasoning_effort":"medium",` + hi, nil, nil, nil, ""},
	{"P57 an effort as Gemini's level", codec.Chat, gemini, `"reasoning_effort":"xhigh",` + hi, []string{`"thinkingLevel":"HIGH"`}, nil, nil, ""},
	{"P57 an effort as Gemini's budget", codec.Chat, gemini2, `"reasoning_effort":"low",` + hi, []string{`"thinkingBudget":1024`}, nil, nil, ""},
	{"P57 an adaptive effort keeps its word", codec.Messages, gpt, `"thinking":{"type":"adaptive"},"output_config":{"effort":"high"},` + messagesHi, []string{`"effort":"high"`}, nil, nil, ""},
	{"P57 a budget as an effort", codec.Messages, gpt, `"thinking":{"type":"enabled","budget_tokens":2000},` + messagesHi, []string{`"effort":"medium"`}, nil, nil, ""},
	{"P58 nobody asked for reasoning", codec.Chat, claude, hi, nil, []string{"thinking", "effort"}, nil, ""},
	{"P58 nobody asked for summaries", codec.Chat, gpt, `"reasoning_effort":"low",` + hi, []string{`"effort":"low"`}, []string{"summary"}, nil, ""},
	{"P89 prompt_cache_key goes to those who take it", codec.Responses, own, `"prompt_cache_key":"k","input":"hi"`, nil, []string{"prompt_cache_key"}, nil, ""},
	{"state does not have to lie with OpenAI", codec.Messages, gpt, messagesHi, []string{`"store":false`, `"include":["reasoning.encrypted_content"]`}, nil, nil, ""},
	{"a user id becomes a hash for another company", codec.Messages, gpt, `"metadata":{"user_id":"{\"device_id\":\"d\"}"},` + messagesHi, []string{`"safety_identifier":"`}, []string{"device_id"}, nil, ""},
	{"several answers cannot be asked for", codec.Chat, claude, `"n":2,` + hi, nil, nil, nil, "n"},
	{"nor is their number, which chat takes with them only", codec.Responses, gpt4, `"top_logprobs":5,"input":"hi"`, nil, []string{"logprobs"}, []string{"dropped:top_logprobs"}, ""},
	{"the fast speed is OpenAI's priority", codec.Messages, gpt, `"speed":"fast","service_tier":"auto",` + messagesHi, []string{`"service_tier":"priority"`}, nil, []string{"emulated:speed"}, ""},
	{"and nobody else's", codec.Messages, own, `"speed":"fast",` + messagesHi, nil, []string{"priority"}, []string{"dropped:speed"}, ""},
	{"log probabilities cannot be asked for", codec.Chat, claude, `"logprobs":true,` + hi, nil, nil, nil, "logprobs"},
	{"what only one provider can look up", codec.Responses, claude, `"previous_response_id":"resp_1","input":"hi"`, nil, nil, nil, "previous_response_id"},
	{"stop sequences are emulated for Responses", codec.Messages, gpt, `"stop_sequences":["END"],` + messagesHi, nil, []string{"END"}, []string{"emulated:stop_sequences"}, ""},
	{"and for Chat when there are more than it takes", codec.Messages, gpt4, `"stop_sequences":["a","b","c","d","END"],` + messagesHi, nil, []string{"END"}, []string{"emulated:stop_sequences"}, ""},
	{"and for Gemini", codec.Messages, gemini, `"stop_sequences":["a","b","c","d","e","END"],` + messagesHi, nil, []string{"END"}, []string{"emulated:stop_sequences"}, ""},
	{"four are sent as they are", codec.Messages, gpt4, `"stop_sequences":["a","b","c","END"],` + messagesHi, []string{`"stop":["a","b","c","END"]`}, nil, nil, ""},
	{"white space is no stop sequence for Messages", codec.Chat, claude, `"stop":["\n","END"],` + hi, []string{`"stop_sequences":["END"]`}, nil, []string{"dropped:stop"}, ""},
	{"any JSON is asked for in words", codec.Chat, claude, `"response_format":{"type":"json_object"},` + hi, []string{"single JSON object"}, []string{"output_config"}, []string{"emulated:response_format"}, ""},
	{"a schema is asked for in words where the host has none", codec.Responses, deepseek, `"text":{"format":{"type":"json_schema","name":"s","schema":{"type":"object"}}},"input":"hi"`, []string{`"json_object"`, `JSON Schema: {\"type\":\"object\"}`}, nil, []string{"emulated:text.format"}, ""},
	{"a schema that OpenAI can hold an answer to is strict, as with Messages", codec.Messages, gpt, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"null"}]}}},"required":["a"],"additionalProperties":false}}},` + messagesHi, []string{`"strict":true`}, nil, nil, ""},
	{"one with an optional property is not, since OpenAI would refuse it", codec.Messages, gpt4, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}}},` + messagesHi, []string{`"json_schema"`}, []string{"strict"}, nil, ""},
	{"nor one with a keyword that strict mode does not know", codec.Messages, gpt, `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string","default":"x"}},"required":["a"],"additionalProperties":false}}},` + messagesHi, []string{`"json_schema"`}, []string{"strict"}, nil, ""},
	{"a schema becomes a call where the model has none", codec.Chat, "claude-sonnet-4-20250514", `"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}},` + hi, []string{`"name":"json_response"`, `"tool_choice":{"type":"tool","name":"json_response"`}, nil, []string{"emulated:response_format"}, ""},
}

var conversationTests = []requestTest{
	{"the name of a speaker is noted where there is no member for it", codec.Chat, claude, `"messages":[{"role":"user","name":"bob","content":"a"}]`, nil, []string{"bob"}, []string{"dropped:messages.name"}, ""},
	{"nor has Responses one", codec.Chat, gpt, `"messages":[{"role":"user","name":"bob","content":"a"}]`, nil, []string{"bob"}, []string{"dropped:messages.name"}, ""},
	{"how closely to look at a picture is noted where nothing says it", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw==","detail":"low"}}]}]`, nil, []string{`"detail"`}, []string{"dropped:image_url.detail"}, ""},
	{"and kept where something does", codec.Chat, gpt, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw==","detail":"low"}}]}]`, []string{`"detail":"low"`}, nil, nil, ""},
	{"media types and data URLs have no case", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:IMAGE/PNG;base64,iVBORw=="}},{"type":"image_url","image_url":{"url":"DATA:image/jpg;BASE64,iVBORx=="}},{"type":"file","file":{"file_data":"data:application/PDF; Base64,JVBERi0="}}]}]`, []string{`"media_type":"image/png","data":"iVBORw=="`, `"media_type":"image/jpeg","data":"iVBORx=="`, `"media_type":"application/pdf","data":"JVBERi0="`}, []string{"DATA:", "IMAGE", "PDF"}, nil, ""},
	{"in no format", codec.Messages, gemini, `"max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"Image/PNG","data":"iVBORw=="}}]}]`, []string{`"mimeType":"image/png"`}, []string{"Image/PNG"}, nil, ""},
	{"nor have the schemes of addresses", codec.Responses, gemini, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"HTTPS://example.com/a.png"}]}]`, nil, nil, nil, "input[0]"},
	{"P60 an instruction in the middle stays there", codec.Chat, claude, `"messages":[{"role":"system","content":"top"},{"role":"user","content":"a"},{"role":"system","content":"mid"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`, []string{`"text":"top"`, `"a"`, `"role":"system"`, `mid`, `"b"`, `"c"`}, nil, nil, ""},
	{"P60 or becomes the user's text for models without the role", codec.Chat, claude45, `"messages":[{"role":"user","content":"a"},{"role":"system","content":"mid"}]`, []string{`"role":"user"`, `"a"`, `mid`}, []string{`"role":"system"`}, []string{"emulated:messages[1].role"}, ""},
	{"P60 two of them in a row", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"system","content":"m1"},{"role":"developer","content":"m2"}]`, []string{`"role":"system"`, "m1", "m2"}, []string{`"role":"developer"`}, nil, ""},
	{"P61 never between a call and its result", codec.Chat, gpt, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,{"role":"system","content":"mid"},` + chatResult("c1", "r") + `],` + chatTool, []string{`"function_call"`, `"function_call_output"`, "mid"}, nil, nil, ""},
	{"P62 the billing block stays with Anthropic", codec.Messages, gpt, `"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.328.999;"},{"type":"text","text":"Be brief."}],` + messagesHi, []string{"Be brief."}, []string{"billing"}, nil, ""},
	{"P63 developer is a role everywhere", codec.Responses, own, `"input":[{"role":"developer","content":"d"},{"role":"user","content":"u"}]`, []string{`"role":"system"`, `"d"`}, []string{"developer"}, nil, ""},
	{"P64 system as a string", codec.Messages, gemini, `"system":"Be brief.",` + messagesHi, []string{`"systemInstruction":{"parts":[{"text":"Be brief."}]}`}, nil, nil, ""},
	{"P64 system as blocks keeps its blocks", codec.Messages, gemini, `"system":[{"type":"text","text":"one"},{"type":"text","text":"two"}],` + messagesHi, []string{`{"text":"one"},{"text":"two"}`}, nil, nil, ""},
	{"P65 empty text is left out", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"  "},{"type":"text","text":"a"}]}]`, []string{`"text":"a"`}, []string{`"text":""`, `"text":"  "`}, nil, ""},
	{"P66 a message that becomes empty goes", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":""},{"role":"user","content":"b"}]`, []string{`"a"`, `"b"`}, []string{"assistant"}, nil, ""},
	{"P67 results come before the user's words", codec.Messages, own, `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"text","text":"words"},{"type":"tool_result","tool_use_id":"t1","content":"r"}]}],` + messagesTool, []string{`"role":"tool"`, "words"}, nil, nil, ""},
	{"P68 P69 parallel results share one turn, in the order of the calls", codec.Chat, gemini, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},` + chatResult("c2", "r2") + `,` + chatResult("c1", "r1") + `,{"role":"user","content":"next"}],` + chatTool, []string{`"functionResponse"`, `r1`, `"functionResponse"`, `r2"}}}]},{"role":"user","parts":[{"text":"next"}]}`}, nil, nil, ""},
	{"P70 Gemini's results come from the user", codec.Chat, gemini, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "r") + `],` + chatTool, []string{`{"role":"user","parts":[{"functionResponse"`}, []string{`"role":"function"`, `"role":"tool"`}, nil, ""},
	{"P71 text and calls of one turn are both kept", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"words","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]},` + chatResult("c1", "r") + `],` + chatTool, []string{`"text":"words"`, `"type":"tool_use"`}, nil, nil, ""},
	{"P73 neighboring calls are one turn", codec.Responses, claude, `"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r1"},{"type":"function_call_output","call_id":"c2","output":"r2"}],` + responseTool, []string{`"role":"assistant"`, `"id":"c1"`, `"id":"c2"`, `"role":"user"`, `"tool_use_id":"c1"`, `"tool_use_id":"c2"`}, nil, nil, ""},
	{"P74 a result whose call is gone becomes words", codec.Chat, claude, `"messages":[` + chatResult("c0", "old") + `,{"role":"user","content":"a"}],` + chatTool, []string{"Result of an earlier tool call", "old"}, []string{"tool_result"}, []string{"emulated:messages.tool_result"}, ""},
	{"P74 a call without a result gets one", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,{"role":"user","content":"b"}],` + chatTool, []string{`"tool_use_id":"c1"`, "(no result recorded)", `"b"`}, nil, []string{"emulated:messages.tool_result"}, ""},
	{"P74 a call at the very end cannot be answered", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `],` + chatTool, nil, nil, nil, "messages[1]"},
	{"P75 of two results the first counts", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "first") + `,` + chatResult("c1", "second") + `],` + chatTool, []string{"first"}, []string{"second"}, []string{"dropped:messages[2]"}, ""},
	{"P76 a result without an id belongs to the only call", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,{"role":"tool","content":"r"}],` + chatTool, []string{`"tool_use_id":"c1"`}, nil, nil, ""},
	{"P77 a result that is a list", codec.Responses, gemini, `"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"},{"type":"input_text","text":"two"}]}],` + responseTool, []string{`"functionResponse"`, "one", "two"}, nil, nil, ""},
	{"P78 a result without content", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}],` + messagesTool, []string{`"function_call_output"`, `"call_id":"t1"`, `"output":"`}, nil, nil, ""},
	{"a failed result without content says so where there is no member for it", codec.Messages, gpt, toolLoop(`{"type":"tool_result","tool_use_id":"t1","is_error":true}`), []string{`"output":"error"`}, nil, []string{"dropped:is_error"}, ""},
	{"in chat too", codec.Messages, own, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":"","is_error":true}`), []string{`"content":"error"`}, nil, []string{"dropped:is_error"}, ""},
	{"a failed result keeps its words", codec.Messages, gpt4, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":"no such file","is_error":true}`), []string{`"content":"no such file"`}, nil, []string{"dropped:is_error"}, ""},
	{"a document of text is text in a result for Gemini", codec.Messages, gemini, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"see"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"chapter one"}}]}`), []string{`"response":{"output":"see\nchapter one"}`}, []string{`"parts":[{"text":"chapter`}, nil, ""},
	{"for its older models too", codec.Messages, gemini2, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"chapter one"}}]}`), []string{`"response":{"output":"chapter one"}`}, nil, nil, ""},
	{"P79 pictures in results are shown behind the whole run", codec.Messages, own, `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"tool_use","id":"t2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]},{"type":"tool_result","tool_use_id":"t2","content":"r2"}]}],` + messagesTool, []string{"attachment 1 follows below", "r2", `data:image/png;base64,AAAA`}, nil, []string{"emulated:messages.tool_result.image"}, ""},
	{"P80 a data URL becomes a source", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/jpg;base64,AAAA"}}]}]`, []string{`"source":{"type":"base64","media_type":"image/jpeg","data":"AAAA"}`}, nil, nil, ""},
	{"P81 a file of an unknown type goes as it came", codec.Chat, gpt, `"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.csv","file_data":"YSxi"}}]}]`, []string{`"filename":"a.csv","file_data":"YSxi"`}, nil, nil, ""},
	{"P81 but not to Messages, which has to be told", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.csv","file_data":"YSxi"}}]}]`, nil, nil, nil, "messages[0].content"},
	{"P80 Gemini reads what Google keeps", codec.Chat, gemini, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://generativelanguage.googleapis.com/v1beta/files/a"}},{"type":"image_url","image_url":{"url":"gs://b/a.png"}}]}]`, []string{`{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}}`, `{"fileData":{"fileUri":"gs://b/a.png"}}`}, nil, nil, ""},
	{"by Responses", codec.Responses, gemini, `"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://generativelanguage.googleapis.com/v1beta/files/a"}]}]`, []string{`{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}}`}, nil, nil, ""},
	{"by Messages", codec.Messages, gemini, `"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://generativelanguage.googleapis.com/v1beta/files/a"}}]}]`, []string{`{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}}`}, nil, nil, ""},
	{"Gemini does not fetch pictures", codec.Chat, gemini, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]`, nil, nil, nil, "messages[0]"},
	{"Messages reads four kinds of pictures", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/tiff;base64,AAAA"}}]}]`, nil, nil, nil, "messages[0]"},
	{"a document's title and context stand before its text for OpenAI", codec.Messages, gpt, titled, []string{`"Title: The \"T\"\nContext: of ours\n\nchapter one"`}, nil, []string{"emulated:messages.content.document.title", "emulated:messages.content.document.context"}, ""},
	{"for chat", codec.Messages, gpt4, titled, []string{`"Title: The \"T\"\nContext: of ours\n\nchapter one"`}, nil, []string{"emulated:messages.content.document.title"}, ""},
	{"for Gemini", codec.Messages, gemini, titled, []string{`"Title: The \"T\"\nContext: of ours\n\nchapter one"`}, nil, []string{"emulated:messages.content.document.title"}, ""},
	{"and in a result", codec.Messages, gemini, toolLoop(`{"type":"tool_result","tool_use_id":"t1","content":[{"type":"document","context":"of ours","source":{"type":"text","media_type":"text/plain","data":"chapter one"}}]}`), []string{`"Context: of ours\n\nchapter one"`}, nil, []string{"emulated:messages.content.document.context"}, ""},
	{"a file has its title as its name, and its context before it", codec.Messages, gpt, filed, []string{`{"type":"input_text","text":"Context: of ours"}`, `"filename":"a.pdf"`}, []string{"Title:"}, []string{"emulated:messages.content.document.context"}, ""},
	{"where files have no names the title stands before it, too", codec.Messages, gemini, filed, []string{`{"text":"Title: a.pdf\nContext: of ours"}`, `"inlineData"`}, nil, []string{"emulated:messages.content.document.title", "emulated:messages.content.document.context"}, ""},
	{"a search result arrives in words", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"search_result","source":"https://x","title":"X","content":[{"type":"text","text":"found"}]}]}]`, []string{`"X\nSource: https://x\nfound"`}, nil, []string{"emulated:messages.content.search_result"}, ""},
	{"P81 a document", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"},"title":"a.pdf"}]}]`, []string{`"input_file"`, `data:application/pdf;base64,AAAA`}, nil, nil, ""},
	{"P82 a refusal in the history is text", codec.Responses, claude, `"input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"b"}]`, []string{`"text":"no"`}, nil, nil, ""},
	{"P83 items without a type are messages", codec.Responses, claude, `"input":[{"role":"user","content":"a"}]`, []string{`"role":"user"`}, nil, nil, ""},
	{"a prefill that the model cannot continue", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"{"}]`, nil, nil, nil, "messages[1]"},
	{"a prefill of white space is left out", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" "}]`, []string{`"a"`}, []string{"assistant"}, nil, ""},
	{"a prefill ends without white space", codec.Chat, claude45, `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"so \n"}]`, []string{`"so"`}, nil, nil, ""},
	{"instructions alone are the user's", codec.Chat, claude, `"messages":[{"role":"system","content":"do it"}]`, []string{`"role":"user"`, "do it"}, []string{`"system"`}, nil, ""},
	{"nothing to answer", codec.Chat, claude, `"messages":[]`, nil, nil, nil, "messages"},
	{"a history that begins with the assistant", codec.Chat, gemini, `"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"b"}]`, []string{`"role":"user"`, "(continued)", `"role":"model"`}, nil, []string{"emulated:messages[0]"}, ""},
	{"P51 arguments of the history keep their bytes", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1.0,\"a\": 9007199254740993}"}}]},` + chatResult("c1", "r") + `],` + chatTool, []string{`{"z":1.0,"a": 9007199254740993}`}, nil, nil, ""},
	{"arguments that are cut off stay in the conversation", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]},` + chatResult("c1", "r") + `],` + chatTool, []string{`"input":{"_raw":"{\"a\":"}`}, nil, nil, ""},
	{"P52 nothing is escaped for HTML", codec.Chat, claude, `"messages":[{"role":"user","content":"<a> & b"}]`, []string{`<a> & b`}, nil, nil, ""},
	{"P49 a lone surrogate passes as it is", codec.Chat, claude, `"messages":[{"role":"user","content":"x\ud83dy"}]`, []string{`x\ud83dy`}, nil, nil, ""},
}

// toolLoop is a conversation in which a tool was called, with that as its result.
func toolLoop(result string) string {
	return `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[` + result + `]}],` + messagesTool
}

var toolTests = []requestTest{
	{"P85 a namespace becomes part of the name", codec.Responses, claude, `"input":"hi","tools":[{"type":"namespace","name":"clock","tools":[{"type":"function","name":"sleep","parameters":{"type":"object"}}]}]`, []string{`"name":"clock__sleep"`}, []string{"namespace"}, nil, ""},
	{"P85 a flat tool of the joined name keeps it", codec.Responses, claude, `"input":"hi","tools":[{"type":"function","name":"clock__sleep","parameters":{"type":"object"}},{"type":"namespace","name":"clock","tools":[{"type":"function","name":"sleep","parameters":{"type":"object"}}]}]`, []string{`"name":"clock__sleep"`, `"name":"clock__sleep_`}, nil, nil, ""},
	{"P85 a freeform tool becomes a function of one string", codec.Responses, gemini, `"input":"hi","tools":[{"type":"custom","name":"apply_patch","description":"Patches.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}}]`, []string{"Patches.", "raw text, not JSON", "start: x", `"input"`}, nil, []string{"emulated:tools[0].type"}, ""},
	{"P85 and its calls in the history with it", codec.Responses, claude, `"input":[{"role":"user","content":"a"},{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** \"x\"\n"},{"type":"custom_tool_call_output","call_id":"c1","output":"ok"}],"tools":[{"type":"custom","name":"apply_patch"}]`, []string{`"input":{"input":"*** \"x\"\n"}`, `"tool_use_id":"c1"`}, nil, nil, ""},
	{"P85 tools that come with the input", codec.Responses, claude, `"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]}]},{"role":"user","content":"a"}]`, []string{`"name":"functions__exec"`}, nil, nil, ""},
	{"P86 a tool that only code may call is not offered", codec.Messages, gpt, messagesHi + `,"tools":[{"name":"f","input_schema":{"type":"object"},"allowed_callers":["code_execution_20260120"]},{"name":"g","input_schema":{"type":"object"}}]`, []string{`"name":"g"`}, []string{`"name":"f"`}, []string{"dropped:tools[0].allowed_callers"}, ""},
	{"P90 ordinary schemas are not strict", codec.Messages, gpt, messagesHi + `,` + messagesTool, []string{`"strict":false`}, nil, nil, ""},
	{"P93 of two tools of one name the first counts", codec.Messages, gpt, messagesHi + `,"tools":[{"name":"f","description":"first","input_schema":{"type":"object"}},{"name":"f","description":"second","input_schema":{"type":"object"}}]`, []string{"first"}, []string{"second"}, nil, ""},
	{"P94 a tool that the provider runs does not fail the request", codec.Responses, claude, `"input":"hi","tools":[{"type":"file_search","vector_store_ids":["v"]},{"type":"function","name":"f","parameters":{"type":"object"}}]`, []string{`"name":"f"`}, []string{"file_search"}, []string{"dropped:tools[0]"}, ""},
	{"unless the client insists on it", codec.Responses, claude, `"input":"hi","tools":[{"type":"file_search","vector_store_ids":["v"]}],"tool_choice":{"type":"file_search"}`, nil, nil, nil, "tool_choice"},
	{"a deferred tool waits for its reference", codec.Messages, gpt, messagesHi + `,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"later","input_schema":{"type":"object"},"defer_loading":true}]`, []string{`"name":"f"`}, []string{"later"}, nil, ""},
	{"and is an ordinary tool behind it", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ToolSearch","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"tool_reference","tool_name":"WebFetch"}]},{"type":"text","text":"Tool loaded."}]}],"tools":[{"name":"ToolSearch","input_schema":{"type":"object"}},{"name":"WebFetch","input_schema":{"type":"object"},"defer_loading":true}]`, []string{`"name":"WebFetch"`, "Tool WebFetch is now available", "Tool loaded."}, []string{"tool_reference"}, nil, ""},
	{"the choice of a web search is made in the provider's own words", codec.Messages, gpt, `"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"},` + messagesHi, []string{`"tools":[{"type":"web_search"}]`, `"tool_choice":{"type":"web_search"}`}, nil, nil, ""},
	{"Gemini cannot be made to search", codec.Messages, gemini, `"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"web_search"},` + messagesHi, []string{"googleSearch"}, []string{"allowedFunctionNames"}, []string{"dropped:tool_choice"}, ""},
	{"however it is asked", codec.Responses, gemini, `"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"},"input":"hi"`, []string{"googleSearch"}, nil, []string{"dropped:tool_choice"}, ""},
	{"Chat's search becomes Anthropic's", codec.Chat, claude, chatSearch, []string{`"tools":[{"type":"web_search_20250305","name":"web_search","user_location":{"type":"approximate","city":"Oslo"}`}, nil, []string{"dropped:web_search_options.search_context_size"}, ""},
	{"and that of Responses", codec.Chat, gpt, chatSearch, []string{`"tools":[{"type":"web_search","search_context_size":"low","user_location":{"type":"approximate","city":"Oslo"}}]`}, nil, nil, ""},
	{"and Google's", codec.Chat, gemini, chatSearch, []string{`"tools":[{"googleSearch":{}}]`}, nil, []string{"dropped:web_search_options.search_context_size", "dropped:web_search_options.user_location"}, ""},
	{"a search becomes Chat's where a model searches", codec.Responses, searcher, `"tools":[{"type":"web_search","search_context_size":"low","user_location":{"type":"approximate","city":"Oslo"}},{"type":"function","name":"f"}],"tool_choice":{"type":"web_search"},"input":"hi"`, []string{`"name":"f"`, `"tool_choice":"auto"`, `"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Oslo"}}}`}, []string{`"type":"web_search"`}, []string{"emulated:tool_choice"}, ""},
	{"also Anthropic's", codec.Messages, searcher, `"tools":[{"type":"web_search_20250305","name":"web_search","allowed_domains":["a.example"]}],` + messagesHi, []string{`"web_search_options":{}`}, []string{`"tools"`}, []string{"dropped:tools.allowed_domains"}, ""},
	{"elsewhere in Chat there is none", codec.Messages, gpt4, `"tools":[{"type":"web_search_20250305","name":"web_search"}],` + messagesHi, nil, []string{"web_search"}, []string{"dropped:tools[0]"}, ""},
	{"which is said to who insists on it", codec.Responses, gpt4, `"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"},"input":"hi"`, nil, nil, nil, "tool_choice"},
	{"P93 two searches are one", codec.Responses, claude, `"tools":[{"type":"web_search"},{"type":"web_search_preview"}],"input":"hi"`, []string{`"tools":[{"type":"web_search_20250305","name":"web_search","cache_control":{"type":"ephemeral"}}],`}, nil, nil, ""},
	{"a choice without tools goes", codec.Chat, claude, `"tool_choice":"required",` + hi, nil, []string{"tool_choice"}, nil, ""},
	{"a forced choice and thinking do not go together", codec.Chat, claude45, `"tool_choice":"required","reasoning_effort":"low",` + chatTool + `,` + hi, []string{`"tool_choice":{"type":"any"`}, []string{`"enabled"`}, []string{"dropped:thinking"}, ""},
	{"tools of the history are declared where none are", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "r") + `]`, []string{`"tools":[{"name":"f"`, `"tool_choice":{"type":"none"}`}, nil, []string{"emulated:tools"}, ""},
	{"only the allowed tools are sent where there is no list of them", codec.Chat, claude, `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]}},"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],` + hi, []string{`"name":"g"`, `"any"`}, []string{`"name":"f"`}, []string{"emulated:tool_choice"}, ""},
	{"mcp servers cannot be left out", codec.Messages, gpt, messagesHi + `,"mcp_servers":[{"type":"url","url":"https://example.com","name":"m"}]`, nil, nil, nil, "mcp_servers"},
	{"Mistral's ids have nine characters", codec.Messages, "mistral-large", `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_0123456789","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_0123456789","content":"r"}]}],` + messagesTool, nil, []string{"toolu_"}, nil, ""},
	{"two calls of one id are told apart", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("call_0") + `,` + chatResult("call_0", "r1") + `,` + chatCall("call_0") + `,` + chatResult("call_0", "r2") + `],` + chatTool, []string{`"id":"call_0"`, `"tool_use_id":"call_0"`, "r1", `"id":"call_0_2"`, `"tool_use_id":"call_0_2"`, "r2"}, nil, nil, ""},
	{"ids that a provider refuses are hashed", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("functions.Bash:0") + `,` + chatResult("functions.Bash:0", "r") + `],` + chatTool, []string{`"id":"t_`, `"tool_use_id":"t_`}, []string{"functions.Bash"}, nil, ""},
	{"P87 P88 four breakpoints at most, on what comes again", codec.Chat, claude, `"messages":[{"role":"system","content":"s1"},{"role":"system","content":"s2"},{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}],` + chatTool, []string{`"cache_control"`, `s2","cache_control"`, `c","cache_control"`, `e","cache_control"`}, []string{`s1","cache_control"`, `a","cache_control"`}, nil, ""},
	{"P87 a client's own marks stay, the newest four of them", codec.Chat, claude, `"messages":[{"role":"user","content":[{"type":"text","text":"1","cache_control":{"type":"ephemeral"}},{"type":"text","text":"2","cache_control":{"type":"ephemeral"}},{"type":"text","text":"3","cache_control":{"type":"ephemeral"}},{"type":"text","text":"4","cache_control":{"type":"ephemeral"}},{"type":"text","text":"5","cache_control":{"type":"ephemeral"}}]}]`, []string{`"text":"1"}`, `"text":"2","cache_control"`, `"text":"5","cache_control"`}, nil, nil, ""},
	{"P87 those inside of results are counted, too", codec.Chat, claude, `"messages":[{"role":"system","content":[{"type":"text","text":"1","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"text","text":"2","cache_control":{"type":"ephemeral"}}]},` + chatCall("c1") + `,{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"3","cache_control":{"type":"ephemeral"}}]},{"role":"user","content":[{"type":"text","text":"4","cache_control":{"type":"ephemeral"}},{"type":"text","text":"5","cache_control":{"type":"ephemeral"}}]}],` + chatTool, []string{`"text":"1"}`, `"text":"2","cache_control"`, `"text":"3","cache_control"`, `"text":"5","cache_control"`}, nil, nil, ""},
	{"P87 and keep marks of ours away", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r","cache_control":{"type":"ephemeral"}}]}],` + chatTool, []string{`"text":"a"}`, `"text":"r","cache_control":{"type":"ephemeral"}}]}]}]`}, nil, nil, ""},
	{"marks go to nobody else", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":[{"type":"text","text":"1","cache_control":{"type":"ephemeral"}}]}]`, nil, []string{"cache_control"}, nil, ""},
}

var stateTests = []requestTest{
	{"Anthropic's own signature stays away from OpenAI", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"EqQBCkYIBxgCKkD0bXl0aGljYWxzaWduYXR1cmU="},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`, []string{`"b"`}, []string{"EqQB", "reasoning\","}, []string{"dropped:messages.thinking"}, ""},
	{"OpenAI's own state stays away from Anthropic", codec.Responses, claude, `"input":[{"role":"user","content":"a"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAAAABo"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},{"role":"user","content":"c"}]`, []string{`"b"`}, []string{"gAAAA", "thinking"}, []string{"dropped:input.reasoning"}, ""},
	{"a broken carrier is left out", codec.Messages, gpt, `"max_tokens":99,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"sv1.o.AAAA"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]`, nil, []string{"sv1."}, []string{"dropped:messages.thinking"}, ""},
	{"Gemini is told to go without a signature that nobody knows", codec.Chat, gemini, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},` + chatResult("c1", "r") + `,` + chatResult("c2", "r") + `],` + chatTool, []string{`"thoughtSignature":"skip_thought_signature_validator"`}, nil, []string{"emulated:thought_signature"}, ""},
	{"in older turns too, as they were sent before", codec.Chat, gemini, `"messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "r") + `,{"role":"assistant","content":"done"},{"role":"user","content":"b"}],` + chatTool, []string{`"thoughtSignature":"skip_thought_signature_validator"`}, nil, nil, ""},
	{"Google's own member on a chat call is used", codec.Chat, gemini, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"Q2lF"}}}]},` + chatResult("c1", "r") + `],` + chatTool, []string{`"thoughtSignature":"Q2lF"`}, nil, nil, ""},
	{"and kept from everybody else", codec.Chat, claude, `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"Q2lF"}}}]},` + chatResult("c1", "r") + `],` + chatTool, nil, []string{"Q2lF"}, nil, ""},
	{"DeepSeek gets an empty text for reasoning that nobody kept, in every turn behind a call", codec.Messages, deepseek, `"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r"}]},{"role":"assistant","content":"done"},{"role":"user","content":"b"}],` + messagesTool, []string{`"reasoning_content":"","tool_calls"`, `"content":"done","reasoning_content":""`}, nil, []string{"emulated:messages.thinking"}, ""},
	{"a tool loop that lost its thinking goes on without it", codec.Chat, claude45, `"reasoning_effort":"low","messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "r") + `,{"role":"user","content":"and?"}],` + chatTool, []string{`"thinking":{"type":"disabled"}`}, []string{"budget_tokens"}, []string{"dropped:thinking"}, ""},
	{"an empty turn behind it does not end it", codec.Chat, claude45, `"reasoning_effort":"low","messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "r") + `,{"role":"assistant","content":""},{"role":"user","content":"and?"}],` + chatTool, nil, []string{"budget_tokens"}, []string{"dropped:thinking"}, ""},
	{"the next question thinks again", codec.Chat, claude45, `"reasoning_effort":"low","messages":[{"role":"user","content":"a"},` + chatCall("c1") + `,` + chatResult("c1", "r") + `,{"role":"assistant","content":"done"},{"role":"user","content":"b"}],` + chatTool, []string{`"budget_tokens"`}, nil, nil, ""},
}

func TestRequestsAreAdapted(t *testing.T) {
	for _, group := range []struct {
		name  string
		tests []requestTest
	}{{"scalars", scalarTests}, {"conversation", conversationTests}, {"tools", toolTests}, {"state", stateTests}} {
		for _, c := range group.tests {
			t.Run(group.name+"/"+c.name+" ("+c.surface.String()+" to "+c.model+")", c.run)
		}
	}
}

func TestStrictClientsAreToldWhatWouldBeLeftOut(t *testing.T) {
	_, _, err := prepare(codec.Messages, gpt, `{"model":"gpt-5.5","top_k":5,`+messagesHi+`}`, func(s *crossing.Settings) { s.Strict = true })
	var e *codec.Error
	if !errors.As(err, &e) || e.Param != "top_k" || !strings.Contains(e.Message, "X-Service-Strict") {
		t.Errorf("got %v", err)
	}
	x, _, err := prepare(codec.Messages, gpt, `{"model":"gpt-5.5",`+messagesHi+`}`, func(s *crossing.Settings) { s.Strict = true })
	if err != nil {
		t.Fatal(err)
	}
	x.Release()
}

// The header says what was done, whatever names a client makes up.
func TestNotesFitIntoAHeader(t *testing.T) {
	var blocks []string
	for i := range 200 {
		blocks = append(blocks, `{"type":"odd é;=,\n `+strings.Repeat("x", i)+`"}`)
	}
	x, _, err := prepare(codec.Messages, gpt, `{"model":"gpt-5.5","max_tokens":99,"messages":[{"role":"user","content":[{"type":"text","text":"a"},`+strings.Join(blocks, ",")+`]}]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	notes := x.Notes()
	if len(notes) > 1<<10+8 || !strings.HasPrefix(notes, "messages->responses; dropped=") {
		t.Errorf("%d bytes: %.80s", len(notes), notes)
	}
	for _, c := range []byte(notes) {
		if c < ' ' || c >= 0x7f {
			t.Fatalf("%q cannot stand in a header", c)
		}
	}
}
