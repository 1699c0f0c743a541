package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func request(t testing.TB, body string) *codec.Request {
	t.Helper()
	r := new(codec.Request)
	r.Reset()
	if err := responses.Client().DecodeRequest(r, []byte(body)); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return r
}

func encode(t testing.TB, r *codec.Request) string {
	t.Helper()
	out, err := responses.Provider().AppendRequest(nil, r, &codec.Target{Model: r.Model, Family: codec.FamilyOpenAI})
	if err != nil {
		t.Fatal(err)
	}
	if !scan.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out)
}

// TestRequestTranscripts shows how client bodies (>) are understood (=) and what a provider of the same format is sent
// for them (<).
func TestRequestTranscripts(t *testing.T) { codectest.Each(t, "request", requestTranscript) }

func requestTranscript(t *testing.T, recorded string) string {
	return codectest.ReplayWhole(recorded, func(in string, s *codectest.Script) {
		r := request(t, in)
		out := encode(t, r)
		for i := range r.Tools {
			s.Means("tool %s", describeTool(&r.Tools[i]))
		}
		for i := range r.Instructions {
			s.Means("instructions %s", describePart(&r.Instructions[i]))
		}
		for i := range r.Messages {
			m := &r.Messages[i]
			s.Means("%s %s", roleWords[m.Role], strings.TrimSpace(fmt.Sprintf("(item %d) %s", m.Index, m.Phase)))
			for j := range m.Parts {
				s.Means("  %s", describePart(&m.Parts[j]))
				for k := range m.Parts[j].Parts {
					s.Means("    %s", describePart(&m.Parts[j].Parts[k]))
				}
			}
		}
		if len(r.Notes.Dropped)+len(r.Notes.Emulated)+len(r.Stateful) > 0 {
			s.Means("dropped %v, emulated %v, stateful %v", r.Notes.Dropped, r.Notes.Emulated, r.Stateful)
		}
		out = strings.Replace(out, `,"tools":[`, ",\n\"tools\":[", 1)
		out = strings.ReplaceAll(out, `,{"type":`, ",\n  {\"type\":")
		s.Says(strings.ReplaceAll(out, `,"input":[`, ",\n\"input\":[\n  "))
	})
}

var (
	roleWords = map[codec.Role]string{
		codec.RoleSystem: "system", codec.RoleDeveloper: "developer", codec.RoleUser: "user",
		codec.RoleAssistant: "assistant", codec.RoleTool: "tool",
	}
	partWords = map[codec.PartKind]string{
		codec.PartText: "text", codec.PartRefusal: "refusal", codec.PartReasoning: "reasoning", codec.PartRedacted: "redacted",
		codec.PartImage: "image", codec.PartDocument: "document", codec.PartAudio: "audio", codec.PartToolCall: "call",
		codec.PartCustomCall: "custom call", codec.PartToolResult: "result", codec.PartToolRef: "tool reference",
		codec.PartServerTool: "server tool", codec.PartOpaque: "opaque",
	}
	toolWords = map[codec.ToolKind]string{
		codec.ToolFunction: "function", codec.ToolCustom: "custom", codec.ToolWebSearch: "web search",
		codec.ToolSearch: "tool search", codec.ToolClientSide: "client side", codec.ToolHosted: "hosted",
	}
)

func describePart(p *codec.Part) string {
	words := []string{partWords[p.Kind]}
	add := func(name string, value []byte) {
		if value != nil {
			words = append(words, fmt.Sprintf("%s=%s", name, value))
		}
	}
	add("id", p.ID)
	add("call", p.CallID)
	add("name", p.Name)
	add("namespace", p.Namespace)
	add("text", p.Text)
	add("arguments", p.Arguments)
	if p.ArgumentsEscaped {
		words = append(words, "(escaped)")
	}
	add("signature", p.Signature)
	add("type", p.MediaType)
	add("data", p.Data)
	add("url", p.URL)
	add("file", p.FileID)
	add("filename", p.Filename)
	add("detail", p.Detail)
	add("wire", p.WireType)
	if p.Failed {
		words = append(words, "(failed)")
	}
	return strings.Join(words, " ")
}

