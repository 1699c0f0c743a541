package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	openairesponses "github.com/openai/openai-go/v3/responses"

	"github.com/mnemeproxy/mneme/bench/published"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// families has a model of each.
var families = []string{"gpt-5.5", "claude-opus-4-8", "gemini-2.5-pro", "deepseek-flash"}

// A client gets back what it was answered, by the id alone, from any model; what the model was given is listed; and what it
// deletes is out of the memory.
func TestTheRecordIsTheStoreOfResponses(t *testing.T) {
	h := build(t)
	h.key = h.createKey("acme", store.ScopeWrite|store.ScopeErase)
	client := h.openai()
	for _, model := range families {
		t.Run(model, func(t *testing.T) {
			first, err := client.Responses.New(t.Context(), asked(model, sim("The word is quokka.", "Noted.")))
			ok(t, err)
			second := asked(model, sim("And the number is nine.", "Noted, too."))
			second.PreviousResponseID = param.NewOpt(first.ID)
			stream := client.Responses.NewStreaming(t.Context(), second)
			var events []openairesponses.ResponseStreamEventUnion
			for stream.Next() {
				events = append(events, stream.Current())
			}
			ok(t, stream.Err())
			streamed := events[len(events)-1].Response

			for _, answered := range []openairesponses.Response{*first, streamed} {
				got, err := client.Responses.Get(t.Context(), answered.ID, openairesponses.ResponseGetParams{})
				ok(t, err)
				if got.RawJSON() != answered.RawJSON() {
					t.Errorf("got back is\n%s\nwant\n%s", got.RawJSON(), answered.RawJSON())
				}
			}
			again := client.Responses.GetStreaming(t.Context(), streamed.ID, openairesponses.ResponseGetParams{StartingAfter: param.NewOpt(events[2].SequenceNumber)})
			replayed := 3
			for ; again.Next(); replayed++ {
				if got := again.Current(); replayed >= len(events) || got.RawJSON() != events[replayed].RawJSON() {
					t.Fatalf("event %d is replayed as %s", replayed, got.RawJSON())
				}
			}
			ok(t, again.Err())
			if replayed != len(events) {
				t.Errorf("%d events are replayed up to, want %d", replayed, len(events))
			}

			page, err := client.Responses.InputItems.List(t.Context(), streamed.ID, openairesponses.InputItemListParams{Order: "asc", Limit: param.NewOpt(int64(2))})
			ok(t, err)
			said := page.RawJSON()
			for err == nil && page != nil {
				if page, err = page.GetNextPage(); page != nil {
					said += page.RawJSON()
				}
			}
			ok(t, err)
			for _, part := range []string{"quokka", "Noted.", "number is nine"} {
				before, _, found := strings.Cut(said, part)
				if !found || strings.Contains(before, "number is nine") {
					t.Errorf("the items lack %q, or are out of order:\n%s", part, said)
				}
			}

			count, err := client.Responses.InputTokens.Count(t.Context(), openairesponses.InputTokenCountParams{
				Model: param.NewOpt(model), Input: openairesponses.InputTokenCountParamsInputUnion{OfString: param.NewOpt(strings.Repeat("word ", 100))},
			})
			ok(t, err)
			if count.InputTokens < 50 || count.InputTokens > 500 {
				t.Errorf("a hundred words are %d tokens", count.InputTokens)
			}

			ok(t, client.Responses.Delete(t.Context(), first.ID))
			if _, err := client.Responses.Get(t.Context(), first.ID, openairesponses.ResponseGetParams{}); statusOf(err) != http.StatusNotFound {
				t.Errorf("a deleted response is still there: %v", err)
			}
			if _, err := client.Responses.Cancel(t.Context(), streamed.ID); statusOf(err) != http.StatusBadRequest {
				t.Errorf("a response that has ended is cancelled: %v", err)
			}
		})
	}
}

