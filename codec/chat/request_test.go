package chat_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/internal/racing"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// targets are hosts as the router describes them (docs/wire/fourth-provider.md#1.1).
var targets = map[string]codec.Target{
	"openai":        {Model: "gpt-4.1", Family: codec.FamilyOpenAI, Sampling: true, Dialect: openAI},
	"openai search": {Model: "gpt-4o-search-preview", Family: codec.FamilyOpenAI, SearchModel: true, Dialect: openAI},
	"openai reasoning": {
		Model: "o3", Family: codec.FamilyOpenAI, ReasoningModel: true, Dialect: openAI,
	},
	"deepseek": {Model: "deepseek-flash", Sampling: true, Dialect: codec.Dialect{
		Name: "deepseek", MaxTokensMember: "max_tokens", UserMember: "user_id", StreamOptions: true, SystemAsString: true,
		ToolTextAsString: true, RequiredWord: "required", JSONObject: true, ThinkingSwitch: "thinking",
		EffortMember: "reasoning_effort", ReplayReasoning: true, Logprobs: true,
	}},
	"mistral": {Model: "mistral-medium", Sampling: true, Dialect: codec.Dialect{
		Name: "mistral", MaxTokensMember: "max_tokens", SeedMember: "random_seed", RequiredWord: "any",
		ParallelMember: "parallel_tool_calls", JSONSchema: true, JSONObject: true, EffortMember: "reasoning_effort",
		N: true, Penalties: true, ImagesInUser: true,
	}},
	"qwen": {Model: "qwen-max", Sampling: true, Dialect: codec.Dialect{
		Name: "qwen", MaxTokensMember: "max_tokens", SeedMember: "seed", UserMember: "user", StreamOptions: true,
		ParallelMember: "parallel_tool_calls", JSONObject: true, ThinkingSwitch: "enable_thinking", ImagesInUser: true,
	}},
	"claude host": {Model: "claude", Family: codec.FamilyAnthropic, Sampling: true, Dialect: codec.Dialect{
		Name: "host", MaxTokensMember: "max_tokens", StreamOptions: true, ImagesInUser: true, JSONSchema: true,
	}},
	"gemini host": {Model: "gemini", Family: codec.FamilyGoogle, Sampling: true, Dialect: codec.Dialect{
		Name: "google", MaxTokensMember: "max_tokens", StreamOptions: true, ImagesInUser: true, EffortMember: "reasoning_effort",
	}},
}

var openAI = codec.Dialect{
	Name: "openai", MaxTokensMember: "max_completion_tokens", SeedMember: "seed", UserMember: "user", StreamOptions: true,
	DeveloperRole: true, RequiredWord: "required", ParallelMember: "parallel_tool_calls", JSONSchema: true, JSONObject: true,
	EffortMember: "reasoning_effort", CustomTools: true, LogitBias: true, Logprobs: true, N: true, Penalties: true,
	Store: true, ImagesInUser: true,
}

// What a client asks for, and what becomes of it for each of the hosts that the fixture names.
func TestRequests(t *testing.T) {
	codectest.Each(t, "request", func(t *testing.T, recorded string) string {
		return codectest.ReplayWhole(recorded, func(in string, s *codectest.Script) {
			for line := range strings.Lines(recorded) {
				host, named := strings.CutPrefix(strings.TrimSpace(line), "= for ")
				if !named {
					continue
				}
				target, ok := targets[host]
				if !ok {
					t.Fatalf("no host %q", host)
				}
				r := read(t, []byte(in))
				sent, err := chat.Provider().AppendRequest(nil, r, &target)
				if err != nil {
					t.Fatal(err)
				}
				s.Means("for %s", host)
				s.Says(string(indent(t, sent)))
				if len(r.Notes.Dropped) > 0 {
					s.Means("dropped %s", strings.Join(r.Notes.Dropped, ", "))
				}
			}
		})
	})
}