func describeTool(t *codec.Tool) string {
	words := []string{toolWords[t.Kind], string(t.Name)}
	if t.Namespace != nil {
		words = append(words, fmt.Sprintf("namespace=%s (%s)", t.Namespace, t.NamespaceDescription))
	}
	if t.Schema != nil {
		words = append(words, fmt.Sprintf("schema=%s", t.Schema))
	}
	if t.Grammar != nil {
		words = append(words, fmt.Sprintf("grammar=%s", t.Grammar))
	}
	return strings.Join(words, " ")
}

func TestARequestMeansTheSameAfterAnotherRound(t *testing.T) {
	for name, story := range codectest.All(t, "request") {
		t.Run(name, func(t *testing.T) {
			first := request(t, strings.Join(codectest.Inputs(story), "\n"))
			second := request(t, encode(t, first))
			for _, r := range []*codec.Request{first, second} {
				meaning(r)
			}
			if diff := cmp.Diff(first, second, cmpopts.IgnoreUnexported(codec.Request{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// meaning takes away what a second round may change without changing the meaning: places in lists, what has been noted,
// ids and the spelling that raw values are kept for.
func meaning(r *codec.Request) {
	r.Notes, r.Stateful, r.Echo = codec.Notes{}, nil, nil
	r.Reasoning.Visible = codec.Unset
	r.ToolChoice.Raw = nil
	for i := range r.ToolChoice.Allowed {
		r.ToolChoice.Allowed[i].Raw = nil
	}
	for i := range r.Tools {
		t := &r.Tools[i]
		t.Index, t.Raw = 0, nil
		if t.Schema == nil || t.Kind == codec.ToolFunction && string(t.Schema) == "{}" {
			t.Schema = []byte(`{"type":"object","properties":{}}`)
		}
		if t.Strict != codec.True {
			t.Strict = codec.False
		}
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		m.Index, m.ID = 0, nil
		for j := range m.Parts {
			p := &m.Parts[j]
			p.ID = nil
			if p.Kind == codec.PartToolCall && len(p.Arguments) == 0 {
				p.Arguments = []byte("{}")
			}
		}
	}
}

func TestGrowingHistoryKeepsItsBeginning(t *testing.T) { // P50, P51; property 8
	items := make([]string, 0, 30)
	for i := range 10 {
		items = append(items,
			fmt.Sprintf(`{"type":"reasoning","summary":[],"encrypted_content":"gAAAA%d"}`, i),
			fmt.Sprintf(`{"type":"function_call","call_id":"call_%d","name":"read","arguments":"{\"b\":%d,\"a\":1.0}"}`, i, i),
			fmt.Sprintf(`{"type":"function_call_output","call_id":"call_%d","output":[{"type":"input_text","text":"<&> %d"},{"type":"input_image","image_url":"data:image/png;base64,iVBO"}]}`, i, i))
	}
	body := func(n int) string {
		return `{"model":"m","stream":true,"store":false,"instructions":"sys","input":[{"role":"user","content":"go"},` +
			strings.Join(items[:3*n], ",") + `],"tools":[{"type":"function","name":"read","parameters":{"z":1,"a":2}}]}`
	}
	before := ""
	for n := 1; n <= 10; n++ {
		now := encode(t, request(t, body(n)))
		if head := strings.TrimSuffix(before, "]}"); !strings.HasPrefix(now, head) {
			t.Fatalf("turn %d does not begin with turn %d:\n%s\n%s", n, n-1, head, now)
		}
		before = now
	}
}

func TestEncodingSaysWhatOtherFormatsSay(t *testing.T) {
	cases := map[string]struct {
		make func(r *codec.Request)
		want string
		not  string
	}{
		"strict is off unless it was asked for (P90)": {
			func(r *codec.Request) {
				r.Tools = []codec.Tool{{Kind: codec.ToolFunction, Name: []byte("t"), Schema: []byte(`{"type":"object"}`)}}
			}, `"parameters":{"type":"object"},"strict":false}`, "",
		},
		"a tool without a schema has an empty one": {
			func(r *codec.Request) { r.Tools = []codec.Tool{{Kind: codec.ToolFunction, Name: []byte("t")}} },
			`"parameters":{"type":"object","properties":{}}`, "",
		},
		"a restriction on callers stays (P86)": {
			func(r *codec.Request) {
				r.Tools = []codec.Tool{{Kind: codec.ToolFunction, Name: []byte("t"), AllowedCallers: []byte(`["direct"]`)}}
			}, `"allowed_callers":["direct"]`, "",
		},
		"arguments that are an object become its text": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{{Role: codec.RoleAssistant, Parts: []codec.Part{{
					Kind:   codec.PartToolCall,
					CallID: []byte("toolu_1"), Name: []byte("t"), Arguments: []byte(`{"a":"\"\n","n":1.0}`),
				}}}}
			}, `"arguments":"{\"a\":\"\\\"\\n\",\"n\":1.0}"`, "",
		},
		"state of another family stays out": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{{Role: codec.RoleAssistant, Parts: []codec.Part{
					{Kind: codec.PartReasoning, Text: []byte("hm"), Signature: []byte("EqQB"), Family: codec.FamilyAnthropic},
					{Kind: codec.PartText, Text: []byte("Hi")},
				}}}
			}, `"input":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi"}]}]`, "reasoning",
		},
		"ids are left out where nothing is kept": {
			func(r *codec.Request) {
				r.Store, r.IncludeState = codec.False, true
				r.Messages = []codec.Message{{Role: codec.RoleAssistant, ID: []byte("msg_1"), Parts: []codec.Part{
					{Kind: codec.PartReasoning, ID: []byte("rs_1"), Signature: []byte("gAAAA"), Family: codec.FamilyOpenAI},
					{Kind: codec.PartToolCall, ID: []byte("fc_1"), CallID: []byte("c"), Name: []byte("t")},
				}}}
			}, `"store":false,"include":["reasoning.encrypted_content"],"input":[{"type":"reasoning","summary":[],"encrypted_content":"gAAAA"},{"type":"function_call","call_id":"c","name":"t","arguments":"{}"}]`, `"id"`,
		},
		"an id is one item's": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{{Role: codec.RoleAssistant, ID: []byte("msg_1"), Parts: []codec.Part{
					{Kind: codec.PartText, Text: []byte("a")},
					{Kind: codec.PartToolCall, CallID: []byte("c"), Name: []byte("t")},
					{Kind: codec.PartText, Text: []byte("b")},
				}}}
			}, `{"type":"output_text","text":"a"}],"id":"msg_1"},{"type":"function_call","call_id":"c","name":"t","arguments":"{}"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]}]`, "",
		},
		"several system blocks are a developer message": {
			func(r *codec.Request) {
				r.Instructions = []codec.Part{{Kind: codec.PartText, Text: []byte("a")}, {Kind: codec.PartText, Text: []byte("b")}}
			}, `"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]}]`, "instructions",
		},
		"results of custom calls": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{
					{Role: codec.RoleAssistant, Parts: []codec.Part{{Kind: codec.PartCustomCall, CallID: []byte("c"), Name: []byte("t"), Text: []byte("in")}}},
					{Role: codec.RoleTool, Parts: []codec.Part{{Kind: codec.PartToolResult, CallID: []byte("c"), Parts: []codec.Part{{Kind: codec.PartText, Text: []byte("out")}}}}},
				}
			}, `{"type":"custom_tool_call_output","call_id":"c","output":"out"}`, "",
		},
		"a picture by the assistant stays out": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{
					{Role: codec.RoleUser, Parts: []codec.Part{{Kind: codec.PartText, Text: []byte("hi")}}},
					{Role: codec.RoleAssistant, Parts: []codec.Part{{Kind: codec.PartImage, URL: []byte("https://example.com/a.png")}}},
				}
			}, `"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, "",
		},
		"a document of Messages gets a name": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{{Role: codec.RoleUser, Parts: []codec.Part{{Kind: codec.PartDocument, MediaType: []byte("application/pdf"), Data: []byte("JVBE")}}}}
			}, `{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,JVBE"}`, "",
		},
		"a document that is text": {
			func(r *codec.Request) {
				r.Messages = []codec.Message{{Role: codec.RoleUser, Parts: []codec.Part{{Kind: codec.PartDocument, Text: []byte("words")}}}}
			}, `{"type":"input_text","text":"words"}`, "",
		},
		"a search of Anthropic's": {
			func(r *codec.Request) {
				r.Tools = []codec.Tool{{
					Kind: codec.ToolWebSearch, Origin: codec.Messages, WireType: []byte("web_search_20250305"),
					Raw: []byte(`{"type":"web_search_20250305","name":"web_search","allowed_domains":["a.example"],"user_location":{"type":"approximate","city":"Bern"}}`),
				}}
			}, `{"type":"web_search","filters":{"allowed_domains":["a.example"]},"user_location":{"type":"approximate","city":"Bern"}}`, "",
		},
		"a grammar as Chat Completions nests it": {
			func(r *codec.Request) {
				r.Tools = []codec.Tool{{Kind: codec.ToolCustom, Name: []byte("p"), Grammar: []byte(`{"type":"grammar","grammar":{"definition":"x","syntax":"lark"}}`)}}
			}, `"format":{"type":"grammar","syntax":"lark","definition":"x"}`, "",
		},
		"an output limit below the least": {
			func(r *codec.Request) { r.MaxOutput = 1 }, `"max_output_tokens":16`, "",
		},
		"a schema without a name": {
			func(r *codec.Request) {
				r.Output = codec.OutputFormat{Kind: codec.OutputSchema, Schema: []byte(`{"type":"object"}`)}
			},
			`"text":{"format":{"type":"json_schema","name":"structured_output","schema":{"type":"object"}}}`, "",
		},
		"a tool choice without tools is none": {
			func(r *codec.Request) { r.ToolChoice.Mode = codec.ChoiceRequired }, `"input":[]`, "tool_choice",
		},
		"the choice of a custom tool": {
			func(r *codec.Request) {
				r.Tools = []codec.Tool{{Kind: codec.ToolCustom, Name: []byte("p")}}
				r.ToolChoice = codec.ToolChoice{Mode: codec.ChoiceTool, Name: []byte("p")}
			}, `"tool_choice":{"type":"custom","name":"p"}`, "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := new(codec.Request)
			r.Reset()
			r.Model = "gpt-5.5"
			c.make(r)
			out := encode(t, r)
			mustContain(t, out, c.want)
			if c.not != "" {
				mustNotContain(t, out, c.not)
			}
		})
	}
}

