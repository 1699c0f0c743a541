package chatkey_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
)

func derive(t testing.TB, surface codec.Format, body string) chatkey.Keys {
	t.Helper()
	var e codec.Envelope
	if err := e.Read([]byte(body)); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return chatkey.Derive(surface, []byte(body), &e)
}

// A conversation that goes on, and another one: what clients of each kind send for them. In each case all bodies under
// same belong to one conversation, and all under other to different ones.
func TestConversationsOfRealClientsAreTold(t *testing.T) {
	tests := map[string]struct {
		surface     codec.Format
		same, other []string
	}{
		"Claude Code: billing block, moving cache_control, reminders, environment": {
			surface: codec.Messages,
			same: []string{
				`{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1.1; cc_entrypoint=cli;"},{"type":"text","text":"You help.","cache_control":{"type":"ephemeral"}}],
				  "messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\nas of today\n</system-reminder>"},{"type":"text","text":"fix the test","cache_control":{"type":"ephemeral"}}]},
				              {"role":"system","content":[{"type":"text","text":"Working directory: /home/ann/a"}]}]}`,
				`{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1.2; cc_entrypoint=cli;"},{"type":"text","text":"You help."}],
				  "messages":[{"role":"user","content":"<system-reminder>as of tomorrow</system-reminder>fix the test"},{"role":"system","content":"Working directory: /srv/b"},
				              {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"go test"}}]},
				              {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}]}`,
			},
			other: []string{
				`{"model":"m","system":[{"type":"text","text":"You help."}],"messages":[{"role":"user","content":"fix the lint"}]}`,
				`{"model":"m","system":[{"type":"text","text":"You hinder."}],"messages":[{"role":"user","content":"fix the test"}]}`,
			},
		},
		"Codex: environment message before the first words": {
			surface: codec.Responses,
			same: []string{
				`{"model":"m","input":[{"type":"message","id":"msg_1","role":"developer","content":[{"type":"input_text","text":"base"}]},
				  {"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>/a</cwd>\n</environment_context>"}]},
				  {"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}]}`,
				`{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[]},{"type":"message","id":"msg_9","role":"developer","content":"base"},
				  {"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>/b</cwd>\n</environment_context>"}]},
				  {"role":"user","content":"hello"},
				  {"type":"reasoning","summary":[],"encrypted_content":"x"},{"type":"function_call","call_id":"c","name":"exec","arguments":"{}"},
				  {"type":"function_call_output","call_id":"c","output":"done"}]}`,
			},
			other: []string{
				`{"model":"m","input":[{"type":"message","role":"developer","content":"base"},{"role":"user","content":"hello there"}]}`,
			},
		},
		"opencode: the date in the instructions is today's": {
			surface: codec.Chat,
			same: []string{
				`{"model":"m","messages":[{"role":"system","content":"You code.\n<env>\n  Working directory: /a\n  Today's date: Fri Nov 20 2026\n</env>\nBe brief."},{"role":"user","content":"go"}]}`,
				`{"model":"m","messages":[{"role":"system","content":"You code.\n<env>\n  Working directory: /b\n  Today's date: Sat Nov 21 2026\n</env>\nBe brief."},{"role":"user","content":[{"type":"text","text":"go"}]},
				  {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"x"}]}`,
			},
			other: []string{
				`{"model":"m","messages":[{"role":"system","content":"You are a title generator."},{"role":"user","content":"go"}]}`,
			},
		},
		"a client that sets the scene and answers itself": {
			surface: codec.Chat,
			same: []string{
				`{"model":"m","messages":[{"role":"user","content":"This is an agent. We are setting up the context for our chat.\nToday's date is Friday, November 20, 2026."},{"role":"assistant","content":"Got it."},{"role":"user","content":"one"}]}`,
				`{"model":"m","messages":[{"role":"user","content":"This is an agent. We are setting up the context for our chat.\nHere are other files."},{"role":"assistant","content":"Got it."},{"role":"user","content":"one"},{"role":"assistant","content":"1"}]}`,
			},
			other: []string{
				`{"model":"m","messages":[{"role":"user","content":"This is an agent. We are setting up the context for our chat."},{"role":"assistant","content":"Got it."},{"role":"user","content":"two"}]}`,
			},
		},
		"a client that sets the scene in the person's message": {
			surface: codec.Gemini,
			same: []string{
				`{"contents":[{"role":"user","parts":[{"text":"<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\nFiles: a\n</session_context>"},{"text":"one"}]}]}`,
				`{"contents":[{"role":"user","parts":[{"text":"<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\nFiles: b\n</session_context>"},{"text":"one"}]},{"role":"model","parts":[{"text":"1"}]}]}`,
				`{"contents":[{"role":"user","parts":[{"text":"This is the Gemini CLI. We are setting up the context for our chat.\nFiles: b"},{"text":"one"}]}]}`,
			},
			other: []string{
				`{"contents":[{"role":"user","parts":[{"text":"<session_context>\nThis is the Gemini CLI. We are setting up the context for our chat.\nFiles: a\n</session_context>"},{"text":"two"}]}]}`,
			},
		},
		"pictures tell apart, however they are sent": {
			surface: codec.Chat,
			same: []string{
				`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
				`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image_url","image_url":{"detail":"low","url":"data:image/jpeg;base64,AAAA"}}]}]}`,
			},
			other: []string{
				`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what is it"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAB"}}]}]}`,
				`{"model":"m","messages":[{"role":"user","content":"what is it"}]}`,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := derive(t, tt.surface, tt.same[0]).Opening
			if want == "" {
				t.Fatal("no key")
			}
			seen := map[string]bool{want: true}
			for i, body := range tt.same[1:] {
				if got := derive(t, tt.surface, body).Opening; got != want {
					t.Errorf("body %d is taken for another conversation", i+1)
				}
			}
			for i, body := range tt.other {
				if got := derive(t, tt.surface, body).Opening; got == "" || seen[got] {
					t.Errorf("other body %d is taken for a conversation that it is not (key %q)", i, got)
				} else {
					seen[got] = true
				}
			}
		})
	}
}

