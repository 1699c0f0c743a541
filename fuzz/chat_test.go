package fuzz_test

import (
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// chatDialects cover the extremes of the dialects of chat hosts.
var chatDialects = []codec.Target{
	{Model: "gpt", Family: codec.FamilyOpenAI, Sampling: true, ImagesInResults: true, Dialect: codec.Dialect{
		Name: "openai", SeedMember: "seed", UserMember: "user", StreamOptions: true, DeveloperRole: true,
		ParallelMember: "parallel_tool_calls", JSONSchema: true, JSONObject: true, EffortMember: "reasoning_effort",
		CustomTools: true, LogitBias: true, Logprobs: true, N: true, Penalties: true, Store: true, ImagesInUser: true,
	}},
	{Model: "deepseek", Dialect: codec.Dialect{
		Name: "deepseek", MaxTokensMember: "max_tokens", UserMember: "user_id", SystemAsString: true, ToolTextAsString: true,
		ThinkingSwitch: "thinking", EffortMember: "reasoning_effort", ReplayReasoning: true, JSONObject: true,
	}},
	{Model: "mistral", Dialect: codec.Dialect{Name: "mistral", RequiredWord: "any", ImagesInUser: true, JSONSchema: true}},
	{Model: "claude", Family: codec.FamilyAnthropic, Dialect: codec.Dialect{Name: "host", ImagesInUser: true}},
	{Model: "gemini", Family: codec.FamilyGoogle, Dialect: codec.Dialect{Name: "google", ThinkingSwitch: "enable_thinking"}},
}

// Any request of a client is refused or becomes a JSON document for every dialect, and the same one each time.
func FuzzChatDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	f.Add([]byte(`{"model":"m","stream":true,"stop":["a"],"tools":[{"type":"function","function":{"name":"f","parameters":{}}},` +
		`{"type":"custom","custom":{"name":"c","format":{"type":"grammar","syntax":"lark","definition":"x"}}}],` +
		`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}},` +
		`"messages":[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":[{"type":"image_url",` +
		`"image_url":{"url":"data:image\/png;base64,AA=="}},{"type":"file","file":{"file_data":"AA==","filename":"a.pdf"}}]},` +
		`{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"1","type":"function","function":` +
		`{"name":"f","arguments":"{}"}},{"id":"2","type":"custom","custom":{"name":"c","input":"x"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":[{"a":1}]},{"role":"tool","tool_call_id":"2","content":null}]}`))
	f.Add([]byte(`{"functions":[{"name":"f"}],"function_call":{"name":"f"},"messages":[{"role":"assistant","function_call":` +
		`{"name":"f","arguments":{"a":1}}},{"role":"function","name":"f","content":"r"},{"role":"assistant","thinking_blocks":` +
		`[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"}],"content":[{"type":"thinking",` +
		`"thinking":[{"type":"text","text":"t"}]},{"type":"refusal","refusal":"no"}]}]}`))
	client, provider := chat.Client(), chat.Provider()
	var r codec.Request
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		for i := range chatDialects {
			r.Reset()
			if err := client.DecodeRequest(&r, body); err != nil {
				return
			}
			if _, err := written(t, provider, &r, &chatDialects[i]); err != nil {
				t.Fatalf("decoded, but not encoded: %v", err)
			}
		}
	}))
}

// The events of a stream do not depend on where the network splits it, and they are in order whatever its content.
func FuzzChatStreamDecode(f *testing.F) {
	f.Add([]byte("data: {\"id\":\"1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}]}\n\n"+
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n"+
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n"), byte(3))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"日\"}}]}\r\n\r\ndata:{\"error\":{\"message\":\"x\"}}"), byte(1))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"xy\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"z\"}}]}\n\n"), byte(7))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":[{\"type\":\"thinking\",\"thinking\":[{\"text\":\"t\"}]}],"+
		"\"thinking_blocks\":[{\"thinking\":\"a\",\"signature\":\"s\"}],\"reasoning_details\":[{\"type\":\"reasoning.encrypted\","+
		"\"format\":\"google\",\"data\":\"d\"}]},\"finish_reason\":\"length\"}]}\n\n"), byte(9))
	f.Fuzz(mutant.Each(1000, func(t *testing.T, stream []byte, cut byte) {
		nothingMore := func(*codec.Event) error { return nil }
		whole := eventsOf(t, chat.Provider(), stream, len(stream)+1, nothingMore)
		cutUp := eventsOf(t, chat.Provider(), stream, int(cut)%64+1, nothingMore)
		if whole != cutUp {
			t.Fatalf("whole:\n%s\nin pieces:\n%s", whole, cutUp)
		}
	}))
}

// Any events in any order become a well-formed stream.
func FuzzChatStreamEncode(f *testing.F) {
	f.Add([]byte{0, 1, 3, 9, 12, 40, 77, 3, 200, 11, 14})
	f.Add([]byte("one two three four five six seven eight"))
	f.Add([]byte{2, 5, 0, 2, 6, 1, 7, 0, 7, 1, 12, 14})
	f.Fuzz(mutant.Each(1000, func(t *testing.T, script []byte) {
		o := codec.AnswerOptions{ID: "01h", Model: "m\"x", Created: time.Unix(1, 0)}
		if len(script) > 0 {
			o.IncludeUsage, o.ShowReasoning = script[0]&1 != 0, script[0]&2 != 0
			if script[0]&4 != 0 {
				o.Request = &codec.Request{Tools: []codec.Tool{{WireType: []byte("functions")}}}
			}
		}
		encoder := chat.Client().NewEncoder(&o)
		var stream []byte
		for _, ev := range chatScript(script) {
			stream = encoder.Append(stream, &ev)
		}
		if err := grammar.Chat(stream); err != nil {
			t.Fatalf("%v\n%s", err, stream)
		}
	}))
}

// chatScript turns a script into events in random order, with an end as the last one.
func chatScript(script []byte) []codec.Event {
	bodies := [][]byte{nil, []byte("a"), []byte(`\n\"`), []byte("日本"), []byte(`\ud83d`), []byte(`{\"a\":1}`)}
	var events []codec.Event
	for i := 0; i+2 < len(script); i += 3 {
		a, b := script[i+1], script[i+2]
		events = append(events, codec.Event{
			Kind: codec.EventKind(script[i] % 15), Type: codec.ItemType(a%9 + 1), Item: int32(b % 6), Sub: int32(b / 6 % 3),
			Finish: codec.FinishReason(a % 9), Raw: bodies[int(a)%len(bodies)], CallID: bodies[int(b)%2], Name: bodies[int(a)%4],
			Family: codec.Family(b % 4), Usage: codec.Usage{Output: int64(a)},
		})
		if ev := &events[len(events)-1]; ev.Kind == codec.EventAnnotation {
			ev.Origin, ev.Raw = codec.Format(b%5), []byte(`{"url":"u","title":"t"}`)
		}
	}
	if len(script)%2 == 0 {
		return append(events, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
	}
	return append(events, codec.Event{Kind: codec.EventEnd, End: codec.EndBroken})
}
