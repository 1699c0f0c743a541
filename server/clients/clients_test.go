package clients

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

type headers http.Header

func (h headers) Header(name string) string { return http.Header(h).Get(name) }

func request(t *testing.T, surface codec.Format, body string, fields ...string) *Request {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Set(fields[i], fields[i+1])
	}
	r := &Request{Headers: headers(h), Surface: surface, Body: []byte(body), Envelope: new(codec.Envelope)}
	if err := r.Envelope.Read(r.Body); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEachClientNamesItsConversationInItsOwnWay(t *testing.T) {
	for _, c := range []struct {
		who  string
		r    *Request
		want Hints
	}{
		{
			"a subagent of Claude Code", request(t, codec.Messages, `{"model":"m","messages":[]}`,
				"X-Claude-Code-Session-Id", "s1", "X-Claude-Code-Agent-Id", "a1", "X-Claude-Code-Parent-Agent-Id", "a0"),
			Hints{Session: "s1", Agent: "a1", Parent: "a0"},
		},
		{
			"Claude Code, in its metadata",
			request(t, codec.Messages, `{"model":"m","messages":[],"metadata":{"user_id":"{\"session_id\":\"s2\"}"}}`),
			Hints{Session: "s2"},
		},
		{
			"an older Claude Code", request(t, codec.Messages, `{"model":"m","messages":[],"metadata":{"user_id":"user_1_session_s3"}}`),
			Hints{Session: "s3"},
		},
		{
			"a subagent of Codex that warms its cache", request(t, codec.Responses, `{"model":"m","input":[]}`,
				"Session-Id", "s4", "X-Codex-Turn-Metadata", `{"thread_id":"t4","request_kind":"prewarm"}`),
			Hints{Session: "s4", Agent: "t4", Auxiliary: record.AuxiliaryPrewarm},
		},
		{
			"a turn of Codex on a connection that it opened to warm its cache", request(t, codec.Responses,
				`{"model":"m","input":[],"client_metadata":{"x-codex-turn-metadata":"{\"session_id\":\"s4\",\"thread_id\":\"t4\",\"request_kind\":\"turn\"}"}}`,
				"Session-Id", "s4", "X-Codex-Turn-Metadata", `{"thread_id":"s4","request_kind":"prewarm"}`),
			Hints{Session: "s4", Agent: "t4"},
		},
		{
			"Codex, by its prompt cache key", request(t, codec.Responses, `{"model":"m","input":[],"prompt_cache_key":"s5"}`, "Originator", "codex_exec"),
			Hints{Session: "s5"},
		},
		{
			"another program's prompt cache key", request(t, codec.Responses, `{"model":"m","input":[],"prompt_cache_key":"all"}`),
			Hints{},
		},
		{"opencode", request(t, codec.Chat, `{"model":"m","messages":[]}`, "X-Session-Affinity", "ses_6"), Hints{Session: "ses_6"}},
		{"an id that cannot be kept", request(t, codec.Chat, `{"model":"m","messages":[]}`, "X-Session-Id", "a\tb"), Hints{}},
	} {
		if got := c.r.Hints(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.who, got, c.want)
		}
	}
}

func TestRequestsForTitlesAndSummariesAreNoTurns(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","messages":[{"role":"system","content":"You are a title generator."},{"role":"user","content":"hi"}]}`:                                                                                                                                                                                                                       record.AuxiliaryTitle,
		`{"model":"m","messages":[{"role":"user","content":"Your task is to create a detailed summary of the conversation so far"},{"role":"system","content":"A hook said so."}]}`:                                                                                                                                                                record.AuxiliarySummary,
		`{"model":"m","messages":[{"role":"user","content":"Your task is to create a detailed summary of the conversation so far"}]}`:                                                                                                                                                                                                              record.AuxiliarySummary,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + strings.Repeat("result ", 200) + `"},{"type":"text","text":"Text only. ` + strings.Repeat("No tools. ", 35) + `Your task is to create a detailed summary of the conversation so far","cache_control":{"type":"ephemeral"}}]}]}`: record.AuxiliarySummary,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"It said \"text\": ` + strings.Repeat("words ", 100) + `your task is to create a detailed summary of the conversation"}]}]}`:                                                                                                                                     "",
		`{"model":"m","tools":[{}],"messages":[{"role":"system","content":"You are a title generator."},{"role":"user","content":"hi"}]}`:                                                                                                                                                                                                          "",
		`{"systemInstruction":{"parts":[{"text":"You are a specialized system component responsible for distilling chat history into a structured XML <state_snapshot>."}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`:                                                                                                                 record.AuxiliarySummary,
		`{"model":"m","messages":[{"role":"user","content":"What is a title generator?"}]}`:                                                                                                                                                                                                                                                        "",
	} {
		if got := request(t, codec.Chat, body).Auxiliary(); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
