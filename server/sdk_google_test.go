package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genai"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/record"
)

// ofEachFamily has a model of each family.
var ofEachFamily = []string{"gemini-3.8-flash", "claude-opus-4-8", "gpt-5.5", "deepseek-v4-pro"}

func (h *harness) genai() *genai.Client {
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: h.key, Backend: genai.BackendGeminiAPI, HTTPClient: h.client, HTTPOptions: genai.HTTPOptions{BaseURL: h.url},
	})
	ok(h.t, err)
	return client
}

// askGoogles asks with Google's SDK, which keeps the service key where it keeps Google's.
func askGoogles(ctx context.Context, h *harness, model, prompt string, stream bool) (heard, error) {
	client := h.genai()
	config := &genai.GenerateContentConfig{
		SystemInstruction: genai.NewContentFromText("Be brief.", genai.RoleUser),
		Tools:             []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "lookup", Description: "Looks up", Parameters: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"q": {Type: genai.TypeString}}}}}}},
	}
	var a heard
	add := func(response *genai.GenerateContentResponse) {
		for _, candidate := range response.Candidates {
			for _, part := range candidate.Content.Parts {
				if a.text += part.Text; part.FunctionCall != nil {
					arguments, err := json.Marshal(part.FunctionCall.Args)
					ok(h.t, err)
					a.calls = append(a.calls, part.FunctionCall.Name+" "+string(arguments))
				}
			}
		}
		if response.UsageMetadata != nil {
			a.output = int64(response.UsageMetadata.CandidatesTokenCount)
		}
	}
	if !stream {
		response, err := client.Models.GenerateContent(ctx, model, genai.Text(prompt), config)
		if err == nil {
			add(response)
		}
		return a, err
	}
	for response, err := range client.Models.GenerateContentStream(ctx, model, genai.Text(prompt), config) {
		if err != nil {
			return a, err
		}
		add(response)
	}
	return a, nil
}

func TestGooglesSDKUnderstandsEveryFamily(t *testing.T) {
	h := build(t)
	for _, model := range ofEachFamily {
		for script, want := range wholeAnswers {
			for _, stream := range []bool{false, true} {
				got, err := askGoogles(context.Background(), h, model, "[[sim: "+script+"]]", stream)
				if err != nil || got.String() != want.String() {
					t.Errorf("%s stream=%t %s: %v, %v; want %v", model, stream, script, got, err, want)
				}
				x := h.newest("acme")
				if x.Outcome != record.OutcomeComplete || x.Surface != "gemini" || x.Usage.Output != want.output || x.Session == "" || x.Stream != stream || x.ModelAsked != model {
					t.Errorf("%s stream=%t %s: on record as %+v", model, stream, script, x.ExchangeInfo)
				}
			}
		}
	}
}

func TestGooglesSDKRaisesEveryError(t *testing.T) {
	h := build(t)
	for _, model := range ofEachFamily {
		for _, stream := range []bool{false, true} {
			_, err := askGoogles(context.Background(), h, model, `[[sim: error 400 message="no such thing"]]`, stream)
			if raised := new(genai.APIError); !errors.As(err, raised) || raised.Code != 400 || raised.Status != "INVALID_ARGUMENT" || !strings.Contains(raised.Message, "no such thing") {
				t.Errorf("%s stream=%t: a refusal is raised as %v", model, stream, err)
			}
		}
		for _, script := range []string{`events 9; cut after=5 how=clean`, `events 9; cut after=5 how=mid`, `events 9; cut`, `events 9; error-inside overloaded after=5`} {
			if got, err := askGoogles(context.Background(), h, model, "[[sim: "+script+"]]", true); err == nil {
				t.Errorf("%s: %s is taken for the answer %v", model, script, got)
			}
			if x := h.newest("acme"); x.Outcome != record.OutcomeUpstreamError {
				t.Errorf("%s: %s is on record as %s", model, script, x.Outcome)
			}
		}
	}
	_, err := askGoogles(context.Background(), h, "nobodys-model", "Hi", false)
	if raised := new(genai.APIError); !errors.As(err, raised) || raised.Code != 404 || raised.Status != "NOT_FOUND" {
		t.Errorf("an unknown model is raised as %v", err)
	}
}