// read decodes a request that is in order.
func read(t interface{ Fatal(...any) }, body []byte) *codec.Request {
	r := new(codec.Request)
	r.Reset()
	if err := chat.Client().DecodeRequest(r, body); err != nil {
		t.Fatal(err)
	}
	return r
}

// indent breaks the lines of a document without touching its values.
func indent(t *testing.T, doc []byte) []byte {
	t.Helper()
	if !scan.Valid(doc) {
		t.Fatalf("not JSON: %s", doc)
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for m := scan.Object(doc); m.Next(); {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "\n  %q: ", m.Key)
		if key := string(m.Key); key != "messages" && key != "tools" && key != "functions" {
			out.Write(compact(t, m.Value))
			continue
		}
		out.WriteByte('[')
		for e, first := scan.Array(m.Value), true; e.Next(); first = false {
			if !first {
				out.WriteByte(',')
			}
			out.WriteString("\n    ")
			out.Write(compact(t, e.Value))
		}
		out.WriteString("\n  ]")
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}

func compact(t *testing.T, v []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestABadRequestIsRefusedWithTheNameOfTheMember(t *testing.T) {
	const messages = `,"messages":[{"role":"user","content":"hi"}]}`
	cases := map[string]string{
		`[]`:                              "",
		`{"model":"m"}`:                   "messages",
		`{"messages":{}}`:                 "messages",
		`{"messages":[1]}`:                "messages[0]",
		`{"messages":[{"content":"x"}]}`:  "messages[0].role",
		`{"messages":[{"role":"robot"}]}`: "messages[0].role",
		`{"messages":[{"role":"user","content":7}]}`:                  "messages[0].content",
		`{"messages":[{"role":"user","content":["x"]}]}`:              "messages[0].content[0]",
		`{"messages":[{"role":"assistant","tool_calls":{"id":"x"}}]}`: "messages[0].tool_calls",
		`{"model":7` + messages:                                       "model",
		`{"stream":"yes"` + messages:                                  "stream",
		`{"temperature":"hot"` + messages:                             "temperature",
		`{"max_tokens":0` + messages:                                  "max_tokens",
		`{"max_completion_tokens":1.5` + messages:                     "max_completion_tokens",
		`{"n":"2"` + messages:                                         "n",
		`{"stop":{}` + messages:                                       "stop",
		`{"stop":["a",1]` + messages:                                  "stop",
		`{"metadata":"x"` + messages:                                  "metadata",
		`{"user":1` + messages:                                        "user",
		`{"store":1` + messages:                                       "store",
		`{"response_format":{}` + messages:                            "response_format.type",
		`{"response_format":{"type":"json_schema"}` + messages:        "response_format.json_schema",
		`{"tools":{}` + messages:                                      "tools",
		`{"tools":[{"name":"f"}]` + messages:                          "tools[0].type",
		`{"tools":[{"type":"function","function":{}}]` + messages:     "tools[0].function.name",
		`{"functions":[{}]` + messages:                                "functions[0].name",
		`{"tool_choice":"maybe"` + messages:                           "tool_choice",
		`{"tool_choice":{"type":"function"}` + messages:               "tool_choice.function.name",
		`{"function_call":"maybe"` + messages:                         "function_call",
	}
	for body, param := range cases {
		var r codec.Request
		var err *codec.Error
		refused := errors.As(chat.Client().DecodeRequest(&r, []byte(body)), &err)
		if !refused || err.Kind != codec.KindInvalidRequest || err.Param != param || err.Message == "" {
			t.Errorf("%s: got %v, want an error about %q", body, err, param)
		}
	}
}

// P59: a null member is an absent one; a zero is a value.
func TestNullIsAbsentAndZeroIsNot(t *testing.T) {
	body := []byte(`{"model":"m","stream":null,"temperature":null,"top_p":0,"stop":null,"tools":null,"max_tokens":null,"n":null,` +
		`"messages":[{"role":"user","content":"x"}]}`)
	r := read(t, body)
	if r.Temperature != nil || string(r.TopP) != "0" || r.Stop != nil || r.MaxOutput != -1 || r.N != 0 {
		t.Errorf("temperature %q, top_p %q, stop %q, max %d, n %d", r.Temperature, r.TopP, r.Stop, r.MaxOutput, r.N)
	}
}

func TestUnknownMembersAreNotedAndBounded(t *testing.T) {
	var body strings.Builder
	body.WriteString(`{"messages":[{"role":"user","content":"x"}],"prediction":{},"modalities":["text","audio"],"Not A Name":1`)
	for i := range 1000 {
		fmt.Fprintf(&body, `,"new_%d":1`, i)
	}
	body.WriteByte('}')
	r := read(t, []byte(body.String()))
	if got := r.Notes.Dropped; len(got) > 64 || got[0] != "prediction" || got[1] != "new_0" {
		t.Errorf("%d notes: %q", len(got), got)
	}
	if !r.AudioOutput {
		t.Error("the wish for audio is lost")
	}
}

// Round trip: a request in the format's own plain form, read and written for OpenAI, means what it meant.
func TestARequestSurvivesTheRoundTrip(t *testing.T) {
	target := targets["openai"]
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(anyRequest(t))
		if err != nil {
			t.Fatal(err)
		}
		sent, err := chat.Provider().AppendRequest(nil, read(t, body), &target)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(sent, &got); err != nil {
			t.Fatalf("%v: %s", err, sent)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s\n%s", diff, body, sent)
		}
	})
}

