package provider_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"google.golang.org/genai"

	"github.com/mnemeproxy/mneme/bench/provider"
)

const loopScript = `Find it. [[sim: reasoning "I look." ; call read {"path":"a.go"} ; call stat ; then ; call read {"path":"b.go"} ; then ; text "Found." ]]`

// A history replays a conversation in one format: it turns the items of an answer and tool results into the
// next request.
type history struct {
	url   string
	body  func(items []string) string
	first string
	// next gives the items that an answer adds, with a result for every call, and the answer's text.
	next func(answer []byte) (items []string, calls int, text string)
}

// loops has a conversation for each format. Google's takes the names of its members in snake case too, as LiteLLM sends them.
func loops() map[string]history {
	all := camelLoops()
	snake := all["gemini"]
	spelled := strings.NewReplacer("functionDeclarations", "function_declarations", "parametersJsonSchema", "parameters_json_schema",
		"functionCall", "function_call", "functionResponse", "function_response", "thoughtSignature", "thought_signature")
	body := snake.body
	snake.body = func(items []string) string { return spelled.Replace(body(items)) }
	all["gemini in snake case"] = snake
	return all
}

func camelLoops() map[string]history {
	functions := `{"name":"read","description":"d","PARAMETERS":{"type":"object","properties":{}}},{"name":"stat","description":"d"}`
	chat := func(model string, reasoning bool) history {
		return history{
			url: "/v1/chat/completions",
			body: func(items []string) string {
				return `{"model":"` + model + `","messages":[` + strings.Join(items, ",") + `],"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"stat"}}]}`
			},
			first: `{"role":"user","content":` + quoted(loopScript) + `}`,
			next: func(answer []byte) (items []string, calls int, text string) {
				var a struct {
					Choices []struct {
						Message struct {
							Content          *string           `json:"content"`
							ReasoningContent string            `json:"reasoning_content"`
							ToolCalls        []json.RawMessage `json:"tool_calls"`
						}
					}
				}
				must(json.Unmarshal(answer, &a))
				m := a.Choices[0].Message
				if m.Content != nil {
					text = *m.Content
				}
				call, _ := json.Marshal(m.ToolCalls)
				replay := `{"role":"assistant","content":` + quoted(text) + `,"tool_calls":` + string(call)
				if reasoning {
					replay += `,"reasoning_content":` + quoted(m.ReasoningContent)
				}
				items = append(items, replay+"}")
				for _, value := range m.ToolCalls {
					items = append(items, `{"role":"tool","tool_call_id":`+member(value, "id")+`,"content":"result"}`)
				}
				return items, len(m.ToolCalls), text
			},
		}
	}
	return map[string]history{
		"chat":     chat("gpt-5.5", false),
		"deepseek": chat("deepseek-v4-pro", true),
		"responses": {
			url: "/v1/responses",
			body: func(items []string) string {
				return `{"model":"gpt-5.5","store":false,"include":["reasoning.encrypted_content"],"input":[` + strings.Join(items, ",") + `],"tools":[{"type":"function","name":"read","parameters":null,"strict":false},{"type":"function","name":"stat","parameters":null,"strict":false}]}`
			},
			first: `{"role":"user","content":` + quoted(loopScript) + `}`,
			next: func(answer []byte) (items []string, calls int, text string) {
				var a struct{ Output []json.RawMessage }
				must(json.Unmarshal(answer, &a))
				var results []string
				for _, item := range a.Output {
					items = append(items, string(item))
					switch member(item, "type") {
					case `"function_call"`:
						results = append(results, `{"type":"function_call_output","call_id":`+member(item, "call_id")+`,"output":"result"}`)
					case `"message"`:
						var m struct{ Content []struct{ Text string } }
						must(json.Unmarshal(item, &m))
						text += m.Content[0].Text
					}
				}
				return append(items, results...), len(results), text
			},
		},
		"messages": {
			url: "/v1/messages",
			body: func(items []string) string {
				return `{"model":"claude-opus-4-5","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":2000},"messages":[` + strings.Join(items, ",") + `],"tools":[{"name":"read","input_schema":{"type":"object"}},{"name":"stat","input_schema":{"type":"object"}}]}`
			},
			first: `{"role":"user","content":` + quoted(loopScript) + `}`,
			next: func(answer []byte) (items []string, calls int, text string) {
				var a struct{ Content []json.RawMessage }
				must(json.Unmarshal(answer, &a))
				var blocks, results []string
				for _, block := range a.Content {
					switch member(block, "type") {
					case `"tool_use"`:
						results = append(results, `{"type":"tool_result","tool_use_id":`+member(block, "id")+`,"content":"result"}`)
					case `"text"`:
						text += strings.Trim(member(block, "text"), `"`)
					}
					blocks = append(blocks, string(block))
				}
				// a reminder after the results, as coding agents send it
				results = append(results, `{"type":"text","text":"<reminder>be quick</reminder>"}`)
				return []string{
					`{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`,
					`{"role":"user","content":[` + strings.Join(results, ",") + `]}`,
				}, len(results) - 1, text
			},
		},
		"gemini": {
			url: "/v1beta/models/gemini-3.8-flash:generateContent",
			body: func(items []string) string {
				return `{"contents":[` + strings.Join(items, ",") + `],"tools":[{"functionDeclarations":[` + strings.ReplaceAll(functions, "PARAMETERS", "parametersJsonSchema") + `]}]}`
			},
			first: `{"role":"user","parts":[{"text":` + quoted(loopScript) + `}]}`,
			next: func(answer []byte) (items []string, calls int, text string) {
				var a struct {
					Candidates []struct {
						Content struct{ Parts []json.RawMessage }
					}
				}
				must(json.Unmarshal(answer, &a))
				var parts, results []string
				for _, part := range a.Candidates[0].Content.Parts {
					if call := member(part, "functionCall"); call != "" {
						results = append(results, `{"functionResponse":{"id":`+member([]byte(call), "id")+`,"name":`+member([]byte(call), "name")+`,"response":{"output":"result"}}}`)
					} else if member(part, "thought") == "" {
						text += strings.Trim(member(part, "text"), `"`)
					}
					parts = append(parts, string(part))
				}
				return []string{
					`{"role":"model","parts":[` + strings.Join(parts, ",") + `]}`,
					`{"role":"user","parts":[` + strings.Join(results, ",") + `]}`,
				}, len(results), text
			},
		},
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// member returns a member as written, "" when it is missing.
func member(value []byte, name string) string {
	var all map[string]json.RawMessage
	must(json.Unmarshal(value, &all))
	return string(all[name])
}

// An agent that replays everything it got is let through by the strictest checks, and the script goes on with
// every tool result.
func TestToolLoopPlaysOneStepPerTurn(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	for name, h := range loops() {
		t.Run(name, func(t *testing.T) {
			items := []string{h.first}
			for step, want := range []struct {
				calls int
				text  string
			}{{2, ""}, {1, ""}, {0, "Found."}} {
				resp, body, err := send(t, s.URL()+h.url, strings.Replace(h.body(items), `"thinking":{"type":"enabled","budget_tokens":2000},`, thinkingFor(step), 1))
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("step %d: %v %s", step, err, body)
				}
				added, calls, text := h.next([]byte(body))
				if calls != want.calls || text != want.text {
					t.Errorf("step %d: %d calls and text %q, want %d and %q", step, calls, text, want.calls, want.text)
				}
				items = append(items, added...)
			}
		})
	}
}

// thinkingFor switches the thinking of Messages off for the last step, whose turn has none to replay.
func thinkingFor(step int) string {
	if step == 2 {
		return ""
	}
	return `"thinking":{"type":"enabled","budget_tokens":2000},`
}

func TestWithoutAScriptTheAnswerSaysWhatItIs(t *testing.T) {
	s := start(t, provider.Options{})
	for _, sp := range speakers {
		got, err := sp.complete(context.Background(), s.URL(), "What is the time? "+strings.Repeat("x", 200))
		if err != nil || !strings.Contains(got.Text, "simulated provider of mneme, not a model") || !strings.Contains(got.Text, "What is the time? xxx") || len(got.Text) > 250 {
			t.Errorf("%s: %v %q", sp.name, err, got.Text)
		}
	}
	_, body, err := send(t, s.URL()+"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"go"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}]}`)
	if err != nil || !strings.Contains(body, "Tool results received: 1.") {
		t.Errorf("after a tool result: %v %s", err, body)
	}
}

func TestScriptBelongsToTheNewestPrompt(t *testing.T) {
	s := start(t, provider.Options{})
	script := `{"role":"user","content":"[[sim: text \"scripted\" ; then ; text \"second\"]]"}`
	called := `,{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r"}`
	for _, test := range []struct{ name, messages, want string }{
		{"alone", script, "scripted"},
		{"with a reminder behind it", script + `,{"role":"user","content":"a reminder"},{"role":"system","content":"a note"}`, "scripted"},
		{"behind an environment note", `{"role":"user","content":"a note"},` + script, "scripted"},
		{"answered once", script + called, "second"},
		{"answered once, with a picture behind the result", script + called + `,{"role":"user","content":"a picture"}`, "second"},
		{"answered more often than it has steps", script + called + called, "Tool results received: 2."},
		{"behind reminders", `{"role":"user","content":"<system-reminder>\nthe date</system-reminder>\n<env>linux</env>\nwhat is the time?"}`, "You wrote: what is the time?"},
		{"of reminders alone", `{"role":"user","content":"<system-reminder>the date</system-reminder>"}`, "You wrote: \u003csystem-reminder"},
		{"of an earlier prompt", script + `,{"role":"assistant","content":"x"},{"role":"user","content":"something else"}`, "You wrote: something else"},
		{"two scripts", script + `,{"role":"assistant","content":"x"},{"role":"user","content":"[[sim: text \"newer\"]]"}`, "newer"},
	} {
		_, body, err := send(t, s.URL()+"/v1/chat/completions", `{"model":"m","messages":[`+test.messages+`]}`)
		if err != nil || !strings.Contains(body, test.want) {
			t.Errorf("%s: %v %s\nwant %s", test.name, err, body, test.want)
		}
	}
}

func TestStructuredOutputFitsTheSchema(t *testing.T) {
	schema := `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer","minimum":3},"kind":{"enum":["b","c"]},"tags":{"type":"array","items":{"type":"string"}}},"required":["name","n","kind","tags"],"additionalProperties":false}`
	want := `{"name":"simulated","n":3,"kind":"b","tags":[]}`
	s := start(t, provider.Options{})
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"gpt-5.5","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":` + schema + `}}}`,
		"/v1/responses":        `{"model":"gpt-5.5","input":"x","text":{"format":{"type":"json_schema","name":"s","schema":` + schema + `}}}`,
		"/v1/messages":         `{"model":"claude-opus-5","max_tokens":9,"messages":[{"role":"user","content":"x"}],"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
		"/v1beta/models/gemini-3-pro:generateContent": `{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":` + schema + `}}`,
	} {
		_, answer, err := send(t, s.URL()+path, body)
		if err != nil || !strings.Contains(answer, strings.Trim(quoted(want), `"`)) {
			t.Errorf("%s: %v %s", path, err, answer)
		}
	}
}