// A turn with parallel calls, their results and another question, as Google's SDK keeps a chat.
func TestAChatOfGooglesSDKGoesOnOnEveryFamily(t *testing.T) {
	h := build(t)
	for _, model := range ofEachFamily {
		for _, ids := range []bool{true, false} {
			chat, err := h.genai().Chats.Create(context.Background(), model, &genai.GenerateContentConfig{
				ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true},
				Tools:          []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "lookup", Description: "Looks up", ParametersJsonSchema: map[string]any{"type": "object"}}}}},
			}, nil)
			ok(t, err)
			answer, err := chat.SendMessage(context.Background(), genai.Part{Text: fmt.Sprintf(`Look with %s, %t. [[sim: reasoning "Hm."; text "I look."; call lookup {"q":1}; call lookup {"q":2}]]`, model, ids)})
			if err != nil || len(answer.FunctionCalls()) != 2 {
				t.Fatalf("%s: %v, %v", model, answer, err)
			}
			var results []genai.Part
			for i, call := range answer.FunctionCalls() {
				result := genai.FunctionResponse{Name: call.Name, Response: map[string]any{"output": fmt.Sprint("found ", i)}}
				if ids {
					result.ID = call.ID
				}
				results = append(results, genai.Part{FunctionResponse: &result})
			}
			if answer, err = chat.SendMessage(context.Background(), append(results, genai.Part{Text: `[[sim: text "Both."]]`})...); err != nil || answer.Text() != "Both." {
				t.Fatalf("%s ids=%t: %v, %v", model, ids, answer, err)
			}
			got := h.records("acme")
			if got[0].Session == "" || got[0].Session != got[1].Session {
				t.Errorf("%s ids=%t: the turns are in the sessions %q and %q", model, ids, got[1].Session, got[0].Session)
			}
			if sent := string(h.upstream().Body); !strings.Contains(sent, "found 0") || !strings.Contains(sent, "found 1") || strings.Contains(sent, "sv1.") || strings.Contains(sent, "c3Yx") {
				t.Errorf("%s ids=%t: the provider got %s", model, ids, sent)
			}
		}
	}
}

