package crossing_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Law 5: a request that crosses to another format and back says the same. The common subset is what every format can
// express: instructions, turns of text, calls and their results, tools.
func TestARequestThatCrossesAndComesBackSaysTheSame(t *testing.T) {
	over := map[string]codec.Format{"messages": codec.Messages, "responses": codec.Responses}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"messages", "responses"}).Draw(t, "over")
		original := drawChat(t)
		there := crossed(t, codec.Chat, over[name], original)
		back := crossed(t, over[name], codec.Chat, there)
		if diff := cmp.Diff(meaning(t, original), meaning(t, back)); diff != "" {
			t.Fatalf("chat → %s → chat (-before +after):\n%s\noriginal %s\nthere    %s\nback     %s", name, diff, original, there, back)
		}
	})
}

// crossed is the provider's body for a client's.
func crossed(t *rapid.T, from, to codec.Format, body []byte) []byte {
	target := codec.Target{
		Model: "m", ForcedTools: true, Sampling: true, StructuredOutput: true, ImagesInResults: true, SystemInMessages: true,
		Dialect: codec.Dialect{MaxTokensMember: "max_completion_tokens", DeveloperRole: true, RequiredWord: "required", JSONSchema: true, JSONObject: true},
	}
	switch to {
	case codec.Messages:
		target.Family = codec.FamilyAnthropic
	case codec.Responses:
		target.Family = codec.FamilyOpenAI
	}
	x, out, err := crossing.Prepare(nil, from, to, body, &crossing.Settings{Target: target})
	if err != nil {
		t.Fatalf("%s → %s: %v\n%s", from, to, err, body)
	}
	x.Release()
	return out
}

// meaning is what a chat request says, text decoded and in order.
func meaning(t *rapid.T, body []byte) []string {
	var r codec.Request
	r.Reset()
	if err := crossing.ClientCodec(codec.Chat).DecodeRequest(&r, body); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	var said []string
	note := func(role codec.Role, parts []codec.Part) {
		if role == codec.RoleDeveloper {
			role = codec.RoleSystem // the two words for the same
		}
		for i := range parts {
			p := &parts[i]
			line := fmt.Sprintf("%d %d %s|%s|%s", role, p.Kind, scan.Text(p.Text), p.CallID, p.Name)
			if p.Kind == codec.PartToolCall {
				arguments := p.Arguments
				if p.ArgumentsEscaped {
					arguments = scan.Unescape(nil, arguments)
				}
				line += string(arguments)
			}
			for j := range p.Parts {
				line += "→" + scan.Text(p.Parts[j].Text)
			}
			said = append(said, line)
		}
	}
	note(codec.RoleSystem, r.Instructions)
	for i := range r.Messages {
		note(r.Messages[i].Role, r.Messages[i].Parts)
	}
	for i := range r.Tools {
		said = append(said, fmt.Sprintf("tool %s %s %s", r.Tools[i].Name, scan.Text(r.Tools[i].Description), r.Tools[i].Schema))
	}
	return append(said, fmt.Sprint("limit ", r.MaxOutput))
}

type object = map[string]any

// drawChat makes a chat request of some turns, each with up to three calls and all their results.
func drawChat(t *rapid.T) []byte {
	text := rapid.StringMatching(`[a-z"\\<é😀]{1,12}`)
	messages := []object{{"role": "system", "content": text.Draw(t, "system")}}
	calls := 0
	for range rapid.IntRange(0, 3).Draw(t, "turns") {
		messages = append(messages, object{"role": "user", "content": text.Draw(t, "user")})
		answer := object{"role": "assistant", "content": text.Draw(t, "assistant")}
		var made []object
		var results []object
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			id := fmt.Sprintf("call_%d", calls)
			calls++
			arguments := fmt.Sprintf(`{"path":%s,"n":%s}`, mustMarshal(t, text.Draw(t, "argument")), rapid.SampledFrom([]string{"1.0", "9007199254740993", "-0"}).Draw(t, "number"))
			made = append(made, object{"id": id, "type": "function", "function": object{"name": "read", "arguments": arguments}})
			results = append(results, object{"role": "tool", "tool_call_id": id, "content": text.Draw(t, "result")})
		}
		if len(made) > 0 {
			answer["tool_calls"] = made
		}
		messages = append(append(messages, answer), results...)
		if len(results) > 0 {
			messages = append(messages, object{"role": "assistant", "content": text.Draw(t, "conclusion")})
		}
	}
	messages = append(messages, object{"role": "user", "content": text.Draw(t, "last")})
	return mustMarshal(t, object{
		"model": "m", "max_completion_tokens": 100, "messages": messages,
		"tools": []object{{"type": "function", "function": object{
			"name": "read", "description": text.Draw(t, "description"),
			"parameters": object{"type": "object", "properties": object{"path": object{"type": "string"}}},
		}}},
	})
}

func mustMarshal(t *rapid.T, v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
