package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

func readEnvelope(t interface{ Fatalf(string, ...any) }, body string) *codec.Envelope {
	var e codec.Envelope
	if err := e.Read([]byte(body)); err != nil {
		t.Fatalf("Read(%s): %v", body, err)
	}
	return &e
}

func TestEnvelopeReadsWhatARequestSaysAboutItself(t *testing.T) {
	body := `{"model":"gpt-5.5","stream":true,"service_chat_key":"k\u00e9y","service_external_session_id":"s1",` +
		`"previous_response_id":"resp_1","conversation":{"id":"conv_1"},"prompt_cache_key":"p","store":false,` +
		`"instructions":"be brief","input":[{"role":"user","content":"a"},{"type":"reasoning"}],"tools":[{"name":"t"}]}`
	e := readEnvelope(t, body)
	got := map[string]any{
		"model": e.Model, "stream": e.Stream, "key": e.ChatKey, "session": e.ExternalSession,
		"previous": e.PreviousResponse, "conversation": e.Conversation, "cache": e.PromptCacheKey, "storeOff": e.StoreOff,
	}
	want := map[string]any{
		"model": "gpt-5.5", "stream": true, "key": "kéy", "session": "s1",
		"previous": "resp_1", "conversation": "conv_1", "cache": "p", "storeOff": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	texts := func(spans []codec.Span) (out []string) {
		for _, s := range spans {
			out = append(out, string(s.Of([]byte(body))))
		}
		return out
	}
	if diff := cmp.Diff([]string{`{"role":"user","content":"a"}`, `{"type":"reasoning"}`}, texts(e.Items)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`"be brief"`, `{"role":"user","content":"a"}`, `{"type":"reasoning"}`, `{"name":"t"}`}, texts(e.Blocks(nil))); diff != "" {
		t.Error(diff)
	}
}

