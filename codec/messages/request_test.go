package messages_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// A client's body in; what was understood, and what a provider of the same format is sent, out.
func TestRequestTranscripts(t *testing.T) {
	codectest.Each(t, "request", func(t *testing.T, recorded string) string {
		return codectest.Replay(recorded, func(in string, s *codectest.Script) {
			r := decode(t, in)
			var b strings.Builder
			describe(&b, r)
			s.Means("%s", b.String())
			body := provide(t, r, ableTarget())
			s.Says(string(body))
			if !json.Valid(body) {
				t.Errorf("not JSON: %s", body)
			}
			if reason, known := oneWay[path.Base(t.Name())]; known {
				t.Log("not compared with what is read again: " + reason)
				return
			}
			again := decode(t, string(body))
			var once, twice strings.Builder
			describeMeaning(&once, r)
			describeMeaning(&twice, again)
			if diff := cmp.Diff(once.String(), twice.String()); diff != "" {
				t.Errorf("written and read again (-once +again):\n%s", diff)
			}
		})
	})
}

// oneWay are the transcripts whose request does not come back as it was, for a reason.
var oneWay = map[string]string{
	"settings":   "a missing limit is filled in, and speed needs a beta header",
	"user_turns": "an empty message is left out, and a result without an id gets an empty one",
}

func decode(t testing.TB, body string) *codec.Request {
	t.Helper()
	r := new(codec.Request)
	r.Reset()
	if err := messages.Client().DecodeRequest(r, []byte(body)); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return r
}