func TestWhatThisFormatCannotSayIsNoted(t *testing.T) {
	r := new(codec.Request)
	r.Reset()
	r.TopK, r.Seed, r.PresencePenalty, r.FrequencyPenalty, r.LogitBias = []byte("1"), []byte("2"), []byte("3"), []byte("4"), []byte("{}")
	r.N, r.Stop = 2, [][]byte{[]byte("x")}
	encode(t, r)
	want := []string{"top_k", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "n", "stop"}
	if diff := cmp.Diff(want, r.Notes.Dropped); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsThatCannotBeRead(t *testing.T) {
	cases := []struct{ body, param string }{
		{`{"input":5}`, "input"},
		{`{"input":["x"]}`, "input[0]"},
		{`{"input":[{"role":"user","content":7}]}`, "input[0].content"},
		{`{"input":[{"role":"user","content":[7]}]}`, "input[0].content[0]"},
		{`{"input":[{"type":"function_call","call_id":"c","arguments":"{}"}]}`, "input[0].name"},
		{`{"input":[{"type":"additional_tools","tools":5}]}`, "input[0].tools"},
		{`{"tools":{}}`, "tools"},
		{`{"tools":[1]}`, "tools[0]"},
		{`{"tools":[{"type":"function"}]}`, "tools[0].name"},
		{`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom"}]}]}`, "tools[0].tools[0].name"},
		{`{"temperature":"hot"}`, "temperature"},
		{`{"store":"yes"}`, "store"},
		{`{"max_output_tokens":0}`, "max_output_tokens"},
		{`{"text":{"format":{"type":"json_schema","name":"x"}}}`, "text.format.schema"},
		{`{"instructions":5}`, "instructions"},
	}
	for _, c := range cases {
		r := new(codec.Request)
		r.Reset()
		err := responses.Client().DecodeRequest(r, []byte(c.body))
		var fault *codec.Error
		if !errors.As(err, &fault) || fault.Kind != codec.KindInvalidRequest || fault.Param != c.param {
			t.Errorf("%s: got %v, want an error about %s", c.body, err, c.param)
		}
	}
}

func TestErrors(t *testing.T) { // P47, P103
	t.Run("are written as clients know them", func(t *testing.T) {
		cases := []struct {
			err    *codec.Error
			status int
			body   string
		}{
			{codec.Invalid("input[0].name", "no"), 400, `{"error":{"message":"no","type":"invalid_request_error","param":"input[0].name","code":null}}`},
			{&codec.Error{Kind: codec.KindNotFound, Message: "no", Code: "model_not_found"}, 404, `{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"model_not_found"}}`},
			{&codec.Error{Kind: codec.KindOverloaded, Message: "no"}, 503, `{"error":{"message":"no","type":"server_error","param":null,"code":"server_is_overloaded"}}`},
			{&codec.Error{Kind: codec.KindUpstream, Status: 500, Message: "no"}, 500, `{"error":{"message":"no","type":"server_error","param":null,"code":null}}`},
			{&codec.Error{Kind: codec.KindUpstreamAuth, Message: "no"}, 502, `{"error":{"message":"no","type":"api_error","param":null,"code":"upstream_auth"}}`},
		}
		for _, c := range cases {
			if got := string(responses.Client().AppendError(nil, c.err, nil)); got != c.body || !json.Valid([]byte(got)) {
				t.Errorf("got %s", got)
			}
			if got := responses.Client().Status(c.err); got != c.status {
				t.Errorf("%v: status %d, want %d", c.err, got, c.status)
			}
		}
	})
	t.Run("are read in whatever shape they come", func(t *testing.T) {
		cases := []struct {
			status int
			body   string
			kind   codec.Kind
			want   string
		}{
			{400, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded","param":"input"}}`, codec.KindContextTooLong, "too long"},
			{429, `{"error":{"message":"pay","type":"insufficient_quota","code":"insufficient_quota"}}`, codec.KindQuota, "pay"},
			{429, `{"error":{"message":"slow","type":"tokens","code":"rate_limit_exceeded"}}`, codec.KindRateLimited, "slow"},
			{529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, codec.KindOverloaded, "Overloaded"},
			{503, `[{"error":{"code":503,"message":"try later","status":"UNAVAILABLE"}}]`, codec.KindOverloaded, "try later"},
			{401, `{"error":{"message":"Incorrect API key provided: sk-abc"}}`, codec.KindUpstreamAuth, "the provider refused the credential"},
			{400, `{"error":{"message":"Bad key sk-abc","code":"invalid_api_key"}}`, codec.KindUpstreamAuth, "the provider refused the credential"},
			{400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa-abc"}`, codec.KindUpstreamAuth, "the provider refused the credential"},
			{400, `{"object":"error","message":"This model's maximum context length is 8192 tokens","code":400}`, codec.KindContextTooLong, "This model's"},
			{403, `{"error":{"message":"Your organization must be verified."}}`, codec.KindPermission, "Your organization"},
			{502, "<html>\x00bad\ngateway</html>", codec.KindUpstream, "the provider answered with status 502: <html>bad gateway</html>"},
			{500, ``, codec.KindUpstream, "the provider answered with status 500 and gave no reason"},
			{404, `{"detail":"no such model"}`, codec.KindNotFound, "no such model"},
			{400, `{"error":"plain"}`, codec.KindInvalidRequest, "plain"},
		}
		for _, c := range cases {
			err := responses.Provider().DecodeError(c.status, 0, []byte(c.body))
			if err.Kind != c.kind || !strings.HasPrefix(err.Message, c.want) || err.Status != c.status {
				t.Errorf("%d %s: got %v", c.status, c.body, err)
			}
		}
	})
}
