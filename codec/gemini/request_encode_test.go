package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func b(s string) []byte { return []byte(s) }

func text(s string) codec.Part { return codec.Part{Kind: codec.PartText, Text: b(s)} }

func user(parts ...codec.Part) codec.Message {
	return codec.Message{Role: codec.RoleUser, Parts: parts}
}

func assistant(parts ...codec.Part) codec.Message {
	return codec.Message{Role: codec.RoleAssistant, Parts: parts}
}

func results(parts ...codec.Part) codec.Message {
	return codec.Message{Role: codec.RoleTool, Parts: parts}
}

func call(id, name, args string) codec.Part {
	return codec.Part{Kind: codec.PartToolCall, CallID: b(id), Name: b(name), Arguments: b(args)}
}

func result(id, name string, parts ...codec.Part) codec.Part {
	return codec.Part{Kind: codec.PartToolResult, CallID: b(id), Name: b(name), Parts: parts}
}

func signed(p codec.Part, signature string) codec.Part {
	p.Signature, p.Family = b(signature), codec.FamilyGoogle
	return p
}

func image(data string) codec.Part {
	return codec.Part{Kind: codec.PartImage, MediaType: b("image/png"), Data: b(data)}
}

var (
	second = codec.Target{Provider: "gemini", Family: codec.FamilyGoogle, Thinking: codec.ThinkingBudget, StructuredOutput: true}
	third  = codec.Target{
		Provider: "gemini", Family: codec.FamilyGoogle, Thinking: codec.ThinkingLevel, StructuredOutput: true,
		ImagesInResults: true, NeedsSignature: true, CallIDs: true,
	}
)

// encode writes the request and checks what holds for every request: it is JSON, and writing it again gives the same.
func encode(t *testing.T, r *codec.Request, target codec.Target) string {
	t.Helper()
	side := gemini.Provider()
	out, err := side.AppendRequest(nil, r, &target)
	if err != nil {
		t.Fatalf("AppendRequest: %v", err)
	}
	if !scan.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	again, err := side.AppendRequest(nil, r, &target)
	if err != nil || !bytes.Equal(out, again) {
		t.Fatalf("the same request became other bytes:\n%s\n%s", out, again)
	}
	return string(out)
}

func contents(t *testing.T, r *codec.Request, target codec.Target) string {
	t.Helper()
	out := encode(t, r, target)
	return string(scan.Get(b(out), "contents"))
}

func request(messages ...codec.Message) *codec.Request {
	r := &codec.Request{}
	r.Reset()
	r.Messages = messages
	for i := range r.Messages {
		r.Messages[i].Index = i
	}
	return r
}