// Stores hold keys, so every version must derive the same ones.
func TestKeysAreThoseOfEarlierVersions(t *testing.T) {
	long := strings.Repeat("Read before you write. ", 4000)
	got := derive(t, codec.Chat, `{"model":"m","messages":[{"role":"system","content":"`+long+`"},{"role":"user","content":"Mend the test."},
		{"role":"assistant","content":"Done."},{"role":"user","content":"Thanks."}]}`)
	want := chatkey.Keys{Opening: "689c8ce7e90144cbe7d0ea543f39d5ec", Reply: "493efab987ba36f63ae13725f6919000"}
	if got != want {
		t.Errorf("keys are %+v, want %+v", got, want)
	}
}

func TestDatesOfEveryKindDoNotMatter(t *testing.T) {
	key := func(said string) string {
		text, _ := json.Marshal(said)
		return derive(t, codec.Chat, `{"model":"m","messages":[{"role":"user","content":`+string(text)+`}]}`).Opening
	}
	want := key("It is now. Go.")
	for _, moment := range []string{
		"2026-11-20", "2027/1/2", "20.11.2026", "11/20/2026", "November 20, 2026", "Nov 3rd, 2026", "20 November 2026",
		"Friday, November 20, 2026", "Fri Nov 20 2026", "Fri Nov 20 14:05:33 UTC 2026", "2026-11-20T14:05:33.123Z",
		"2026-11-20 14:05:33 +0100", "14:05", "2:05 PM", "November 2026",
	} {
		if key("It is "+moment+" now. Go.") != want {
			t.Errorf("%q matters", moment)
		}
	}
	for _, other := range []string{
		"It is 12 now. Go.", "It is 1.2.3 now. Go.", "It is 20261120 now. Go.", "It is May now. Go.", "It is 3:1 now. Go.",
		"It is Friday now. Go.", "It is 1-2-33 now. Go.", "It is v2026-11-20x now. Go.",
	} {
		if key(other) == want {
			t.Errorf("%q does not matter", other)
		}
	}
}