type object = map[string]any

func anyRequest(t *rapid.T) object {
	word := rapid.StringMatching(`[a-zé"\\<]{1,8}`)
	req := object{"model": "gpt-4.1", "messages": anyHistory(t, word)}
	maybe := func(name string, v any) {
		if rapid.Bool().Draw(t, name) {
			req[name] = v
		}
	}
	maybe("max_completion_tokens", 100)
	maybe("temperature", 0.5)
	maybe("top_p", 0)
	maybe("n", 2)
	maybe("stop", []any{word.Draw(t, "stop")})
	maybe("logprobs", true)
	maybe("reasoning_effort", "low")
	maybe("verbosity", "low")
	maybe("metadata", object{"a": "b"})
	maybe("response_format", rapid.SampledFrom([]any{
		object{"type": "json_object"},
		object{"type": "json_schema", "json_schema": object{"name": "n", "schema": object{"type": "object"}, "strict": true}},
	}).Draw(t, "format"))
	if rapid.Bool().Draw(t, "stream") {
		req["stream"], req["stream_options"] = true, object{"include_usage": true}
	}
	if rapid.Bool().Draw(t, "tools") {
		req["tools"] = []any{
			object{"type": "function", "function": object{
				"name": "f", "description": word.Draw(t, "description"), "parameters": object{"type": "object"}, "strict": false,
			}},
			object{"type": "custom", "custom": object{"name": "c", "format": object{
				"type": "grammar", "grammar": object{"syntax": "lark", "definition": "x"},
			}}},
		}
		maybe("parallel_tool_calls", false)
		maybe("tool_choice", rapid.SampledFrom([]any{
			"auto", "none", "required",
			object{"type": "function", "function": object{"name": "f"}},
			object{"type": "custom", "custom": object{"name": "c"}},
			object{"type": "allowed_tools", "allowed_tools": object{"mode": "required", "tools": []any{
				object{"type": "function", "function": object{"name": "f"}},
			}}},
		}).Draw(t, "choice"))
	}
	return req
}