func TestConversationsBecomeContents(t *testing.T) {
	cases := []struct {
		name     string
		target   codec.Target
		messages []codec.Message
		want     string
	}{
		{
			"neighbors of one role are joined", second,
			[]codec.Message{user(text("a")), user(text("b"), text("c")), assistant(text("d")), assistant(text("e"))},
			`[{"role":"user","parts":[{"text":"a"},{"text":"b"},{"text":"c"}]},{"role":"model","parts":[{"text":"d"},{"text":"e"}]}]`,
		},
		{
			"P71: text and calls of one turn are both kept, in order", second,
			[]codec.Message{user(text("q")), assistant(text("Let me see."), call("1", "read", `{"path":"a\u003cb","n":1.0}`))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"Let me see."},{"functionCall":{"name":"read","args":{"path":"a\u003cb","n":1.0}}}]}]`,
		},
		{
			"P68, P69, P70: results stand alone under the user's role, in the order of the calls", second,
			[]codec.Message{
				user(text("q")), assistant(call("1", "a", `{}`), call("2", "b", `{}`)),
				results(result("1", "a", text("one"))), results(result("2", "b", text("two"))), user(text("and now?")),
			},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}},{"functionCall":{"name":"b","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"output":"one"}}},{"functionResponse":{"name":"b","response":{"output":"two"}}}]},` +
				`{"role":"user","parts":[{"text":"and now?"}]}]`,
		},
		{
			"ids where the model takes them, on both sides", third,
			[]codec.Message{user(text("q")), assistant(signed(call("call_1", "a", `{}`), "U2ln")), results(result("call_1", "a"))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"call_1","name":"a","args":{}},"thoughtSignature":"U2ln"}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"a","response":{"output":""}}}]}]`,
		},
		{
			"a step of another model's calls gets the stand-in on its first call only", third,
			[]codec.Message{
				user(text("q")), assistant(call("1", "a", `{}`), call("2", "b", `{}`)), results(result("1", "a"), result("2", "b")),
				assistant(signed(call("3", "c", `{}`), "U2ln"), call("4", "d", `{}`)),
			},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"a","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"id":"2","name":"b","args":{}}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"1","name":"a","response":{"output":""}}},{"functionResponse":{"id":"2","name":"b","response":{"output":""}}}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"3","name":"c","args":{}},"thoughtSignature":"U2ln"},{"functionCall":{"id":"4","name":"d","args":{}}}]}]`,
		},
		{
			"each step of calls by another model gets its own stand-in, in earlier turns too", third,
			[]codec.Message{user(text("q")), assistant(call("1", "a", `{}`)), results(result("1", "a")), assistant(call("2", "b", `{}`)), results(result("2", "b")), user(text("next"))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"a","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"1","name":"a","response":{"output":""}}}]},` +
				`{"role":"model","parts":[{"functionCall":{"id":"2","name":"b","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"2","name":"b","response":{"output":""}}}]},{"role":"user","parts":[{"text":"next"}]}]`,
		},
		{
			"P72: signed thoughts and texts go back in their order; others' thoughts stay away", second,
			[]codec.Message{user(text("q")), assistant(
				signed(codec.Part{Kind: codec.PartReasoning, Parts: []codec.Part{text("one"), text("two")}}, "QQ=="),
				codec.Part{Kind: codec.PartReasoning, Text: b("unsigned")},
				codec.Part{Kind: codec.PartReasoning, Text: b("foreign"), Signature: b("x"), Family: codec.FamilyAnthropic},
				codec.Part{Kind: codec.PartRedacted, Signature: b("x"), Family: codec.FamilyAnthropic},
				signed(text(""), "Qg=="), text(""))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"one\n\ntwo","thought":true,"thoughtSignature":"QQ=="},{"text":"","thoughtSignature":"Qg=="}]}]`,
		},
		{
			"P51: arguments that came as text become the object, byte for byte", second,
			[]codec.Message{user(text("q")), assistant(
				codec.Part{Kind: codec.PartToolCall, Name: b("a"), Arguments: b(`{\"z\": 1.0,\"a\":\"\\u00e9\\n\"}`), ArgumentsEscaped: true},
				codec.Part{Kind: codec.PartToolCall, Name: b("b"), ArgumentsEscaped: true},
				codec.Part{Kind: codec.PartToolCall, Name: b("c"), Arguments: b(`{\"cut`), ArgumentsEscaped: true})},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"a","args":{"z": 1.0,"a":"\u00e9\n"}}},{"functionCall":{"name":"b","args":{}}},{"functionCall":{"name":"c","args":{"_raw":"{\"cut"}}}]}]`,
		},
		{
			"a failed result is an error; several texts are joined", second,
			[]codec.Message{user(text("q")), assistant(call("1", "a", `{}`)), results(func() codec.Part {
				p := result("1", "a", text("no such"), text("file"))
				p.Failed = true
				return p
			}())},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"name":"a","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{"error":"no such\nfile"}}}]}]`,
		},
		{
			"P79: a picture in a result stays in it where the model takes that", third,
			[]codec.Message{user(text("q")), assistant(signed(call("1", "a", `{}`), "cw==")), results(result("1", "a", text("see"), image("iVBORw0KGgo=")))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"functionCall":{"id":"1","name":"a","args":{}},"thoughtSignature":"cw=="}]},` +
				`{"role":"user","parts":[{"functionResponse":{"id":"1","name":"a","response":{"output":"see"},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}}]}]`,
		},
		{
			"P80, P81: media by value, by data URL and by an address that Google reads", second,
			[]codec.Message{user(
				image("iVBORw0KGgo="),
				codec.Part{Kind: codec.PartImage, MediaType: b("image/jpg"), Data: b("/9j/4A==")},
				codec.Part{Kind: codec.PartImage, URL: b("data:image/webp;base64,UklGRg==")},
				codec.Part{Kind: codec.PartDocument, Data: b("JVBERi0="), Filename: b("a.pdf")},
				codec.Part{Kind: codec.PartAudio, MediaType: b("wav"), Data: b("UklGRg==")},
				codec.Part{Kind: codec.PartDocument, Text: b("plain")},
				codec.Part{Kind: codec.PartImage, URL: b("https://generativelanguage.googleapis.com/v1beta/files/x")},
				codec.Part{Kind: codec.PartDocument, MediaType: b("application/pdf"), URL: b(`gs:\/\/bucket\/a.pdf`)})},
			`[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"inlineData":{"mimeType":"image/jpeg","data":"/9j/4A=="}},{"inlineData":{"mimeType":"image/webp","data":"UklGRg=="}},` +
				`{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}},{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}},{"text":"plain"},{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}},` +
				`{"fileData":{"mimeType":"application/pdf","fileUri":"gs:\/\/bucket\/a.pdf"}}]}]`,
		},
		{
			"P65, P66: nothing empty is sent", second,
			[]codec.Message{user(text("q"), text("")), assistant(), assistant(text("")), user(text("go on"))},
			`[{"role":"user","parts":[{"text":"q"},{"text":"go on"}]}]`,
		},
		{
			"P60: a system message between turns stays where it is, as the user's text", second,
			[]codec.Message{user(text("q")), assistant(text("a")), {Role: codec.RoleSystem, Parts: []codec.Part{text("be brief")}}, user(text("more"))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"be brief"},{"text":"more"}]}]`,
		},
		{
			"a conversation whose beginning is gone gets a user's turn in front", second,
			[]codec.Message{assistant(text("a")), user(text("b"))},
			`[{"role":"user","parts":[{"text":"(continued)"}]},{"role":"model","parts":[{"text":"a"}]},{"role":"user","parts":[{"text":"b"}]}]`,
		},
		{
			"native parts go back as they came", second,
			[]codec.Message{user(text("q")), assistant(codec.Part{Kind: codec.PartServerTool, Raw: b(`{"executableCode":{"code":"1"}}`), Origin: codec.Gemini}), user(text("b"))},
			`[{"role":"user","parts":[{"text":"q"}]},{"role":"model","parts":[{"executableCode":{"code":"1"}}]},{"role":"user","parts":[{"text":"b"}]}]`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, contents(t, request(c.messages...), c.target)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInstructionsAndLeadingSystemMessagesBecomeOneSystemInstruction(t *testing.T) {
	r := request(
		codec.Message{Role: codec.RoleSystem, Parts: []codec.Part{text("two")}},
		codec.Message{Role: codec.RoleDeveloper, Parts: []codec.Part{text("three"), image("x")}},
		user(text("q")))
	r.Instructions = []codec.Part{text("one"), text("")}
	want := `{"systemInstruction":{"parts":[{"text":"one"},{"text":"two"},{"text":"three"}]},"contents":[{"role":"user","parts":[{"text":"q"}]}]}`
	if got := encode(t, r, second); got != want {
		t.Errorf("P63, P64: got %s", got)
	}
	if diff := cmp.Diff([]string{"system.image"}, r.Notes.Dropped); diff != "" {
		t.Error(diff)
	}
	only := request(codec.Message{Role: codec.RoleSystem, Parts: []codec.Part{text("s")}})
	if got, want := encode(t, only, second), `{"contents":[{"role":"user","parts":[{"text":"s"}]}]}`; got != want {
		t.Errorf("nobody speaks: got %s", got)
	}
}

func TestParametersTakeTheirNames(t *testing.T) {
	r := request(user(text("q")))
	r.MaxOutput = 100
	r.Temperature, r.TopP, r.TopK, r.Seed = b("0"), b("0.50"), b("40"), b("7")
	r.PresencePenalty, r.FrequencyPenalty = b("-1"), b("1e-1")
	r.Stop = [][]byte{b("a"), b(`\n`), b("c"), b("d"), b("e")}
	r.Output = codec.OutputFormat{Kind: codec.OutputSchema, Schema: b(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`)}
	r.Reasoning = codec.Reasoning{Mode: codec.ReasoningBudget, Budget: 1024, Visible: codec.True}
	want := `{"generationConfig":{"maxOutputTokens":100,"temperature":0,"topP":0.50,"topK":40,"seed":7,"presencePenalty":-1,"frequencyPenalty":1e-1,` +
		`"stopSequences":["a","\n","c","d","e"],"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false},` +
		`"thinkingConfig":{"thinkingBudget":1024,"includeThoughts":true}},"contents":[{"role":"user","parts":[{"text":"q"}]}]}`
	if diff := cmp.Diff(want, encode(t, r, second)); diff != "" {
		t.Errorf("P59: %s", diff)
	}
}

func TestThinkingIsAskedForInTheModelsTerms(t *testing.T) {
	none := second
	none.Thinking = codec.ThinkingNone
	cases := []struct {
		name   string
		target codec.Target
		ask    codec.Reasoning
		want   string
	}{
		{"nothing asked", third, codec.Reasoning{}, ``},
		{"a level", third, codec.Reasoning{Effort: b("high")}, `{"thinkingLevel":"HIGH"}`},
		{"a level, shown", third, codec.Reasoning{Effort: b("MINIMAL"), Visible: codec.True}, `{"thinkingLevel":"MINIMAL","includeThoughts":true}`},
		{"shown at the model's own level", third, codec.Reasoning{Visible: codec.True}, `{"includeThoughts":true}`},
		{"a budget", second, codec.Reasoning{Mode: codec.ReasoningBudget, Budget: 512}, `{"thinkingBudget":512}`},
		{"off", second, codec.Reasoning{Mode: codec.ReasoningOff}, `{"thinkingBudget":0}`},
		{"P58: adaptive leaves it to the model", second, codec.Reasoning{Mode: codec.ReasoningAdaptive, Effort: b("high")}, ``},
		{"a model that does not think", none, codec.Reasoning{Mode: codec.ReasoningBudget, Budget: 512, Visible: codec.True}, ``},
	}
	for _, c := range cases {
		r := request(user(text("q")))
		r.Reasoning = c.ask
		got := scan.Path(b(encode(t, r, c.target)), "generationConfig", "thinkingConfig")
		if string(got) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func function(name, schema string) codec.Tool {
	t := codec.Tool{Kind: codec.ToolFunction, Name: b(name), Description: b("does " + name)}
	if schema != "" {
		t.Schema = b(schema)
	}
	return t
}

func TestToolsStandInOneEntry(t *testing.T) {
	r := request(user(text("q")))
	undescribed := codec.Tool{Kind: codec.ToolFunction, Name: b("c"), Description: b(""), Schema: b(`{"type":"object","properties":{}}`), Strict: codec.True}
	r.Tools = []codec.Tool{
		function("a", `{"$schema":"x","type":"object","properties":{"format":{"type":"string","pattern":"^a$"}},"required":["format","gone"],"additionalProperties":false}`),
		function("b", ""), undescribed, function("a", `{}`),
		{Kind: codec.ToolHosted, WireType: b("code_interpreter")},
	}
	want := `[{"functionDeclarations":[{"name":"a","description":"does a","parametersJsonSchema":{"type":"object","properties":{"format":{"type":"string","description":"Must match the regular expression ^a$."}},"required":["format"],"additionalProperties":false}},` +
		`{"name":"b","description":"does b"},{"name":"c"}]}]`
	if diff := cmp.Diff(want, string(scan.Get(b(encode(t, r, second)), "tools"))); diff != "" {
		t.Errorf("P93: %s", diff)
	}
	if diff := cmp.Diff([]string{"tools.strict", "tools.code_interpreter"}, r.Notes.Dropped); diff != "" {
		t.Error(diff)
	}
}

func TestToolChoiceBecomesAMode(t *testing.T) {
	allowed := []codec.Tool{{Name: b("b")}}
	search := codec.Tool{Kind: codec.ToolWebSearch, Raw: b(`{"type":"web_search","filters":{"allowed_domains":["a"]}}`)}
	cases := []struct {
		name   string
		target codec.Target
		choice codec.ToolChoice
		tools  []codec.Tool
		config string
		tool   string
	}{
		{"unset", second, codec.ToolChoice{}, []codec.Tool{function("a", "")}, ``, "a"},
		{"auto", second, codec.ToolChoice{Mode: codec.ChoiceAuto}, []codec.Tool{function("a", "")}, ``, "a"},
		{"none", second, codec.ToolChoice{Mode: codec.ChoiceNone}, []codec.Tool{function("a", "")}, `{"functionCallingConfig":{"mode":"NONE"}}`, "a"},
		{"required", second, codec.ToolChoice{Mode: codec.ChoiceRequired}, []codec.Tool{function("a", "")}, `{"functionCallingConfig":{"mode":"ANY"}}`, "a"},
		{"one tool", second, codec.ToolChoice{Mode: codec.ChoiceTool, Name: b("a")}, []codec.Tool{function("a", "")}, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["a"]}}`, "a"},
		{"some tools, one required", second, codec.ToolChoice{Mode: codec.ChoiceAllowed, Allowed: allowed, AllowedRequired: true}, []codec.Tool{function("a", ""), function("b", "")}, `{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["b"]}}`, "a,b"},
		{"some tools, none required", second, codec.ToolChoice{Mode: codec.ChoiceAllowed, Allowed: allowed}, []codec.Tool{function("a", ""), function("b", "")}, ``, "b"},
		{"a choice without tools", second, codec.ToolChoice{Mode: codec.ChoiceRequired}, nil, ``, ""},
		{"search alone", second, codec.ToolChoice{}, []codec.Tool{search}, ``, "googleSearch"},
		{"search beside functions is dropped by an old model", second, codec.ToolChoice{}, []codec.Tool{search, function("a", "")}, ``, "a"},
		{"search beside functions", third, codec.ToolChoice{}, []codec.Tool{search, function("a", "")}, `{"includeServerSideToolInvocations":true,"functionCallingConfig":{"mode":"VALIDATED"}}`, "a,googleSearch"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(user(text("q")))
			r.ToolChoice, r.Tools = c.choice, c.tools
			out := b(encode(t, r, c.target))
			if got := string(scan.Get(out, "toolConfig")); got != c.config {
				t.Errorf("toolConfig is %s, want %s", got, c.config)
			}
			if got := strings.Join(toolNames(scan.Get(out, "tools")), ","); got != c.tool {
				t.Errorf("tools are %s, want %s", got, c.tool)
			}
		})
	}
}

func toolNames(tools []byte) (names []string) {
	for e := scan.Array(tools); e.Next(); {
		for m := scan.Object(e.Value); m.Next(); {
			if string(m.Key) != "functionDeclarations" {
				names = append(names, string(m.Key))
			}
			for f := scan.Array(m.Value); f.Next(); {
				names = append(names, scan.String(scan.Get(f.Value, "name")))
			}
		}
	}
	return names
}

func TestSchemaOutputYieldsToToolsOnOldModels(t *testing.T) {
	for _, target := range []codec.Target{second, third} {
		r := request(user(text("q")))
		r.Output.Kind = codec.OutputJSON
		r.Tools = []codec.Tool{function("a", "")}
		asked := scan.Path(b(encode(t, r, target)), "generationConfig", "responseMimeType") != nil
		dropped := len(r.Notes.Dropped) == 1 && r.Notes.Dropped[0] == "response_format"
		if asked == dropped || asked != target.NeedsSignature {
			t.Errorf("thinking form %d: asked %v, dropped %v", target.Thinking, asked, r.Notes.Dropped)
		}
	}
}

func TestWhatHasNoMemberIsNamed(t *testing.T) {
	r := request(user(codec.Part{Kind: codec.PartImage, MediaType: b("image/png"), Data: b("x"), Detail: b("high")}))
	r.Messages[0].Name = b("bob")
	r.LogitBias, r.N, r.Logprobs, r.TopLogprobs = b(`{}`), 2, codec.True, b("3")
	r.Verbosity, r.ParallelTools, r.Store, r.User = b("low"), codec.False, codec.True, b("u")
	r.SafetyIdentifier, r.PromptCacheKey, r.ServiceTier, r.Metadata = b("s"), b("k"), b("flex"), b(`{"a":"b"}`)
	r.Seed = b("99999999999")
	encode(t, r, second)
	want := []string{
		"seed", "messages.name", "image_url.detail", "logit_bias", "n", "logprobs", "top_logprobs", "verbosity", "parallel_tool_calls",
		"store", "user", "safety_identifier", "prompt_cache_key", "service_tier", "metadata",
	}
	if diff := cmp.Diff(want, r.Notes.Dropped); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCannotBeSentIsRefusedByItsPath(t *testing.T) {
	cases := []struct {
		r    *codec.Request
		path string
		code string
	}{
		{request(), "messages", ""},
		{request(user(text(""))), "messages", ""},
		{request(user(text("q")), user(codec.Part{Kind: codec.PartImage, URL: b("https://example.com/a.png")})), "messages[1]", "image_url_not_fetchable"},
		{request(user(codec.Part{Kind: codec.PartDocument, FileID: b("file-1")})), "messages[0]", ""},
	}
	for _, c := range cases {
		_, err := gemini.Provider().AppendRequest(nil, c.r, &second)
		var refused *codec.Error
		if !errors.As(err, &refused) || refused.Kind != codec.KindInvalidRequest || refused.Param != c.path || refused.Code != c.code {
			t.Errorf("got %v, want a refusal of %s", err, c.path)
		}
	}
	r := request(user(codec.Part{Kind: codec.PartDocument, FileID: b("file-1")}))
	r.Members = &codec.Members{Conversation: "input"}
	var refused *codec.Error
	if _, err := gemini.Provider().AppendRequest(nil, r, &second); !errors.As(err, &refused) || refused.Param != "input[0]" {
		t.Errorf("got %v, want a path in the client's format", err)
	}
}

// agentHistory is the shape of an agent's conversation: tools of some size, and turns of text, a call and its result.
func agentHistory(turns int) *codec.Request {
	var messages []codec.Message
	messages = append(messages, user(text(strings.Repeat("The task in many words. ", 60))))
	for i := range turns {
		id := fmt.Sprint("call_", i)
		messages = append(messages,
			assistant(text("I will look at the next file."), signed(call(id, "read_file", `{"path":"a/b/c.go","from":1,"to":400}`), "U2lnbmF0dXJl")),
			results(result(id, "read_file", text(strings.Repeat(`func main() {\n\treturn \"x\"\n}\n`, 120)))))
	}
	r := request(messages...)
	r.Instructions = []codec.Part{text(strings.Repeat("You are an agent. ", 200))}
	for i := range 50 {
		r.Tools = append(r.Tools, function(fmt.Sprint("tool_", i), `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"path":{"type":"string","description":"`+strings.Repeat("where it is ", 10)+`"},"limit":{"type":"integer","exclusiveMinimum":0}},"required":["path"],"additionalProperties":false}`))
	}
	return r
}

func TestTheRequestOfATurnBeginsTheNext(t *testing.T) {
	side := gemini.Provider()
	var previous []byte
	for turns := range 30 {
		out, err := side.AppendRequest(nil, agentHistory(turns), &third)
		if err != nil {
			t.Fatal(err)
		}
		if previous != nil && !bytes.HasPrefix(out, bytes.TrimSuffix(previous, b("]}"))) {
			t.Fatalf("turn %d does not begin with turn %d", turns, turns-1)
		}
		previous = out
	}
	if !json.Valid(previous) {
		t.Error("not JSON")
	}
}

func TestEncodingALongHistoryHardlyAllocates(t *testing.T) {
	side, r := gemini.Provider(), agentHistory(50)
	var dst []byte
	allocs := testing.AllocsPerRun(20, func() {
		var err error
		if dst, err = side.AppendRequest(dst[:0], r, &third); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("%v allocations for %d bytes, want 2 at most", allocs, len(dst))
	}
}

func BenchmarkEncodeRequest(bench *testing.B) {
	side, r := gemini.Provider(), agentHistory(50)
	dst, err := side.AppendRequest(nil, r, &third)
	if err != nil {
		bench.Fatal(err)
	}
	bench.SetBytes(int64(len(dst)))
	bench.ReportAllocs()
	for bench.Loop() {
		dst, _ = side.AppendRequest(dst[:0], r, &third)
	}
}
