package server_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestWebhooksReportReachedBudgetsAndFailures(t *testing.T) {
	got := make(chan []byte, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- body
	}))
	defer receiver.Close()
	hooks, err := webhook.Start(webhook.Options{
		Hooks: []webhook.Hook{{URL: receiver.URL, Secret: "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh"}}, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	ok(t, err)
	defer hooks.Close()
	h, _ := timed(t, func(p *plan) { p.server.Webhooks = hooks })
	id := h.limit(store.Limits{Budget: store.Budget{Day: record.Dollar / 10}})
	tell := func(kind string, data any) {
		t.Helper()
		told := struct {
			Type string
			Data any
		}{Data: data}
		select {
		case body := <-got:
			if err := json.Unmarshal(body, &told); err != nil || told.Type != kind {
				t.Errorf("told was %s (%v), want %s", body, err, kind)
			}
		case <-time.After(timeout):
			t.Fatalf("nothing was told of %s", kind)
		}
	}
	// claude-opus-4-8 costs 25 USD for a million tokens of output.
	const most = `"max_tokens":4000`
	for i, output := range []string{"3000", "400", "1000"} {
		a := h.post(messages.path, with(messages.body(`text "hi"; usage input=1 output=`+output, false), most))
		if a.status != http.StatusOK {
			t.Fatalf("request %d: %d %s", i, a.status, a.body)
		}
	}
	var reached webhook.BudgetReached
	for _, percent := range []int{80, 100} {
		if tell(webhook.Budget, &reached); reached.Percent != percent || reached.Key != id || reached.Account != "acme" || reached.Budget != record.Dollar/10 {
			t.Errorf("%+v, want %d %%", reached, percent)
		}
	}
	h.limit(store.Limits{})
	a := h.post(chat.path, chat.body(`error overloaded`, false))
	var failed webhook.ExchangeFailed
	if tell(webhook.Failure, &failed); failed.Exchange != a.exchange() || failed.Model != chat.model || failed.Provider != "openai" || failed.Account != "acme" {
		t.Errorf("%+v", failed)
	}
	select {
	case body := <-got:
		t.Errorf("more was told: %s", body)
	default:
	}
}