func provide(t testing.TB, r *codec.Request, target *codec.Target) []byte {
	t.Helper()
	body, err := messages.Provider().AppendRequest(nil, r, target)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// ableTarget is a model that takes everything.
func ableTarget() *codec.Target {
	return &codec.Target{
		Provider: "anthropic", Family: codec.FamilyAnthropic, Model: "claude-up", DefaultMaxOutput: 4096, MaxOutput: 64000,
		ForcedTools: true, Sampling: true, StructuredOutput: true, SystemInMessages: true, ImagesInResults: true,
	}
}

// describe tells a request line by line.
func describe(b *strings.Builder, r *codec.Request) {
	describeMeaning(b, r)
	if len(r.Notes.Dropped)+len(r.Notes.Emulated) > 0 {
		fmt.Fprintf(b, "dropped %q emulated %q\n", r.Notes.Dropped, r.Notes.Emulated)
	}
}

func describeMeaning(b *strings.Builder, r *codec.Request) {
	fmt.Fprintf(b, "stream=%v max=%d temperature=%s top_p=%s top_k=%s stop=%q user=%s tier=%s cache=%s\n",
		r.Stream, r.MaxOutput, r.Temperature, r.TopP, r.TopK, r.Stop, r.User, r.ServiceTier, r.CacheControl)
	if r.Reasoning.Mode != 0 || r.Reasoning.Effort != nil {
		fmt.Fprintf(b, "reasoning mode=%d effort=%s budget=%d display=%s\n",
			r.Reasoning.Mode, r.Reasoning.Effort, r.Reasoning.Budget, r.Reasoning.Display)
	}
	if r.Output.Kind != codec.OutputText {
		fmt.Fprintf(b, "output schema=%s\n", r.Output.Schema)
	}
	for i := range r.Tools {
		tool := &r.Tools[i]
		fmt.Fprintf(b, "tool kind=%d %s type=%s strict=%d deferred=%v callers=%s cache=%s schema=%s\n", tool.Kind, tool.Name,
			typeWord(tool), tool.Strict, tool.Deferred, tool.AllowedCallers, tool.CacheControl, tool.Schema)
	}
	if r.ToolChoice.Mode != codec.ChoiceUnset || r.ParallelTools != codec.Unset {
		fmt.Fprintf(b, "choice mode=%d %s parallel=%d\n", r.ToolChoice.Mode, r.ToolChoice.Name, r.ParallelTools)
	}
	for i := range r.Instructions {
		b.WriteString("system ")
		describePart(b, &r.Instructions[i], "  ")
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		fmt.Fprintf(b, "%s\n", [...]string{"", "system", "developer", "user", "assistant", "tool"}[m.Role])
		for j := range m.Parts {
			b.WriteString("  ")
			describePart(b, &m.Parts[j], "    ")
		}
	}
}

// typeWord is the type, without the word for what needs none.
func typeWord(tool *codec.Tool) string {
	if tool.Kind == codec.ToolFunction {
		return ""
	}
	return string(tool.WireType)
}

func describePart(b *strings.Builder, p *codec.Part, indent string) {
	fields := []struct {
		name  string
		value []byte
	}{
		{"text", p.Text},
		{"signature", p.Signature},
		{"id", p.CallID},
		{"name", p.Name},
		{"arguments", p.Arguments},
		{"media", p.MediaType},
		{"data", p.Data},
		{"url", p.URL},
		{"file", p.FileID},
		{"title", p.Filename},
		{"cache", p.CacheControl},
		{"citations", p.Citations},
		{"type", p.WireType},
		{"raw", p.Raw},
	}
	fmt.Fprintf(b, "%s", partWords[p.Kind])
	if p.Failed {
		b.WriteString(" failed")
	}
	for _, f := range fields {
		if f.value != nil {
			fmt.Fprintf(b, " %s=%s", f.name, f.value)
		}
	}
	b.WriteByte('\n')
	for i := range p.Parts {
		b.WriteString(indent)
		describePart(b, &p.Parts[i], indent+"  ")
	}
}

var partWords = map[codec.PartKind]string{
	codec.PartText: "text", codec.PartRefusal: "refusal", codec.PartReasoning: "reasoning", codec.PartRedacted: "redacted",
	codec.PartImage: "image", codec.PartDocument: "document", codec.PartAudio: "audio", codec.PartToolCall: "call",
	codec.PartCustomCall: "custom", codec.PartToolResult: "result", codec.PartToolRef: "toolref",
	codec.PartServerTool: "server", codec.PartOpaque: "opaque",
}

func TestUnreadableRequestNamesThePlace(t *testing.T) {
	message := func(m string) string { return `{"model":"m","messages":[{"role":"user","content":"hi"},` + m + `]}` }
	for _, c := range []struct{ body, param string }{
		{`[]`, ""},
		{`{"model":"m"}`, "messages"},
		{`{"model":"m","messages":{}}`, "messages"},
		{`{"model":"m","messages":[],"max_tokens":"many"}`, "max_tokens"},
		{`{"model":"m","messages":[],"max_tokens":-1}`, "max_tokens"},
		{`{"model":"m","messages":[],"temperature":"hot"}`, "temperature"},
		{`{"model":"m","messages":[],"system":{"type":"text"}}`, "system"},
		{`{"model":"m","messages":[],"system":[{"type":"text","text":1}]}`, "system[0].text"},
		{`{"model":"m","messages":[],"tools":{}}`, "tools"},
		{`{"model":"m","messages":[],"tools":["x"]}`, "tools[0]"},
		{`{"model":"m","messages":[],"tools":[{"input_schema":{}}]}`, "tools[0].name"},
		{`{"model":"m","messages":[],"tools":[{"name":"f","input_schema":"x"}]}`, "tools[0].input_schema"},
		{`{"model":"m","messages":[],"output_config":{"format":{"type":"json_schema"}}}`, "output_config.format.schema"},
		{message(`"x"`), "messages[1]"},
		{message(`{"role":"critic","content":"x"}`), "messages[1].role"},
		{message(`{"role":"user","content":7}`), "messages[1].content"},
		{message(`{"role":"user","content":[7]}`), "messages[1].content[0]"},
		{message(`{"role":"user","content":[{"text":"x"}]}`), "messages[1].content[0].type"},
		{message(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text"}]}`), "messages[1].content[1].text"},
		{message(`{"role":"user","content":[{"type":"image","source":"x"}]}`), "messages[1].content[0].source"},
		{message(`{"role":"user","content":[{"type":"image","source":{"type":"base64"}}]}`), "messages[1].content[0].source"},
		{message(`{"role":"assistant","content":[{"type":"tool_use","id":"a","input":{}}]}`), "messages[1].content[0].name"},
		{message(`{"role":"assistant","content":[{"type":"tool_use","name":"a","input":{}}]}`), "messages[1].content[0].id"},
		{message(`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"a","input":"{}"}]}`), "messages[1].content[0].input"},
		{
			message(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"a"},{"type":"tool_result"}]}]}`),
			"messages[1].content[0].content[1].type",
		},
	} {
		r := new(codec.Request)
		r.Reset()
		err := messages.Client().DecodeRequest(r, []byte(c.body))
		var e *codec.Error
		if !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest || e.Param != c.param {
			t.Errorf("%s: got %v, want an error about %q", c.body, err, c.param)
		}
	}
}

// A member, block, tool type or enum value that is not known never fails a request (docs/wire/translation.md#7, property 12).
func TestUnknownThingsDoNotFailARequest(t *testing.T) {
	r := decode(t, `{"model":"m","new_member":{"a":1},"b@d name":1,"service_tier":"gold","thinking":{"type":"deep","x":1},`+
		`"tool_choice":{"type":"some"},"tools":[{"type":"telescope_20300101","name":"look"}],`+
		`"messages":[{"role":"user","content":[{"type":"smell","x":1},"plain"],"extra":1}]}`)
	want := []string{"new_member", "service_tier", "thinking.type", "thinking.x", "tool_choice"}
	if diff := cmp.Diff(want, r.Notes.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if got := r.Tools[0].Kind; got != codec.ToolHosted {
		t.Errorf("tool kind %d", got)
	}
	if got := r.Messages[0].Parts[0].Kind; got != codec.PartOpaque {
		t.Errorf("part kind %d", got)
	}
}

func TestMemberThatOccursTwice(t *testing.T) {
	r := decode(t, `{"messages":[{"role":"user","content":"first"}],"tools":[{"name":"a"}],"system":"a","stop_sequences":["a"],`+
		`"messages":[{"role":"user","content":"first","content":"last"}],"tools":[{"name":"b"}],"system":"b","stop_sequences":["b"]}`)
	var told strings.Builder
	describeMeaning(&told, r)
	want := `stream=false max=-1 temperature= top_p= top_k= stop=["b"] user= tier= cache=
tool kind=1 b type= strict=0 deferred=false callers= cache= schema=
system text text=b
user
  text text=last
`
	if diff := cmp.Diff(want, told.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// P53, P55, P56: what is sent depends on what the model takes.
func TestSamplingAndLimitsFollowTheModel(t *testing.T) {
	able := *ableTarget()
	newer := able
	newer.Sampling = false
	limited := able
	limited.MaxOutput = 1000
	thinking := func(r *codec.Request) { r.Reasoning = codec.Reasoning{Mode: codec.ReasoningBudget, Budget: 2000} }
	for _, c := range []struct {
		name    string
		target  codec.Target
		set     func(r *codec.Request)
		want    string
		dropped []string
	}{
		{"no limit given", able, func(*codec.Request) {}, `"max_tokens":4096`, nil},
		{"no limit given, model has a lower one", limited, func(*codec.Request) {}, `"max_tokens":1000`, nil},
		{"the client's limit", able, func(r *codec.Request) { r.MaxOutput = 7 }, `"max_tokens":7`, nil},
		{"zero is a value", able, func(r *codec.Request) { r.Temperature = []byte("0") }, `"max_tokens":4096,"temperature":0`, nil},
		{"another format's scale", able, func(r *codec.Request) { r.Temperature = []byte("1.7") }, `"temperature":1}`, []string{"temperature"}},
		{"temperature and top_p", able, func(r *codec.Request) { r.Temperature, r.TopP = []byte("0.5"), []byte("0.9") }, `"temperature":0.5}`, []string{"top_p"}},
		{"top_p alone", able, func(r *codec.Request) { r.TopP = []byte("0.9") }, `"top_p":0.9}`, nil},
		{"newer model", newer, func(r *codec.Request) { r.Temperature, r.TopK = []byte("1"), []byte("5") }, `"max_tokens":4096}`, []string{"temperature", "top_k"}},
		{"thinking", able, func(r *codec.Request) {
			thinking(r)
			r.Temperature, r.TopP, r.TopK = []byte("0.2"), []byte("0.5"), []byte("5")
		}, `"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":2000}}`, []string{"temperature", "top_p", "top_k"}},
		{"blank stops", able, func(r *codec.Request) { r.Stop = [][]byte{[]byte(`\n\n`), []byte("END")} }, `"stop_sequences":["END"]}`, []string{"stop"}},
		{"no member", able, func(r *codec.Request) { r.Seed, r.Store = []byte("1"), codec.True }, `"max_tokens":4096}`, []string{"seed", "store"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := new(codec.Request)
			r.Reset()
			c.set(r)
			body := provide(t, r, &c.target)
			head := strings.Replace(string(body), `,"messages":[]}`, "}", 1)
			if !strings.Contains(head, c.want) {
				t.Errorf("got %s, want %s", head, c.want)
			}
			if diff := cmp.Diff(c.dropped, r.Notes.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToolChoice(t *testing.T) {
	able, unforced := *ableTarget(), *ableTarget()
	unforced.ForcedTools = false
	tools := []codec.Tool{
		{Kind: codec.ToolFunction, Name: []byte("a"), Origin: codec.Chat},
		{Kind: codec.ToolFunction, Name: []byte("b"), Origin: codec.Chat},
	}
	for _, c := range []struct {
		name     string
		target   codec.Target
		choice   codec.ToolChoice
		parallel codec.Tristate
		none     bool
		want     string
		notes    codec.Notes
	}{
		{name: "none given", target: able},
		{name: "auto", target: able, choice: codec.ToolChoice{Mode: codec.ChoiceAuto}, want: `{"type":"auto"}`},
		{name: "required", target: able, choice: codec.ToolChoice{Mode: codec.ChoiceRequired}, want: `{"type":"any"}`},
		{name: "named", target: able, choice: codec.ToolChoice{Mode: codec.ChoiceTool, Name: []byte("a")}, want: `{"type":"tool","name":"a"}`},
		{name: "none", target: able, choice: codec.ToolChoice{Mode: codec.ChoiceNone}, parallel: codec.False, want: `{"type":"none"}`},
		{name: "one at a time", target: able, parallel: codec.False, want: `{"type":"auto","disable_parallel_tool_use":true}`},
		{name: "parallel is the default", target: able, parallel: codec.True},
		{name: "no tools", target: able, choice: codec.ToolChoice{Mode: codec.ChoiceRequired}, parallel: codec.False, none: true},
		{
			name: "not forceable", target: unforced, choice: codec.ToolChoice{Mode: codec.ChoiceRequired},
			want: `{"type":"auto"}`, notes: codec.Notes{Dropped: []string{"tool_choice"}},
		},
		{
			name: "some allowed", target: able,
			choice: codec.ToolChoice{Mode: codec.ChoiceAllowed, AllowedRequired: true, Allowed: tools[1:]},
			want:   `{"type":"any"}`, notes: codec.Notes{Emulated: []string{"tool_choice.allowed_tools"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := new(codec.Request)
			r.Reset()
			r.ToolChoice, r.ParallelTools = c.choice, c.parallel
			if !c.none {
				r.Tools = tools
			}
			body := provide(t, r, &c.target)
			if got := string(scan.Get(body, "tool_choice")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if c.choice.Mode == codec.ChoiceAllowed && bytes.Contains(body, []byte(`"name":"a"`)) {
				t.Errorf("a tool that is not allowed is offered: %s", body)
			}
			if diff := cmp.Diff(c.notes, r.Notes, cmp.Comparer(sameNotes)); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func sameNotes(a, b codec.Notes) bool {
	return fmt.Sprint(a.Dropped, a.Emulated) == fmt.Sprint(b.Dropped, b.Emulated)
}

// Thinking and a forced tool exclude each other at the provider: the tool wins.
func TestForcedToolTurnsThinkingOff(t *testing.T) {
	r := decode(t, `{"model":"m","max_tokens":9,"thinking":{"type":"adaptive"},"tool_choice":{"type":"any"},`+
		`"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[]}`)
	body := provide(t, r, ableTarget())
	if bytes.Contains(body, []byte("thinking")) {
		t.Errorf("thinking is asked for: %s", body)
	}
	if diff := cmp.Diff([]string{"reasoning"}, r.Notes.Dropped); diff != "" {
		t.Error(diff)
	}
}

