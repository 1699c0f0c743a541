package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/openai/openai-go/v3/packages/param"
	openairesponses "github.com/openai/openai-go/v3/responses"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// others are models whose providers compact nothing themselves.
var others = []string{"claude-opus-4-8", "gemini-2.5-pro", "deepseek-flash"}

const history = `{"type":"message","role":"user","content":"The word is quokka."},
	{"type":"message","role":"assistant","content":"Noted."},
	{"type":"message","role":"user","content":[{"type":"input_text","text":"The number is nine."}]}`

// summarizing lets the simulated model write a summary.
func summarizing(p *plan) { p.provider.Script = "" }

func TestAConversationIsCompactedAndGoesOnWithAnyModel(t *testing.T) {
	h := build(t, summarizing)
	for _, model := range families {
		compacted := h.post("/v1/responses/compact", fmt.Sprintf(`{"model":%q,"input":[%s]}`, model, history))
		if compacted.status != http.StatusOK || member(compacted.body, "object") != "response.compaction" {
			t.Fatalf("%s: %d %s", model, compacted.status, compacted.body)
		}
		for _, part := range []string{"quokka", "nine", `"type":"compaction","encrypted_content":"`, `"total_tokens":`, `"created_at":`} {
			if !strings.Contains(compacted.body, part) {
				t.Errorf("%s: the compacted conversation lacks %s: %s", model, part, compacted.body)
			}
		}
		if strings.Contains(compacted.body, `"Noted."`) {
			t.Errorf("%s: the compacted conversation has what the model said: %s", model, compacted.body)
		}
		_, list, _ := strings.Cut(compacted.body, `"output":[`)
		list, _, _ = strings.Cut(list, `],"usage"`)
		for _, next := range others {
			a := h.post("/v1/responses", fmt.Sprintf(`{"model":%q,"input":[%s,{"type":"message","role":"user","content":"Go on."}]}`, next, list))
			if model == responses.model { // what OpenAI has sealed opens for OpenAI only
				continue
			}
			if sent := string(h.upstream().Body); a.status != http.StatusOK || !strings.Contains(sent, "This is its summary") || strings.Contains(sent, "sv1.") {
				t.Errorf("%s goes on for %s: %d %s\n%s", next, model, a.status, a.body, sent)
			}
		}
		if model != responses.model {
			if a := h.post("/v1/responses", fmt.Sprintf(`{"model":"gpt-5.5","input":[%s,{"type":"message","role":"user","content":"Go on."}]}`, list)); a.status != http.StatusOK || strings.Contains(string(h.upstream().Body), "sv1.") {
				t.Errorf("gpt-5.5 goes on for %s: %d %s", model, a.status, h.upstream().Body)
			}
			h.account("other" + strings.ReplaceAll(model, ".", "-"))
			stranger := h.createKey("other"+strings.ReplaceAll(model, ".", "-"), store.ScopeWrite)
			if a := h.post("/v1/responses", fmt.Sprintf(`{"model":"claude-opus-4-8","input":[%s]}`, list), "Authorization", "Bearer "+stranger); a.status != http.StatusBadRequest {
				t.Errorf("another account opens the summary: %d %s", a.status, a.body)
			}
		}
	}
}

func TestATriggerIsAnsweredWithOneCompaction(t *testing.T) {
	h := build(t, summarizing)
	client := h.openai()
	for _, model := range others {
		body := fmt.Sprintf(`"model":%q,"store":false,"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}],"input":[%s,{"type":"compaction_trigger"}]}`, model, history)
		whole := h.post("/v1/responses", `{`+body)
		if whole.status != http.StatusOK || strings.Count(whole.body, `"type":"compaction"`) != 1 || strings.Contains(whole.body, `"type":"message"`) {
			t.Fatalf("%s: %d %s", model, whole.status, whole.body)
		}
		if sent := string(h.upstream().Body); strings.Contains(sent, "compaction_trigger") || !strings.Contains(sent, "quokka") || !strings.Contains(sent, "Compact this conversation") {
			t.Errorf("%s is asked %s", model, sent)
		}
		if x := h.settled(whole.exchange()); x.Auxiliary != record.AuxiliarySummary {
			t.Errorf("%s: on record as %q", model, x.Auxiliary)
		}
		stream := h.post("/v1/responses", `{"stream":true,`+body)
		var got []string
		for line := range strings.SplitSeq(stream.body, "\n") {
			if data, isData := strings.CutPrefix(line, "data: "); isData {
				got = append(got, member(data, "type"))
			}
		}
		want := "[response.created response.in_progress response.output_item.added response.output_item.done response.completed]"
		if fmt.Sprint(got) != want {
			t.Errorf("%s: the events are %v", model, got)
		}
		w := h.socket(websocket.Dialer{})
		id := w.completed(`{"type":"response.create",` + body)
		w.completed(create(model, sim("Go on.", "Yes."), unstored, previous(id)))
		if sent := string(h.upstream().Body); !strings.Contains(sent, "This is its summary") || strings.Contains(sent, "quokka") {
			t.Errorf("%s goes on with %s", model, sent)
		}
		sdk, err := client.Responses.Compact(t.Context(), openairesponses.ResponseCompactParams{
			Model: openairesponses.ResponseCompactParamsModel(model), Input: openairesponses.ResponseCompactParamsInputUnion{OfString: param.NewOpt("Hello.")},
		})
		ok(t, err)
		if n := len(sdk.Output); n != 2 || sdk.Output[n-1].Type != "compaction" || sdk.Usage.TotalTokens == 0 {
			t.Errorf("%s: the SDK reads %s", model, sdk.RawJSON())
		}
	}
}

func TestAResponseWithACompactionIsReadAgainAsItWas(t *testing.T) {
	h := build(t, summarizing)
	for _, model := range others {
		made := h.post("/v1/responses", fmt.Sprintf(`{"model":%q,"input":[%s,{"type":"compaction_trigger"}]}`, model, history))
		h.settled(made.exchange())
		again := h.do(http.MethodGet, "/v1/responses/"+member(made.body, "id"), "", "Authorization", "Bearer "+h.key)
		if again.status != http.StatusOK || again.body != made.body {
			t.Errorf("%s: %d %s\nwant %s", model, again.status, again.body, made.body)
		}
	}
}

func TestAFailedCompactionIsAnsweredWithItsError(t *testing.T) {
	h := build(t)
	for _, c := range []struct{ script, want string }{{"error 429", "429"}, {"empty", "502"}} {
		body := fmt.Sprintf(`{"model":"claude-opus-4-8 [[sim: %s]]","input":[%s]}`, c.script, history)
		if a := h.post("/v1/responses/compact", body); fmt.Sprint(a.status) != c.want || errorMessage(a.body) == "" {
			t.Errorf("%s: %d %s", c.script, a.status, a.body)
		}
	}
	for _, body := range []string{`{}`, `{"model":"claude-opus-4-8","input":7}`, `{"model":"claude-opus-4-8","input":[{"type":"compaction","encrypted_content":"sv1.x.changed"}]}`} {
		if a := h.post("/v1/responses/compact", body); a.status != http.StatusBadRequest || errorMessage(a.body) == "" {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
}