func TestResponsesAreWithinTheirAccountAndKey(t *testing.T) {
	h := build(t)
	h.account("other")
	id := responseID(t, h.post("/v1/responses", responses.body(`text "Secret."`, false)))
	stream := responseID(t, h.post("/v1/responses", responses.body(`text "Secret."`, true)))
	unstored := responseID(t, h.post("/v1/responses", with(responses.body(`text "Secret."`, false), `"store":false`)))
	chatAnswer := h.post("/v1/chat/completions", chat.body(`text "Secret."`, false))
	get := func(key, path string) *answer { return h.do(http.MethodGet, path, "", "Authorization", "Bearer "+key) }
	for _, c := range []struct {
		name, key, path string
		want            int
	}{
		{"its own key", h.key, "/v1/responses/" + id, http.StatusOK},
		{"a key that reads", h.createKey("acme", store.ScopeRead), "/v1/responses/" + id, http.StatusOK},
		{"another key that writes", h.createKey("acme", store.ScopeWrite), "/v1/responses/" + id, http.StatusForbidden},
		{"another account", h.createKey("other", store.AllScopes), "/v1/responses/" + id, http.StatusNotFound},
		{"another account's items", h.createKey("other", store.AllScopes), "/v1/responses/" + id + "/input_items", http.StatusNotFound},
		{"no key", "", "/v1/responses/" + id, http.StatusUnauthorized},
		{"not stored", h.key, "/v1/responses/" + unstored, http.StatusNotFound},
		{"another surface", h.key, "/v1/responses/resp_" + strings.TrimPrefix(chatAnswer.exchange(), "exch_"), http.StatusNotFound},
		{"no id", h.key, "/v1/responses/resp_nothing", http.StatusNotFound},
		{"not streamed", h.key, "/v1/responses/" + id + "?stream=true", http.StatusBadRequest},
		{"no event", h.key, "/v1/responses/" + stream + "?stream=true&starting_after=-1", http.StatusBadRequest},
		{"no limit", h.key, "/v1/responses/" + id + "/input_items?limit=0", http.StatusBadRequest},
		{"no order", h.key, "/v1/responses/" + id + "/input_items?order=up", http.StatusBadRequest},
		{"no item", h.key, "/v1/responses/" + id + "/input_items?after=msg_1", http.StatusBadRequest},
	} {
		a := get(c.key, c.path)
		if a.status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, a.status, a.body, c.want)
		}
		if a.status >= 400 && (len(published.Error(codec.Responses, []byte(a.body))) > 0 || strings.Contains(a.body, "Secret")) {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
	for _, c := range []struct {
		name string
		key  string
		want int
	}{
		{"without erase", h.key, http.StatusForbidden},
		{"of another account", h.createKey("other", store.AllScopes), http.StatusNotFound},
		{"with all", h.createKey("acme", store.AllScopes), http.StatusOK},
	} {
		if a := h.do(http.MethodDelete, "/v1/responses/"+id, "", "Authorization", "Bearer "+c.key); a.status != c.want {
			t.Errorf("deleted %s: %d %s, want %d", c.name, a.status, a.body, c.want)
		}
	}
}

// An answer that broke off, or was refused, has a state, and is never shown as complete.
func TestAnswersThatNeverCameHaveAState(t *testing.T) {
	h := build(t)
	for script, want := range map[string]string{
		`error 500`:                `"status":"failed"`,
		`text "half" ; cut`:        `"status":"failed"`,
		`text "cut" ; stop length`: `"status":"incomplete"`,
	} {
		for _, model := range families[:2] {
			body := strings.Replace(responses.body(script, true), responses.model, model, 1)
			a := h.post("/v1/responses", body)
			h.settled(a.exchange())
			got := h.do(http.MethodGet, "/v1/responses/resp_"+strings.TrimPrefix(a.exchange(), "exch_"), "", "Authorization", "Bearer "+h.key)
			if got.status != http.StatusOK || !strings.Contains(got.body, want) || strings.Contains(got.body, `"status":"completed"`) && want != `"status":"incomplete"` {
				t.Errorf("%s of %s: %d %s, want %s", script, model, got.status, got.body, want)
			}
		}
	}
}