// A history as a chat client sends it: arguments as text, results one by one, system text at the head and later.
func TestHistoryOfAnotherFormat(t *testing.T) {
	text := func(s string) []codec.Part { return []codec.Part{{Kind: codec.PartText, Text: []byte(s)}} }
	r := new(codec.Request)
	r.Reset()
	r.SafetyIdentifier = []byte("u1")
	r.Messages = append(r.Messages,
		codec.Message{Role: codec.RoleSystem, Parts: text("one")},
		codec.Message{Role: codec.RoleDeveloper, Parts: text("two")},
		codec.Message{Role: codec.RoleUser, Parts: text("go"), Name: []byte("ann")},
		codec.Message{Role: codec.RoleAssistant, Parts: []codec.Part{
			{Kind: codec.PartReasoning, Text: []byte("foreign"), Signature: []byte("gAAAA"), Family: codec.FamilyOpenAI},
			{Kind: codec.PartReasoning, Text: []byte("unsigned"), Family: codec.FamilyAnthropic},
			{Kind: codec.PartToolCall, CallID: []byte("c1"), Name: []byte("f"), Arguments: []byte(`{\"b\":1.0,\"a\":\"\\\"\"}`), ArgumentsEscaped: true},
			{Kind: codec.PartToolCall, CallID: []byte("c2"), Name: []byte("f"), Arguments: []byte(`{\"cut`), ArgumentsEscaped: true},
			{Kind: codec.PartToolCall, CallID: []byte("c3"), Name: []byte("f"), Arguments: []byte(``), ArgumentsEscaped: true},
		}},
		codec.Message{Role: codec.RoleTool, Parts: []codec.Part{{Kind: codec.PartToolResult, CallID: []byte("c1"), Parts: text("1")}}},
		codec.Message{Role: codec.RoleTool, Parts: []codec.Part{
			{Kind: codec.PartToolResult, CallID: []byte("c2"), Failed: true},
			{Kind: codec.PartToolResult, CallID: []byte("c3"), Parts: text("3")},
		}},
		codec.Message{Role: codec.RoleUser, Parts: text("and now?")},
		codec.Message{Role: codec.RoleAssistant, Parts: []codec.Part{{Kind: codec.PartReasoning, Family: codec.FamilyGoogle, Signature: []byte("x")}}},
		codec.Message{Role: codec.RoleSystem, Parts: text("later")},
	)
	body := provide(t, r, ableTarget())
	want := `{"model":"claude-up","max_tokens":4096,"metadata":{"user_id":"u1"},` +
		`"system":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"go"}]},` +
		`{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"c1","name":"f","input":{"b":1.0,"a":"\""}},` +
		`{"type":"tool_use","id":"c2","name":"f","input":{"_raw":"{\"cut"}},` +
		`{"type":"tool_use","id":"c3","name":"f","input":{}}]},` +
		`{"role":"user","content":[` +
		`{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"1"}]},` +
		`{"type":"tool_result","tool_use_id":"c2","is_error":true},` +
		`{"type":"tool_result","tool_use_id":"c3","content":[{"type":"text","text":"3"}]},` +
		`{"type":"text","text":"and now?"}]},` +
		`{"role":"system","content":[{"type":"text","text":"later"}]}]}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"messages.name", "messages.tool_calls.arguments"}, r.Notes.Dropped); diff != "" {
		t.Error(diff)
	}
}

// Pictures and files that the format has no block for are refused rather than left out.
func TestMediaThatCannotBeSent(t *testing.T) {
	for _, c := range []struct {
		name string
		part codec.Part
		want string // "" for an error
	}{
		{
			"jpg is jpeg",
			codec.Part{Kind: codec.PartImage, MediaType: []byte("image/jpg"), Data: []byte("AA==")},
			`{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AA=="}}`,
		},
		{
			"image by URL",
			codec.Part{Kind: codec.PartImage, URL: []byte("https://x/y.png")},
			`{"type":"image","source":{"type":"url","url":"https://x/y.png"}}`,
		},
		{
			"text file",
			codec.Part{Kind: codec.PartDocument, MediaType: []byte("text/plain"), Data: []byte("aGkKInlvdSI="), Filename: []byte("a.txt")},
			`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hi\n\"you\""},"title":"a.txt"}`,
		},
		{
			"pdf without a type",
			codec.Part{Kind: codec.PartDocument, Data: []byte("JVBERi0x")},
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"}}`,
		},
		{"tiff", codec.Part{Kind: codec.PartImage, MediaType: []byte("image/tiff"), Data: []byte("AA==")}, ""},
		{"zip", codec.Part{Kind: codec.PartDocument, MediaType: []byte("application/zip"), Data: []byte("AA==")}, ""},
		{"text that is none", codec.Part{Kind: codec.PartDocument, MediaType: []byte("text/plain"), Data: []byte("/w==")}, ""},
		{"another provider's file", codec.Part{Kind: codec.PartImage, FileID: []byte("file-1"), Origin: codec.Responses}, ""},
		{"audio", codec.Part{Kind: codec.PartAudio, MediaType: []byte("wav"), Data: []byte("AA==")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := new(codec.Request)
			r.Reset()
			r.Messages = append(r.Messages, codec.Message{Role: codec.RoleUser, Index: 4, Parts: []codec.Part{c.part}})
			body, err := messages.Provider().AppendRequest(nil, r, ableTarget())
			if c.want == "" {
				var e *codec.Error
				if !errors.As(err, &e) || e.Param != "messages[4].content" {
					t.Errorf("got %v and %s", err, body)
				}
				return
			}
			if err != nil || !strings.Contains(string(body), c.want) {
				t.Errorf("got %v and %s, want %s", err, body, c.want)
			}
		})
	}
}

