package chat_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
)

func text(s string) codec.Part { return codec.Part{Kind: codec.PartText, Text: []byte(s)} }

// What clients of other formats can express and chat clients cannot, as chat hosts get it.
func TestMessagesOfOtherFormats(t *testing.T) {
	one := func(p ...codec.Part) []codec.Message { return []codec.Message{{Role: codec.RoleUser, Parts: p}} }
	result := func(p codec.Part) []codec.Message {
		p.Kind, p.CallID = codec.PartToolResult, []byte("c")
		return []codec.Message{{Role: codec.RoleTool, Parts: []codec.Part{p}}}
	}
	picture := codec.Part{Kind: codec.PartImage, MediaType: []byte("image/png"), Data: []byte("AA==")}
	assistant := func(p ...codec.Part) []codec.Message {
		return []codec.Message{{Role: codec.RoleAssistant, Parts: p}, {Role: codec.RoleUser, Parts: []codec.Part{text("x")}}}
	}
	const next = `,{"role":"user","content":"x"}`
	cases := map[string]struct {
		host    string
		request codec.Request
		want    string // the messages
		dropped string
	}{
		"instructions in blocks": {
			"openai",
			codec.Request{Instructions: []codec.Part{text("a"), text("b")}},
			`{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "",
		},
		"instructions for a reasoning model": {
			"openai reasoning",
			codec.Request{Instructions: []codec.Part{text("a")}},
			`{"role":"developer","content":"a"}`, "",
		},
		"instructions as one string": {
			"deepseek",
			codec.Request{Instructions: []codec.Part{text("a"), text(""), text("b")}},
			`{"role":"system","content":"a\n\nb"}`, "",
		},
		"arguments as an object": {
			"openai",
			codec.Request{Messages: assistant(codec.Part{
				Kind: codec.PartToolCall, CallID: []byte("c"), Name: []byte("f"), Arguments: []byte(`{"a":"\"","n":1.0}`),
			})},
			`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"\\\"\",\"n\":1.0}"}}]}` + next, "",
		},
		"text behind a call": {
			"openai",
			codec.Request{Messages: assistant(text("a"), codec.Part{Kind: codec.PartToolCall, CallID: []byte("c"), Name: []byte("f")}, text("b"))},
			`{"role":"assistant","content":"ab","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}` + next, "",
		},
		"a result without a word": {
			"openai",
			codec.Request{Messages: result(codec.Part{})},
			`{"role":"tool","tool_call_id":"c","content":""}`, "",
		},
		"a picture in a result": {
			"openai",
			codec.Request{Messages: result(codec.Part{Parts: []codec.Part{text("see"), picture}})},
			`{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"see"},{"type":"text","text":"[image omitted: this model takes none here]"}]}`, "image",
		},
		"a picture in a result as one string": {
			"deepseek",
			codec.Request{Messages: result(codec.Part{Parts: []codec.Part{text("see"), picture}})},
			`{"role":"tool","tool_call_id":"c","content":"see\n[image omitted: this model takes none here]"}`, "image",
		},
		"a document that is text": {
			"openai",
			codec.Request{Messages: one(codec.Part{Kind: codec.PartDocument, Text: []byte("page")})},
			`{"role":"user","content":[{"type":"text","text":"page"}]}`, "",
		},
		"a document by address": {
			"openai",
			codec.Request{Messages: one(codec.Part{Kind: codec.PartDocument, URL: []byte("https://a.example/b.pdf")})},
			`{"role":"user","content":[{"type":"text","text":"https://a.example/b.pdf"}]}`, "document.url",
		},
		"audio by media type": {
			"openai",
			codec.Request{Messages: one(codec.Part{Kind: codec.PartAudio, MediaType: []byte("audio/mpeg"), Data: []byte("AA==")})},
			`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA==","format":"mp3"}}]}`, "",
		},
		"a part that nobody knows": {
			"openai",
			codec.Request{Messages: one(text("a"), codec.Part{Kind: codec.PartOpaque, WireType: []byte("thing"), Raw: []byte(`{}`), Origin: codec.Messages})},
			`{"role":"user","content":[{"type":"text","text":"a"}]}`, "content.thing",
		},
		"summaries as paragraphs": {
			"deepseek",
			codec.Request{Messages: assistant(codec.Part{Kind: codec.PartReasoning, Parts: []codec.Part{text("one"), text("two")}}, text("a"))},
			`{"role":"assistant","content":"a","reasoning_content":"one\n\ntwo"}` + next, "",
		},
		"another house's reasoning": {
			"mistral",
			codec.Request{Messages: assistant(codec.Part{
				Kind: codec.PartReasoning, Text: []byte("secret"), Signature: []byte("S"), Family: codec.FamilyAnthropic,
			}, text("a"))},
			`{"role":"assistant","content":"a"}` + next, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			target := targets[c.host]
			c.request.MaxOutput = -1
			sent, err := chat.Provider().AppendRequest(nil, &c.request, &target)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"model":"` + target.Model + `","messages":[` + c.want + `]}`
			if diff := cmp.Diff(want, string(sent)); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(c.request.Notes.Dropped, ","); got != c.dropped {
				t.Errorf("dropped %q, want %q", got, c.dropped)
			}
		})
	}
}

// Tools of other formats: a flat grammar is nested, a web search becomes the member that search models take.
func TestToolsOfOtherFormats(t *testing.T) {
	target := targets["openai search"]
	r := codec.Request{MaxOutput: -1, Tools: []codec.Tool{
		{Kind: codec.ToolCustom, Name: []byte("c"), Grammar: []byte(`{"type":"grammar","syntax":"lark","definition":"x"}`), Origin: codec.Responses},
		{Kind: codec.ToolWebSearch, WireType: []byte("web_search"), Origin: codec.Responses, Raw: []byte(
			`{"type":"web_search","search_context_size":"low","user_location":{"type":"approximate","city":"Oslo","region":null},"filters":{"allowed_domains":["a.example"]}}`)},
		{Kind: codec.ToolHosted, WireType: []byte("file_search"), Origin: codec.Responses, Raw: []byte(`{}`)},
	}}
	sent, err := chat.Provider().AppendRequest(nil, &r, &target)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"gpt-4o-search-preview","tools":[{"type":"custom","custom":{"name":"c","format":{"type":"grammar","grammar":{"syntax":"lark","definition":"x"}}}}],` +
		`"web_search_options":{"search_context_size":"low","user_location":{"type":"approximate","approximate":{"city":"Oslo"}}},"messages":[]}`
	if diff := cmp.Diff(want, string(sent)); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(r.Notes.Dropped, ","); got != "tools.file_search,tools.filters" {
		t.Errorf("dropped %q", got)
	}
}