// A response in the background is made without its client, which polls it, for every family alike.
func TestAResponseInTheBackgroundIsPolled(t *testing.T) {
	h := build(t)
	client := h.openai()
	for _, model := range families {
		t.Run(model, func(t *testing.T) {
			question := asked(model, sim("Think for long.", "Done."))
			question.Background = param.NewOpt(true)
			begun, err := client.Responses.New(t.Context(), question)
			ok(t, err)
			if begun.Status != openairesponses.ResponseStatusQueued || !begun.Background {
				t.Errorf("it begins as %s", begun.RawJSON())
			}
			var got *openairesponses.Response
			eventually(t, func() error {
				if got, err = client.Responses.Get(t.Context(), begun.ID, openairesponses.ResponseGetParams{}); err == nil && got.Status != openairesponses.ResponseStatusCompleted {
					err = fmt.Errorf("it is %s", got.Status)
				}
				return err
			})
			if got.ID != begun.ID || got.OutputText() != "Done." || !got.Background {
				t.Errorf("it ends as %s", got.RawJSON())
			}
			if strings.Contains(string(h.upstream().Body), "background") {
				t.Errorf("the provider is asked for the background: %s", h.upstream().Body)
			}
			next := asked(model, "What was that?")
			next.PreviousResponseID = param.NewOpt(begun.ID)
			_, err = client.Responses.New(t.Context(), next)
			ok(t, err)
			if said := string(h.upstream().Body); !strings.Contains(said, "Think for long.") || !strings.Contains(said, "Done.") {
				t.Errorf("it is not continued: %s", said)
			}
		})
	}
}

func TestAResponseInTheBackgroundIsCancelled(t *testing.T) {
	h := build(t)
	client := h.openai()
	for _, model := range families {
		question := asked(model, `Think. [[sim: delay header=1h first=1h ; text "Done."]]`)
		question.Background = param.NewOpt(true)
		begun, err := client.Responses.New(t.Context(), question)
		ok(t, err)
		got, err := client.Responses.Get(t.Context(), begun.ID, openairesponses.ResponseGetParams{})
		ok(t, err)
		if got.Status != openairesponses.ResponseStatusInProgress || got.ID != begun.ID {
			t.Errorf("%s is being made as %s", model, got.RawJSON())
		}
		if err := client.Responses.Delete(t.Context(), begun.ID, openaioption.WithAPIKey(h.createKey("acme", store.AllScopes)), openaioption.WithMaxRetries(0)); statusOf(err) != http.StatusConflict {
			t.Errorf("%s is deleted while it is being made: %v", model, err)
		}
		for range 2 {
			got, err = client.Responses.Cancel(t.Context(), begun.ID)
			ok(t, err)
			if got.Status != openairesponses.ResponseStatusCancelled || got.ID != begun.ID {
				t.Errorf("%s is cancelled as %s", model, got.RawJSON())
			}
		}
	}
	eventually(t, func() error {
		if open := h.provider.Open(); open > 0 {
			return fmt.Errorf("%d requests are still open at the provider", open)
		}
		return nil
	})
}