func TestAConversationContinuedByItsFirstAnswerHasTheKeyThatTheAnswerGave(t *testing.T) {
	first := derive(t, codec.Chat, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	if first.Opening == "" || first.Reply != "" {
		t.Fatalf("%+v", first)
	}
	var answer codec.Answer
	answer.Items = []codec.Item{
		{Type: codec.ItemReasoning, Summaries: []codec.Summary{{Text: []byte("think")}}},
		{Type: codec.ItemText, Text: []byte(`Let me \"look\".`)},
		{Type: codec.ItemToolCall, Name: []byte("ls"), CallID: []byte("c1"), Text: []byte(`{\"path\":\"a\\nb\"}`)},
	}
	want := chatkey.Reply(first.Opening, &answer)
	for surface, body := range map[codec.Format]string{
		codec.Chat: `{"model":"m","messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":"Let me \"look\".","tool_calls":[{"id":"x","type":"function","function":{"name":"ls","arguments":"{\"path\": \"a\\nb\"}"}}]},
			{"role":"tool","tool_call_id":"x","content":"r"},{"role":"assistant","content":"done"},{"role":"user","content":"more"}]}`,
		codec.Responses: `{"model":"m","input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[]},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me \"look\"."}]},
			{"type":"function_call","arguments":"{\"path\":\"a\\nb\"}","call_id":"x","name":"ls"},{"type":"function_call_output","call_id":"x","output":"r"}]}`,
		codec.Messages: `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Let me \"look\"."},
			{"type":"tool_use","id":"x","name":"ls","input":{"path":"a\nb"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"r"}]}]}`,
	} {
		if got := derive(t, surface, body); got.Reply != want || got.Opening != first.Opening {
			t.Errorf("%s: want %s, got %+v", surface, want, got)
		}
	}
	answer.Items[1].Text = []byte("Let me think.")
	if chatkey.Reply(first.Opening, &answer) == want {
		t.Error("another answer, and the same key")
	}
}

func TestWhatIsNoConversationHasNoKeys(t *testing.T) {
	for _, tt := range []struct {
		surface codec.Format
		body    string
	}{
		{codec.Embeddings, `{"model":"m","input":"text"}`},
		{codec.Responses, `{"model":"m","previous_response_id":"r"}`},
		{codec.Chat, `{"model":"m","messages":[{"role":"system","content":"only this"}]}`},
		{codec.Messages, `{"model":"m","messages":[{"role":"user","content":"<env>x</env>"}]}`},
		{codec.Chat, `{"model":"m","messages":[3,null,{"role":"user","content":{"type":"text"}},{"role":"user","content":[[["deep"]]]}]}`},
	} {
		if got := derive(t, tt.surface, tt.body); got != (chatkey.Keys{}) {
			t.Errorf("%s: %+v", tt.body, got)
		}
	}
	if got := chatkey.Reply("", &codec.Answer{Items: []codec.Item{{Type: codec.ItemText, Text: []byte("x")}}}); got != "" {
		t.Error(got)
	}
}

// conversation is an opening with its first answer, in no format's shape.
type conversation struct {
	instructions, first, answer, tool string
	arguments                         map[string]string
}

var words = rapid.StringOfN(rapid.RuneFrom([]rune("ab <>\"\\\n\té語😀{}-:/0259")), 0, 40, -1)

var conversations = rapid.Custom(func(t *rapid.T) conversation {
	return conversation{
		instructions: words.Draw(t, "instructions"),
		first:        "q" + words.Draw(t, "first"),
		answer:       "a" + words.Draw(t, "answer"),
		tool:         rapid.StringMatching(`[a-z_]{1,8}`).Draw(t, "tool"),
		arguments:    rapid.MapOfN(words, words, 0, 3).Draw(t, "arguments"),
	}
})

func quote(t *rapid.T, text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(rapid.Bool().Draw(t, "escape html"))
	if err := encoder.Encode(text); err != nil {
		t.Fatal(err)
	}
	quoted := strings.TrimSpace(b.String())
	if rapid.Bool().Draw(t, "escape ascii") {
		quoted = strings.ReplaceAll(quoted, "a", `\u0061`)
	}
	return quoted
}

// blocks writes a text as a string or as a list of blocks, with a reminder and a cache breakpoint or without.
func blocks(t *rapid.T, wireType, text string) string {
	if rapid.Bool().Draw(t, "string") {
		return quote(t, text)
	}
	block := func(text string) string {
		mark := ""
		if rapid.Bool().Draw(t, "cached") {
			mark = `,"cache_control":{"type":"ephemeral"}`
		}
		return fmt.Sprintf(`{ "type":%q , "text":%s%s}`, wireType, quote(t, text), mark)
	}
	list := []string{block(text)}
	if rapid.Bool().Draw(t, "reminded") {
		list = append(list, block("<system-reminder>"+words.Draw(t, "reminder")+"</system-reminder>"))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// write puts a conversation into the shape of a surface, in one of the ways that clients have.
func (c *conversation) write(t *rapid.T, surface codec.Format) string {
	arguments, err := json.Marshal(c.arguments)
	if err != nil {
		t.Fatal(err)
	}
	switch surface {
	case codec.Chat:
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%s},{"role":"user","content":%s},{"role":"assistant","content":%s,"tool_calls":[{"type":"function","function":{"arguments":%s,"name":%q}}]},{"role":"tool","content":"r"}]}`,
			blocks(t, "text", c.instructions), blocks(t, "text", c.first), quote(t, c.answer), quote(t, string(arguments)), c.tool)
	case codec.Gemini:
		return fmt.Sprintf(`{"systemInstruction":{"parts":[{"text":%s}]},"contents":[{"role":"user","parts":[{"text":%s}]},{"parts":[{"text":"Hm","thought":true},{"text":%s,"thoughtSignature":"c2ln"},{"functionCall":{"id":"x","name":%q,"args":%s}}],"role":"model"},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`,
			quote(t, c.instructions), quote(t, c.first), quote(t, c.answer), c.tool, arguments)
	case codec.Messages:
		return fmt.Sprintf(`{"model":"m","system":%s,"messages":[{"role":"user","content":%s},{"content":[{"type":"text","text":%s},{"type":"tool_use","name":%q,"input":%s}],"role":"assistant"},{"role":"user","content":[{"type":"tool_result","content":"r"}]}]}`,
			blocks(t, "text", c.instructions), blocks(t, "text", c.first), quote(t, c.answer), c.tool, arguments)
	default:
		return fmt.Sprintf(`{"model":"m","instructions":%s,"input":[{"role":"user","content":%s},{"role":"assistant","content":[{"type":"output_text","text":%s}]},{"type":"function_call","name":%q,"arguments":%s},{"type":"function_call_output","output":"r"}]}`,
			quote(t, c.instructions), blocks(t, "input_text", c.first), quote(t, c.answer), c.tool, quote(t, string(arguments)))
	}
}

var surfaces = []codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini}

func TestKeysDoNotDependOnHowAConversationIsWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := conversations.Draw(rt, "conversation")
		want := derive(t, codec.Chat, c.write(rt, codec.Chat))
		if want.Opening == "" || want.Reply == "" {
			rt.Fatalf("no keys for %+v", c)
		}
		surface := rapid.SampledFrom(surfaces).Draw(rt, "surface")
		body := c.write(rt, surface)
		if got := derive(t, surface, body); got != want {
			rt.Fatalf("want %+v, got %+v for %s", want, got, body)
		}
	})
}

func TestAnyBodyIsRead(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[string] { return jsonValues(3) })
	rapid.Check(t, func(rt *rapid.T) {
		member := rapid.SampledFrom([]string{"messages", "input", "system", "instructions"})
		body := fmt.Sprintf(`{"model":"m",%q:[%s,%s],%q:%s}`, member.Draw(rt, "list"), value.Draw(rt, "a"), value.Draw(rt, "b"), member.Draw(rt, "other"), value.Draw(rt, "c"))
		derive(t, rapid.SampledFrom(surfaces).Draw(rt, "surface"), body)
	})
}

// jsonValues are values that use the words of the formats in places where they mean nothing.
func jsonValues(depth int) *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{`"user"`, `"assistant"`, `"text"`, `"tool_use"`, `"<env>"`, `"image"`, "null", "1", "true", `"2026-1"`, `"12:"`, `"May 3"`, `""`, `"\ud83d"`, `"\\u12"`})
	if depth == 0 {
		return leaf
	}
	return rapid.Custom(func(t *rapid.T) string {
		inner := jsonValues(depth - 1)
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return leaf.Draw(t, "leaf")
		case 1:
			return "[" + strings.Join(rapid.SliceOfN(inner, 0, 3).Draw(t, "list"), ",") + "]"
		}
		name := rapid.SampledFrom([]string{"role", "type", "content", "text", "name", "input", "arguments", "tool_calls", "function", "source", "data", "image_url"})
		var members []string
		for range rapid.IntRange(0, 5).Draw(t, "members") {
			members = append(members, fmt.Sprintf("%q:%s", name.Draw(t, "name"), inner.Draw(t, "value")))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

// agentOpening has the size of a coding agent's first request: 16 KB of instructions, 60 KB of tools, 4 KB of words and
// notes.
func agentOpening() string {
	line := "When you edit a file, read it first and keep to the style that you find there; see section 4.2 for more.\n"
	tool := `{"name":"Tool","description":"` + strings.Repeat("It does something useful. ", 180) + `","input_schema":{"type":"object"}}`
	text, _ := json.Marshal(strings.Repeat(line, 16<<10/len(line)))
	said, _ := json.Marshal("Please mend this.\n" + strings.Repeat(line, 20))
	reminder, _ := json.Marshal("<system-reminder>\n" + strings.Repeat(line, 20) + "</system-reminder>")
	return fmt.Sprintf(`{"model":"m","system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1;"},{"type":"text","text":%s}],"messages":[{"role":"user","content":[{"type":"text","text":%s},{"type":"text","text":%s}]}],"tools":[%s]}`,
		text, reminder, said, strings.TrimSuffix(strings.Repeat(tool+",", 12), ","))
}

// Every client may send such a text. Searching for the end of each of its tags from the start would take hours.
func TestTagsThatAreNeverClosedAreReadOnce(t *testing.T) {
	text := strings.Repeat("<env><cwd>", 400_000) + "</cwd>said"
	if said := string(chatkey.AppendSaid(nil, []byte(text))); said != "<env>said" {
		t.Errorf("said: %.60s… of %d bytes", said, len(said))
	}
	text = strings.Repeat("<env>", 800_000)
	if said := string(chatkey.AppendSaid(nil, []byte(text))); said != text {
		t.Errorf("said: %.60s… of %d bytes", said, len(said))
	}
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`)
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		t.Fatal(err)
	}
	if keys := chatkey.Derive(codec.Chat, body, &e); keys.Opening == "" {
		t.Error("the conversation has no key")
	}
}

func BenchmarkDeriveAgentOpening(b *testing.B) {
	body := []byte(agentOpening())
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		chatkey.Derive(codec.Messages, body, &e)
	}
}

func TestAContentWithoutARoleIsThePersons(t *testing.T) {
	with := derive(t, codec.Gemini, `{"contents":[{"parts":[{"text":"Hi"}],"role":"user"},{"parts":[{"text":"Yes"}],"role":"model"}]}`)
	without := derive(t, codec.Gemini, `{"contents":[{"parts":[{"text":"Hi"}]},{"role":"model","parts":[{"text":"Yes"}]}]}`)
	if with != without || with.Opening == "" || with.Reply == "" {
		t.Errorf("%+v and %+v", with, without)
	}
}