func TestSpliceRemovesOnlyOurMembers(t *testing.T) {
	cases := map[string]struct{ body, model, want string }{
		"nothing to do":          {`{"model":"m","a":1}`, "m", `{"model":"m","a":1}`},
		"first":                  {`{"service_chat_key":"k", "model":"m"}`, "m", `{"model":"m"}`},
		"last":                   {`{"model":"m" , "service_chat_key":"k"}`, "m", `{"model":"m"}`},
		"middle":                 {`{"model":"m","service_chat_key":"k","z":2}`, "m", `{"model":"m","z":2}`},
		"both first":             {`{"service_chat_key":"k","service_external_session_id":"e","model":"m"}`, "m", `{"model":"m"}`},
		"both last":              {`{"model":"m","service_chat_key":"k","service_external_session_id":"e"}`, "m", `{"model":"m"}`},
		"around":                 {`{"service_chat_key":"k","model":"m","service_external_session_id":"e"}`, "m", `{"model":"m"}`},
		"alias":                  {`{ "a" : 1 , "model" : "m" }`, `x"y`, `{ "a" : 1 , "model" : "x\"y" }`},
		"alias and cuts":         {`{"service_chat_key":"k","model":"m","service_external_session_id":null,"z":1}`, "n", `{"model":"n","z":1}`},
		"escaped member name":    {`{"model":"m","service_chat_ke\u0079":"k"}`, "m", `{"model":"m"}`},
		"name inside a message":  {`{"model":"m","messages":[{"service_chat_key":"k"}]}`, "m", `{"model":"m","messages":[{"service_chat_key":"k"}]}`},
		"cut before, model last": {`{"a":1,"service_chat_key":"k","model":"m"}`, "n", `{"a":1,"model":"n"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := string(readEnvelope(t, c.body).Splice(nil, []byte(c.body), c.model)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestABodyWhosePathNamesTheModelNamesNone(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"models/m","contents":[]}`: `{"contents":[]}`,
		`{"contents":[],"model":"m"}`:        `{"contents":[]}`,
		`{"contents":[]}`:                    `{"contents":[]}`,
	} {
		for _, model := range []string{"m", "another"} {
			var e codec.Envelope
			e.Address("m", false)
			if err := e.Read([]byte(body)); err != nil || e.Model != "m" || string(e.Splice(nil, []byte(body), model)) != want {
				t.Errorf("%s for %s: %v, %s", body, model, err, e.Splice(nil, []byte(body), model))
			}
		}
	}
	for _, body := range []string{`{"model":"models/another","contents":[]}`, `{"generateContentRequest":{"model":"models/another","contents":[]}}`} {
		var e codec.Envelope
		e.Address("m", false)
		if err := e.Read([]byte(body)); err == nil {
			t.Errorf("the path and the body name two models: %s", body)
		}
	}
}

// Google insists on it, and on the path's.
func TestARequestWithinARequestNamesTheModelThatIsAsked(t *testing.T) {
	const body = `{ "generateContentRequest" : { "contents" : [] , "model" : "models/m" } }`
	for model, want := range map[string]string{"m": body, "another": strings.Replace(body, "models/m", "models/another", 1)} {
		var e codec.Envelope
		e.Address("m", false)
		if err := e.Read([]byte(body)); err != nil || string(e.Splice(nil, []byte(body), model)) != want {
			t.Errorf("%v, %s, want %s", err, e.Splice(nil, []byte(body), model), want)
		}
	}
}

func TestSpliceKeepsEveryOtherMemberAndItsBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,6}`).Filter(func(s string) bool { return s != "model" && s != "stream" }), 0, 6, rapid.ID).Draw(t, "names")
		var all, kept []string
		add := func(name, value string, ours bool) {
			member := fmt.Sprintf("%q: %s", name, value)
			all = append(all, member)
			if !ours {
				kept = append(kept, member)
			}
		}
		at := rapid.IntRange(0, len(names)).Draw(t, "model at")
		ours := map[int]string{rapid.IntRange(0, len(names)).Draw(t, "key at"): "service_chat_key", rapid.IntRange(0, len(names)).Draw(t, "session at"): "service_external_session_id"}
		for i := 0; i <= len(names); i++ {
			if i == at {
				add("model", `"m"`, false)
			}
			if name := ours[i]; name != "" {
				add(name, `"v"`, true)
			}
			if i < len(names) {
				add(names[i], rapid.SampledFrom([]string{`1.0`, `"},{"`, `[1, 2]`, `{"model":"x"}`, `9007199254740993`, `"\\"`, `null`}).Draw(t, "value"), false)
			}
		}
		body := "{" + strings.Join(all, ", ") + "}"
		got := readEnvelope(t, body).Splice(nil, []byte(body), "m")
		if !json.Valid(got) {
			t.Fatalf("not JSON: %s from %s", got, body)
		}
		if want := "{" + strings.Join(kept, ", ") + "}"; string(got) != want {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
	})
}

func TestEnvelopeRefusesWhatCannotBePlaced(t *testing.T) {
	cases := map[string]struct{ body, param, message string }{
		"nothing":              {"", "", "the body is empty"},
		"no JSON":              {`{"model":"m",}`, "", "stops being JSON at byte 13"},
		"no object":            {`["m"]`, "", "object"},
		"no model":             {`{"messages":[]}`, "model", "names no model"},
		"empty model":          {`{"model":""}`, "model", "names no model"},
		"model is a number":    {`{"model":5}`, "model", "string"},
		"two models":           {`{"model":"a","model":"b"}`, "model", "twice"},
		"two models, disguise": {`{"model":"a","mod\u0065l":"b"}`, "model", "twice"},
		"two streams":          {`{"model":"a","stream":true,"stream":false}`, "stream", "twice"},
		"stream is a string":   {`{"model":"a","stream":"yes"}`, "stream", "true or false"},
		"key is a number":      {`{"model":"a","service_chat_key":7}`, "service_chat_key", "string"},
		"key too long":         {`{"model":"a","service_chat_key":"` + strings.Repeat("k", 257) + `"}`, "service_chat_key", "257 bytes"},
		"two keys":             {`{"model":"a","service_chat_key":"a","service_chat_key":"b"}`, "service_chat_key", "twice"},
		"control in session":   {`{"model":"a","service_external_session_id":"a\nb"}`, "service_external_session_id", "control"},
		"invalid UTF-8":        {"{\"model\":\"a\xff\"}", "", "byte 11"},
		"too deep":             {`{"model":"a","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "", "deeper than 4096"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var e codec.Envelope
			var refused *codec.Error
			err := e.Read([]byte(c.body))
			if err == nil {
				err = e.RequireModel()
			}
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal", err)
			}
			if refused.Kind != codec.KindInvalidRequest || refused.Param != c.param || !strings.Contains(refused.Message, c.message) {
				t.Errorf("got %v, want %q about %q", refused, c.message, c.param)
			}
		})
	}
}

func BenchmarkEnvelopeOfAnAgentRequest(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"model":"claude-sonnet-5","stream":true,"messages":[`)
	for i := range 100 {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"role":"user","content":[{"type":"text","text":"%s"}]}`, strings.Repeat(`func main() { fmt.Println(\"hi\")\n `, 80))
	}
	body.WriteString(`]}`)
	doc := []byte(body.String())
	var e codec.Envelope
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		e.Reset()
		if err := e.Read(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func TestTheLengthOfAnAnswerIsReadByEveryName(t *testing.T) {
	for body, want := range map[string]int64{
		`{"model":"m","max_tokens":7}`:                               7,
		`{"model":"m","max_output_tokens":8}`:                        8,
		`{"model":"m","max_completion_tokens":9,"max_tokens":3}`:     9,
		`{"model":"m","max_tokens":"many","max_output_tokens":null}`: 0,
		`{"model":"m","max_tokens":-1}`:                              0,
		`{"model":"m"}`:                                              0,
	} {
		var e codec.Envelope
		if err := e.Read([]byte(body)); err != nil || e.MaxTokens != want {
			t.Errorf("%s: %d, %v", body, e.MaxTokens, err)
		}
	}
}