// The request of one turn, up to the end of its messages, is the beginning of the next turn's.
func TestGrowingHistoryKeepsEarlierBytes(t *testing.T) {
	turns := []string{
		`{"role":"user","content":"look at \"a\""}`,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"c2ln"},{"type":"tool_use","id":"1","name":"f","input":{"z":1,"a":[1.0]}}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"ok"}]}`,
		`{"role":"system","content":"<total_tokens>"}`,
		`{"role":"assistant","content":"done"}`,
		`{"role":"user","content":[{"type":"text","text":"more"}]}`,
	}
	var previous []byte
	for n := 1; n <= len(turns); n++ {
		body := `{"messages":[` + strings.Join(turns[:n], ",") + `],"model":"m","max_tokens":5,"system":"s",` +
			`"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],"stream":true}`
		now := provide(t, decode(t, body), ableTarget())
		if again := provide(t, decode(t, body), ableTarget()); !bytes.Equal(now, again) {
			t.Fatalf("the same request gives different bytes:\n%s\n%s", now, again)
		}
		if open := bytes.TrimSuffix(previous, []byte("]}")); !bytes.HasPrefix(now, open) {
			t.Fatalf("turn %d does not begin with turn %d:\n%s\n%s", n, n-1, now, open)
		}
		previous = now
	}
}

func TestTokenCountAnswer(t *testing.T) {
	if got := string(messages.Definition().AppendTokenCount(nil, 2095)); got != `{"input_tokens":2095}` {
		t.Error(got)
	}
}