// Citations of other formats come in this format's nested shape; one without an address has no form here.
func TestCitationsOfOtherFormats(t *testing.T) {
	events := []codec.Event{
		{Kind: codec.EventItemOpen, Type: codec.ItemText},
		{Kind: codec.EventText, Raw: []byte("see")},
		{Kind: codec.EventAnnotation, Origin: codec.Responses, Raw: []byte(`{"type":"url_citation","start_index":0,"end_index":3,"url":"https://a.example","title":"A"}`)},
		{Kind: codec.EventAnnotation, Origin: codec.Messages, Raw: []byte(`{"type":"web_search_result_location","url":"https://b.example","title":null,"cited_text":"x"}`)},
		{Kind: codec.EventAnnotation, Origin: codec.Messages, Raw: []byte(`{"type":"char_location","document_title":"D"}`)},
		{Kind: codec.EventEnd, End: codec.EndTerminal},
	}
	const want = `"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":3,"title":"A","url":"https://a.example"}},` +
		`{"type":"url_citation","url_citation":{"start_index":0,"end_index":0,"title":"","url":"https://b.example"}}]`
	encoder := chat.Client().NewEncoder(&asked)
	var stream []byte
	var answer codec.Answer
	for i := range events {
		stream = encoder.Append(stream, &events[i])
		answer.Add(&events[i])
	}
	if !strings.Contains(string(stream), want) {
		t.Errorf("the stream: %s", stream)
	}
	if complete := chat.Client().AppendAnswer(nil, &answer, &asked); !strings.Contains(string(complete), want) {
		t.Errorf("the answer: %s", complete)
	}
}

// Reasoning that the client may not see is neither in the text nor in the blocks that carry its proof.
func TestHiddenReasoningKeepsItsProof(t *testing.T) {
	o := asked
	o.ShowReasoning = false
	events := []codec.Event{
		{Kind: codec.EventItemOpen, Type: codec.ItemReasoning},
		{Kind: codec.EventReasoning, Raw: []byte("secret")},
		{Kind: codec.EventSignature, Raw: []byte("SIG")},
		{Kind: codec.EventItemClose, Type: codec.ItemReasoning},
		{Kind: codec.EventEnd, End: codec.EndTerminal},
	}
	encoder := chat.Client().NewEncoder(&o)
	var stream []byte
	var answer codec.Answer
	for i := range events {
		stream = encoder.Append(stream, &events[i])
		answer.Add(&events[i])
	}
	for _, sent := range []string{string(stream), string(chat.Client().AppendAnswer(nil, &answer, &o))} {
		if strings.Contains(sent, "secret") || !strings.Contains(sent, `"type":"thinking","thinking":"","signature":"SIG"`) {
			t.Errorf("got %s", sent)
		}
	}
}

// A stream that is cut off, or whose client left, never looks like a finished one.
func TestAnEndThatIsNoneIsAnError(t *testing.T) {
	for _, end := range []codec.End{codec.EndBroken, codec.EndCancelled, codec.EndEOF} {
		encoder := chat.Client().NewEncoder(&asked)
		got := string(encoder.Append(nil, &codec.Event{Kind: codec.EventEnd, End: end}))
		if !strings.HasPrefix(got, `data: {"error":{`) || strings.Contains(got, "[DONE]") {
			t.Errorf("%d: got %s", end, got)
		}
		if more := encoder.Append(nil, &codec.Event{Kind: codec.EventText, Raw: []byte("x")}); len(more) > 0 {
			t.Errorf("%d: something behind the end: %s", end, more)
		}
	}
}
