package server_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// fullRecorder has no room for the ends of exchanges.
type fullRecorder struct{ server.Recorder }

type fullRecording struct{ store.Recording }

var errFullDisk = codec.Errorf(codec.KindStorage, "the disk is full")

func (r fullRecorder) Begin(ctx context.Context, o *record.Opening) (store.Recording, error) {
	recording, err := r.Recorder.Begin(ctx, o)
	return fullRecording{recording}, err
}

func (r fullRecording) Finish(c *record.Closing) error {
	_ = r.Recording.Finish(c)
	return errFullDisk
}

// A refusal is counted against who refused: budgets, limits and the memory of this server are no failure of a provider
// that answers well.
func TestOnlyTheProvidersOwnErrorsCountAsItsFailures(t *testing.T) {
	long := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		packer := gzip.NewWriter(w)
		_, _ = fmt.Fprintf(packer, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":6}}`,
			strings.Repeat("all is well ", 1<<18))
		_ = packer.Close()
	}
	crossed := strings.Replace(chat.body("", false), chat.model, messages.model, 1)
	for name, story := range map[string]struct {
		change   func(*testing.T, *plan)
		limits   store.Limits
		body     string
		provider string
		status   int
		outcome  record.Outcome
	}{
		"a budget":              {limits: store.Limits{Budget: store.Budget{Day: 1}}, body: chat.body("", false), provider: "openai", status: 429, outcome: record.OutcomeRefused},
		"a limit":               {limits: store.Limits{TokensPerMonth: 1}, body: chat.body("", false), provider: "none", status: 429, outcome: record.OutcomeRefused},
		"the memory of answers": {change: func(t *testing.T, p *plan) { leadTo(p, answering(t, long)); p.server.AnswerMemory = 1 << 20 }, body: crossed, provider: "anthropic", status: 503, outcome: record.OutcomeRefused},
		"the record of a whole answer": {
			change: func(_ *testing.T, p *plan) {
				p.engine = func(e *server.Engine) { e.Recorder = fullRecorder{e.Recorder} }
			},
			body: chat.body("", false), provider: "openai", status: 503, outcome: record.OutcomeInterrupted,
		},
		"the record of a stream": {
			change: func(_ *testing.T, p *plan) {
				p.engine = func(e *server.Engine) { e.Recorder = fullRecorder{e.Recorder} }
			},
			body: chat.body("", true), provider: "openai", status: 200, outcome: record.OutcomeInterrupted,
		},
		"a missing credential": {
			change: func(_ *testing.T, p *plan) {
				c := p.router.Providers["openai"]
				c.APIKey = ""
				p.router.Providers["openai"] = c
			},
			body: chat.body("", false), provider: "openai", status: 401, outcome: record.OutcomeRefused,
		},
		"the provider": {body: chat.body("error overloaded", false), provider: "openai", status: 503, outcome: record.OutcomeUpstreamError},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan string, 10)
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				told <- string(text)
			}))
			defer receiver.Close()
			hooks, err := webhook.Start(webhook.Options{
				Hooks: []webhook.Hook{{URL: receiver.URL, Secret: "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh", Events: []string{webhook.Failure}}},
				Dir:   t.TempDir(), Log: slog.New(slog.DiscardHandler),
			})
			ok(t, err)
			defer hooks.Close()
			h, metrics, _ := observed(t, nil, func(p *plan) {
				p.server.Webhooks = hooks
				if story.change != nil {
					story.change(t, p)
				}
			})
			h.limit(story.limits)
			a := h.post(chat.path, story.body)
			if story.limits != (store.Limits{}) { // the first request is within the limits
				a = h.post(chat.path, story.body)
			}
			if a.status != story.status {
				t.Fatalf("%d %s", a.status, a.body)
			}
			name := fmt.Sprintf(`mneme_requests_total{outcome="%s",provider="%s",status="%dxx",surface="chat"}`, story.outcome, story.provider, story.status/100)
			await(t, metrics, series{name: 1})
			for name, n := range metrics() {
				if strings.HasPrefix(name, "mneme_upstream_errors_total") && story.outcome != record.OutcomeUpstreamError && n > 0 {
					t.Errorf("%s is %v", name, n)
				}
			}
			hooks.Tell(webhook.Failure, time.Now(), map[string]string{"account": "the last"})
			first := <-told
			if failed := !strings.Contains(first, "the last"); failed != (story.outcome != record.OutcomeRefused) {
				t.Errorf("told was %s", first)
			}
		})
	}
}