// A stream in the background goes on when its client has left, which reads the rest later.
func TestAStreamInTheBackgroundIsFollowedFromWhereItsClientLeft(t *testing.T) {
	h := build(t)
	client := h.openai()
	for _, model := range families {
		t.Run(model, func(t *testing.T) {
			question := asked(model, `Speak. [[sim: delay 5ms ; size 2 ; text "one two three four five six seven eight nine ten"]]`)
			question.Background = param.NewOpt(true)
			ctx, leave := context.WithCancel(t.Context())
			stream := client.Responses.NewStreaming(ctx, question)
			var id string
			var seen int64
			for range 4 {
				if !stream.Next() {
					t.Fatalf("it ends after %d events: %v", seen, stream.Err())
				}
				seen = stream.Current().SequenceNumber
				if id == "" {
					id = stream.Current().Response.ID
				}
			}
			leave()
			rest := client.Responses.GetStreaming(t.Context(), id, openairesponses.ResponseGetParams{StartingAfter: param.NewOpt(seen)})
			var last openairesponses.ResponseStreamEventUnion
			for rest.Next() {
				if last = rest.Current(); last.SequenceNumber <= seen {
					t.Fatalf("event %d comes again, after %d", last.SequenceNumber, seen)
				}
				seen = last.SequenceNumber
			}
			ok(t, rest.Err())
			if last.Type != "response.completed" || last.Response.OutputText() != "one two three four five six seven eight nine ten" {
				t.Errorf("it ends with %s", last.RawJSON())
			}
			if got, err := client.Responses.Get(t.Context(), id, openairesponses.ResponseGetParams{}); err != nil || got.Status != openairesponses.ResponseStatusCompleted {
				t.Errorf("it is on record as %v, %v", got, err)
			}
		})
	}
}

func TestADrainEndsWhatRunsInTheBackground(t *testing.T) {
	h := build(t, func(p *plan) { p.server.DrainTimeout = time.Millisecond })
	a := h.post("/v1/responses", with(responses.body(`delay header=1h ; text "Done."`, false), `"background":true`))
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := h.stop(); !errors.Is(err, server.ErrAborted) {
		t.Errorf("the server ended with %v", err)
	}
	if x := h.settled(a.exchange()); x.Outcome != record.OutcomeStopped {
		t.Errorf("its outcome is %s", x.Outcome)
	}
}

func TestWhatIsNotOnRecordDoesNotRunInTheBackground(t *testing.T) {
	h := build(t)
	a := h.post("/v1/responses", with(responses.body(`text "Done."`, false), `"store":false,"background":true`))
	if a.status != http.StatusBadRequest || !strings.Contains(a.body, `"param":"background"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestEveryPathThatIsServedIsNamedByTheAnswerForAnyOther(t *testing.T) {
	h := build(t)
	a := h.post("/v1/nothing", "{}")
	for _, path := range []string{"POST /v1/chat/completions", "GET /v1/responses/:id", "POST /v1/responses/input_tokens", "GET /v1/models", "/mcp"} {
		if a.status != http.StatusNotFound || !strings.Contains(a.body, path) {
			t.Errorf("%d %s, without %s", a.status, a.body, path)
		}
	}
}

// A HEAD is a GET without the body (RFC 9110, section 9.3.2).
func TestAHeadIsAGetWithoutItsBody(t *testing.T) {
	h := build(t)
	id := responseID(t, h.post("/v1/responses", responses.body(`text "Hi."`, false)))
	for _, path := range []string{"/v1/models", "/v1/models/gpt-5.5", "/v1/responses/" + id, "/", "/healthz", "/v1/responses/resp_nothing"} {
		got := h.do(http.MethodGet, path, "", "Authorization", "Bearer "+h.key)
		head := h.do(http.MethodHead, path, "", "Authorization", "Bearer "+h.key)
		if head.status != got.status || head.body != "" || head.header.Get("Content-Type") != got.header.Get("Content-Type") {
			t.Errorf("HEAD %s: %d %q %v, GET is %d %v", path, head.status, head.body, head.header, got.status, got.header)
		}
	}
}

func responseID(t *testing.T, a *answer) string {
	t.Helper()
	_, after, found := strings.Cut(a.body, `"id":"resp_`)
	id, _, _ := strings.Cut(after, `"`)
	if a.status != http.StatusOK || !found {
		t.Fatalf("no response: %d %s", a.status, a.body)
	}
	return "resp_" + id
}

// statusOf is the status of an answer that an SDK has made an error of.
func statusOf(err error) int {
	var refused *openai.Error
	if !errors.As(err, &refused) {
		return 0
	}
	return refused.StatusCode
}