func TestPreviousResponseGoesOnWithTheScript(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	ask := func(body string) (id, call, answer string) {
		_, answer, err := send(t, s.URL()+"/v1/responses", body)
		must(err)
		var r struct {
			ID     string
			Output []struct {
				CallID string `json:"call_id"`
			}
		}
		must(json.Unmarshal([]byte(answer), &r))
		if len(r.Output) > 0 {
			call = r.Output[0].CallID
		}
		return r.ID, call, answer
	}
	tools := `,"tools":[{"type":"function","name":"read","parameters":null,"strict":false}]}`
	id, call, _ := ask(`{"model":"gpt-5.5","input":` + quoted(`[[sim: call read {} ; then ; text "after the result"]]`) + tools)
	_, _, answer := ask(`{"model":"gpt-5.5","previous_response_id":"` + id + `","input":[{"type":"function_call_output","call_id":"` + call + `","output":"r"}]` + tools)
	if !strings.Contains(answer, "after the result") {
		t.Errorf("the second answer is %s", answer)
	}
	if _, _, answer = ask(`{"model":"gpt-5.5","previous_response_id":"` + id + `","input":"never mind"` + tools); !strings.Contains(answer, "No tool output found for function call "+call) {
		t.Errorf("an open call is forgotten: %s", answer)
	}
	if _, _, answer = ask(`{"model":"gpt-5.5","previous_response_id":"resp_lost","input":"x"}`); !strings.Contains(answer, "previous_response_not_found") {
		t.Errorf("a lost chain gives %s", answer)
	}
}