// Google's clients send the service key where they would send Google's: in a header of its own, or in the query. Beside a
// service key, that of Google is passed on.
func TestTheServiceKeyIsWhereGooglesClientsKeepTheirs(t *testing.T) {
	h := build(t)
	const path, body = "/v1beta/models/gemini-3.8-flash:generateContent", `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`
	for name, c := range map[string]struct {
		query   string
		headers []string
		status  int
	}{
		"the header":             {"", []string{"x-goog-api-key", h.key}, 200},
		"the query":              {"?key=" + h.key, nil, 200},
		"a bearer":               {"", []string{"Authorization", "Bearer " + h.key}, 200},
		"Google's key beside it": {"?key=" + callersOwnKey, []string{"X-Service-API-Key", h.key}, 200},
		"Google's key alone":     {"", []string{"x-goog-api-key", callersOwnKey}, 401},
		"no key":                 {"", nil, 401},
	} {
		a := h.do(http.MethodPost, path+c.query, body, c.headers...)
		if a.status != c.status {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if a.status == 401 && (member(a.body, "error", "status") != "UNAUTHENTICATED" || !strings.Contains(a.body, "send it as x-goog-api-key")) {
			t.Errorf("%s: %s", name, a.body)
		}
		if name == "Google's key beside it" && h.upstream().Header.Get("X-Goog-Api-Key") != callersOwnKey {
			t.Errorf("%s: Google gets %v", name, h.upstream().Header)
		}
	}
	if a := h.do(http.MethodPost, chat.path, chat.body(`text "Hi"`, false), "x-goog-api-key", h.key); a.status != 401 {
		t.Errorf("another surface takes the service key from Google's header: %d", a.status)
	}
	for _, upstream := range h.provider.Requests() {
		if strings.Contains(fmt.Sprint(upstream), h.key) {
			t.Errorf("the service key goes upstream: %v", upstream)
		}
	}
	h.noSecrets("the log", h.log.String())
}

// Requests of Google's clients to Google, and the answers, pass unchanged.
func TestGooglesBytesPassBothWays(t *testing.T) {
	h := build(t)
	body := `{ "contents" : [{"parts":[{"text":"Hi [[sim: text \"Good day\"; reasoning \"Hm\"]]"}],"role":"user"}],"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"OFF"}],"generation_config":{"candidate_count":1}}`
	a := h.post("/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse", body)
	if up := h.upstream(); string(up.Body) != body || !strings.Contains(up.Path, "gemini-3.8-flash:streamGenerateContent") {
		t.Errorf("%s gets %s", up.Path, up.Body)
	}
	if x := h.settled(a.exchange()); string(x.RawRequest) != body || string(x.RawResponse) != a.body || len(x.Translation) > 0 {
		t.Errorf("on record are %s and %s", x.RawRequest, x.RawResponse)
	}
	if a := h.post("/v1beta/models/gemini-3.8-flash:generateContent", `{"model":"models/gpt-5.5","contents":[]}`); a.status != 400 || !strings.Contains(a.body, "another model") {
		t.Errorf("a body for another model than the path's: %d %s", a.status, a.body)
	}
}

func TestAStreamIsOneArrayUnlessEventsAreAskedFor(t *testing.T) {
	h := build(t)
	for _, model := range ofEachFamily {
		for script, complete := range map[string]bool{`text "Good morning to all."`: true, `events 9; error-inside overloaded after=5`: false} {
			a := h.post("/v1beta/models/"+model+":streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"[[sim: `+strings.ReplaceAll(script, `"`, `\"`)+`]]"}]}]}`)
			var list []struct {
				Candidates []any
				Error      map[string]any
			}
			if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status == 200 && len(list) < 2 || a.header.Get("Content-Type") != "application/json" {
				if complete || a.status == 200 {
					t.Errorf("%s: %v, %d %s", model, err, a.status, a.body)
				}
				continue
			}
			if last := list[len(list)-1]; (last.Error == nil) != complete {
				t.Errorf("%s, complete %t: the array ends with %v", model, complete, last)
			}
			x := h.settled(a.exchange())
			if complete && string(x.RawResponse) != a.body || (x.Outcome == record.OutcomeComplete) != complete {
				t.Errorf("%s: on record as %s: %s", model, x.Outcome, x.RawResponse)
			}
			if read := crossing.Fold(codec.Gemini, x.RawResponse); complete && (len(read.Items) != 1 || string(read.Items[0].Text) != "Good morning to all.") {
				t.Errorf("%s: the record is read as %+v", model, read)
			}
		}
	}
}

func TestGooglesClientsCountAndListModels(t *testing.T) {
	h := build(t)
	client := h.genai()
	for _, model := range ofEachFamily {
		counted, err := client.Models.CountTokens(context.Background(), model, genai.Text("One two three four five six"), nil)
		if err != nil || counted.TotalTokens < 4 {
			t.Errorf("%s: %v, %v", model, counted, err)
		}
		if x := h.newest("acme"); x.Auxiliary != record.AuxiliaryTokens || x.Surface != "gemini" {
			t.Errorf("%s: on record as %+v", model, x.ExchangeInfo)
		}
		shown, err := client.Models.Get(context.Background(), model, nil)
		if err != nil || shown.Name != "models/"+model {
			t.Errorf("%s: %v, %v", model, shown, err)
		}
	}
	whole := h.post("/v1beta/models/claude-opus-4-8:countTokens", `{"generateContentRequest":{"model":"models/claude-opus-4-8","contents":[{"parts":[{"text":"`+strings.Repeat("word ", 400)+`"}]}]}}`)
	var counted struct{ TotalTokens int }
	if err := json.Unmarshal([]byte(whole.body), &counted); err != nil || counted.TotalTokens < 400 {
		t.Errorf("a request inside of another one: %d %s", whole.status, whole.body)
	}
	for path, status := range map[string]int{"gemini-3.8-flash:generateContent": http.StatusMethodNotAllowed, "nobodys": http.StatusNotFound} {
		a := h.do(http.MethodGet, "/v1/models/"+path, "", "X-Goog-Api-Key", h.key)
		if a.status != status || member(a.body, "error", "status") == "" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := h.post("/v1beta/models/:generateContent", `{"contents":[]}`); a.status != http.StatusBadRequest || !strings.Contains(a.body, "names no model") {
		t.Errorf("without a model: %d %s", a.status, a.body)
	}
	if a := h.do(http.MethodGet, "/v1/models/gpt-5.5", "", "X-Goog-Api-Key", h.key); a.status != 200 || member(a.body, "name") != "models/gpt-5.5" {
		t.Errorf("where newer clients look: %d %s", a.status, a.body)
	}
	listed := map[string]bool{}
	for model, err := range client.Models.All(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		listed[model.Name] = true
	}
	if len(listed) < 4 || !listed["models/claude-opus-5-5"] {
		t.Errorf("listed are %v", listed)
	}
}

func TestGooglesSDKEmbedsWithEveryFamilyThatDoes(t *testing.T) {
	h := build(t)
	client := h.genai()
	for model, size := range map[string]int{"gemini-embedding-001": 3072, "text-embedding-3-small": 1536} {
		for n := 1; n <= 2; n++ {
			contents := []*genai.Content{genai.NewContentFromText("one", genai.RoleUser), genai.NewContentFromText("two", genai.RoleUser)}[:n]
			made, err := client.Models.EmbedContent(context.Background(), model, contents, nil)
			if err != nil || len(made.Embeddings) != n || len(made.Embeddings[0].Values) != size {
				t.Errorf("%s, %d contents: %v", model, n, err)
			}
		}
		a := h.post("/v1beta/models/"+model+":embedContent", `{"content":{"parts":[{"text":"one"}]},"taskType":"RETRIEVAL_QUERY","outputDimensionality":256}`)
		var one struct{ Embedding struct{ Values []float64 } }
		if err := json.Unmarshal([]byte(a.body), &one); err != nil || len(one.Embedding.Values) != 256 {
			t.Errorf("%s: %d %.200s", model, a.status, a.body)
		}
		if x := h.settled(a.exchange()); x.Outcome != record.OutcomeComplete || x.Surface != "embeddings" || x.Usage.InputUncached == 0 || x.ModelAsked != model {
			t.Errorf("%s: on record as %+v", model, x.ExchangeInfo)
		}
	}
	if sent := string(h.upstream().Body); strings.Contains(sent, "RETRIEVAL_QUERY") != strings.Contains(sent, "requests") {
		t.Errorf("the host gets %s", sent)
	}
	for body, says := range map[string]string{
		`{"requests":[]}`: "requests",
		`{"requests":[{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"a"}]}}]}`:                           "requests[0].model",
		`{"requests":[{"content":{"parts":[]}}]}`:                                                                             "requests[0].content",
		`{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"b"}]},"outputDimensionality":256}]}`: "requests[1]",
		`{"requests":[{"content":{"parts":[{"text":"a"}]},"outputDimensionality":0}]}`:                                        "outputDimensionality",
	} {
		if a := h.post("/v1beta/models/text-embedding-3-small:batchEmbedContents", body); a.status != 400 || !strings.Contains(a.body, says) || member(a.body, "error", "status") != "INVALID_ARGUMENT" {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}