func anyHistory(t *rapid.T, word *rapid.Generator[string]) []any {
	text := func(name string) any {
		if rapid.Bool().Draw(t, name+" in parts") {
			return []any{object{"type": "text", "text": word.Draw(t, name)}, object{"type": "text", "text": word.Draw(t, name)}}
		}
		return word.Draw(t, name)
	}
	history := []any{object{"role": rapid.SampledFrom([]string{"system", "developer"}).Draw(t, "role"), "content": text("system")}}
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		user := object{"role": "user", "content": text("user")}
		if rapid.Bool().Draw(t, "picture") {
			user["content"] = []any{
				object{"type": "text", "text": word.Draw(t, "text")},
				object{"type": "image_url", "image_url": object{"url": "data:image/png;base64,AA/+", "detail": "low"}},
				object{"type": "file", "file": object{"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
				object{"type": "input_audio", "input_audio": object{"data": "AA==", "format": "wav"}},
			}
		}
		history = append(history, user)
		if rapid.Bool().Draw(t, "calls") {
			history = append(history,
				object{"role": "assistant", "content": nil, "tool_calls": []any{
					object{"id": "1", "type": "function", "function": object{"name": "f", "arguments": word.Draw(t, "arguments")}},
					object{"id": "2", "type": "custom", "custom": object{"name": "c", "input": word.Draw(t, "input")}},
				}},
				object{"role": "tool", "tool_call_id": "1", "content": text("result")},
				object{"role": "tool", "tool_call_id": "2", "content": ""})
		}
		history = append(history, object{"role": "assistant", "content": word.Draw(t, "answer")})
	}
	return history
}

// Conversation growth: what is sent for a turn, up to the end of its messages, is the beginning of what is sent for the
// next one, for every host: prompt caches depend on it.
func TestALongerHistoryBeginsWithTheShorterOne(t *testing.T) {
	for host, target := range targets {
		t.Run(host, func(t *testing.T) {
			var before []byte
			for turns := 1; turns <= 30; turns++ {
				sent, err := chat.Provider().AppendRequest(nil, read(t, agentRequest(turns, 5)), &target)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.HasPrefix(sent, before) {
					t.Fatalf("turn %d does not begin with turn %d", turns, turns-1)
				}
				before = bytes.TrimSuffix(sent, []byte("]}"))
			}
		})
	}
}

// agentRequest is the request of an agent after that many turns, each with two calls and some two kilobytes.
func agentRequest(turns, tools int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":1,"max_tokens":4096,"tools":[`)
	for i := range tools {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":%q,"parameters":{"type":"object",`+
			`"properties":{"path":{"type":"string","description":%q},"limit":{"type":"integer"}},"required":["path"]}}}`,
			i, strings.Repeat("What the tool does. ", 10), strings.Repeat("Where. ", 20))
	}
	b.WriteString(`],"messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"Begin."}`)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"Step %d","reasoning_content":"I should look.","tool_calls":[`+
			`{"id":"call_%da","type":"function","function":{"name":"tool_0","arguments":"{\"path\":\"a.go\",\"limit\":%d}"}},`+
			`{"id":"call_%db","type":"function","function":{"name":"tool_1","arguments":"{}"}}]}`, i, i, i, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%da","content":%q},{"role":"tool","tool_call_id":"call_%db","content":`+
			`[{"type":"text","text":%q}]}`, i, strings.Repeat("func main() {\n\tprintln(\"x\")\n}\n", 60), i, strings.Repeat("ok ", 200))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func TestAnAgentsHistoryTakesFewAllocations(t *testing.T) {
	if racing.On {
		t.Skip("counted without the race detector")
	}
	body, target := agentRequest(65, 50), targets["deepseek"]
	t.Logf("%d bytes", len(body))
	var r codec.Request
	dst := make([]byte, 0, 2*len(body))
	if n := testing.AllocsPerRun(10, func() {
		r = codec.Request{}
		r.Reset()
		if err := chat.Client().DecodeRequest(&r, body); err != nil {
			t.Fatal(err)
		}
	}); n > 80 {
		t.Errorf("reading takes %v allocations", n)
	}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := chat.Provider().AppendRequest(dst, &r, &target); err != nil {
			t.Fatal(err)
		}
	}); n > 20 {
		t.Errorf("writing takes %v allocations", n)
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := agentRequest(65, 50)
	var r codec.Request
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		if err := chat.Client().DecodeRequest(&r, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	body, target := agentRequest(65, 50), targets["deepseek"]
	r := read(b, body)
	dst := make([]byte, 0, 2*len(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := chat.Provider().AppendRequest(dst, r, &target); err != nil {
			b.Fatal(err)
		}
	}
}