func TestATriggerCompactsTheConversation(t *testing.T) {
	url := start(t, provider.Options{Strict: true}).URL() + "/v1/responses"
	for _, stream := range []string{"false", "true"} {
		_, answer, err := send(t, url, `{"model":"gpt-5.5","stream":`+stream+`,"store":false,"input":[{"role":"user","content":"[[sim: text \"x\"]]"},{"type":"compaction_trigger"}]}`)
		if err != nil || !strings.Contains(answer, `"type":"compaction","encrypted_content":"`) || strings.Contains(answer, `"type":"message"`) {
			t.Errorf("%v %s", err, answer)
		}
	}
}

func TestGeminiContinuesAnUnfinishedAnswer(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	ctx := context.Background()
	client, err := geminiClient(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	prompt := `[[sim: text "one " ; stop pause ; then ; text "two " ; stop pause ; then ; text "three"]]`
	text, token := "", ""
	for hop := range 3 {
		body := `{"contents":[{"role":"user","parts":[{"text":` + quoted(prompt) + `}]}]`
		if token != "" {
			body += `,"continuationToken":"` + token + `"`
		}
		_, answer, err := send(t, s.URL()+"/v1beta/models/gemini-4-argon:generateContent", body+"}")
		if err != nil {
			t.Fatal(err)
		}
		var a struct {
			Candidates []struct {
				Content           struct{ Parts []struct{ Text string } }
				FinishReason      string
				ContinuationToken string
			}
		}
		must(json.Unmarshal([]byte(answer), &a))
		text += a.Candidates[0].Content.Parts[0].Text
		token = a.Candidates[0].ContinuationToken
		if want := []string{"CONTINUATION", "CONTINUATION", "STOP"}[hop]; a.Candidates[0].FinishReason != want {
			t.Errorf("hop %d ends with %s", hop, answer)
		}
	}
	if text != "one two three" || token != "" {
		t.Errorf("the hops make %q, the last token is %q", text, token)
	}
	count, err := client.Models.CountTokens(ctx, "gemini-4-argon", genai.Text("how many"), nil)
	if err != nil || count.TotalTokens == 0 {
		t.Errorf("countTokens: %v %v", err, count)
	}
}

func TestMalformedCalls(t *testing.T) {
	s := start(t, provider.Options{})
	for _, stream := range []bool{false, true} {
		_, body, err := ask(t, s, endpoints[3], `call read "{\"path\":"`, stream)
		if err != nil || !strings.Contains(body, `"finishReason":"MALFORMED_FUNCTION_CALL"`) || strings.Contains(body, "functionCall\"") {
			t.Errorf("gemini: %v %s", err, body)
		}
		_, body, err = ask(t, s, endpoints[0], `call read "{\"path\":"`, stream)
		if err != nil || !strings.Contains(body, `{\"path\":`) || !strings.Contains(body, `"finish_reason":"tool_calls"`) {
			t.Errorf("chat: %v %s", err, body)
		}
		_, body, err = ask(t, s, endpoints[1], `stop malformed`, stream)
		if err != nil || !strings.Contains(body, `"status":"failed"`) {
			t.Errorf("responses: %v %s", err, body)
		}
	}
}

func TestModelListsInEveryShape(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	ctx := context.Background()
	list, err := ptr(openaiClient(s.URL())).Models.List(ctx)
	if err != nil || len(list.Data) == 0 || list.Data[0].ID == "" {
		t.Errorf("openai: %v %v", err, list)
	}
	gemini, err := geminiClient(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	for model, err := range gemini.Models.All(ctx) {
		if err != nil || !strings.HasPrefix(model.Name, "models/gemini") {
			t.Errorf("gemini: %v %v", err, model)
		}
	}
	resp, body, err := get(t, s.URL()+"/v1/models", "Anthropic-Version", "2023-06-01")
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, `"first_id":"claude-`) || strings.Contains(body, "gpt") {
		t.Errorf("anthropic: %v %s", err, body)
	}
	if _, body, _ = get(t, s.URL()+"/models", "Authorization", "Bearer x"); !strings.Contains(body, "deepseek-v4-pro") {
		t.Errorf("deepseek: %s", body)
	}
}

func ptr(c openai.Client) *openai.Client { return &c }

func TestTokenCounts(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	_, body, err := send(t, s.URL()+"/v1/messages/count_tokens", `{"model":"claude-opus-5","messages":[{"role":"user","content":"hello"}]}`)
	if err != nil || !strings.HasPrefix(body, `{"input_tokens":`) {
		t.Errorf("%v %s", err, body)
	}
	if _, body, _ = send(t, s.URL()+"/v1/messages/count_tokens", `{"model":"claude-opus-5","max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`); !strings.Contains(body, "max_tokens: Extra inputs") {
		t.Errorf("max_tokens is taken: %s", body)
	}
}
