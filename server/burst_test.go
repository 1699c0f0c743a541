package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// started is a harness whose proxy is started again on the same store.
type started struct {
	*harness
	plan *plan
}

func starting(t *testing.T, changes ...func(*plan)) *started {
	s := &started{}
	s.harness = build(t, append(changes, func(p *plan) { s.plan = p })...)
	return s
}

func (s *started) again() {
	s.t.Helper()
	ok(s.t, s.stop())
	var err error
	s.proxy, err = server.New(s.plan.server)
	ok(s.t, err)
	s.url = s.proxy.Addresses()[0].Origin()
	s.run()
}

// unreadable is an archive whose lists cannot be read.
type unreadable struct{ server.Archive }

func (unreadable) Exchanges(string, record.ExchangeQuery) (record.ExchangePage, error) {
	return record.ExchangePage{}, errors.New("the volume is damaged")
}

func TestMoneyThatIsSpentFastIsReportedThenStoppedAlsoAfterAStart(t *testing.T) {
	got := make(chan webhook.BudgetReached, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var told struct {
			Type string
			Data webhook.BudgetReached
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &told) == nil && told.Type == webhook.Budget {
			got <- told.Data
		}
	}))
	defer receiver.Close()
	hooks, err := webhook.Start(webhook.Options{
		Hooks: []webhook.Hook{{URL: receiver.URL, Secret: "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh"}}, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	ok(t, err)
	defer hooks.Close()
	h := starting(t, func(p *plan) { p.server.Webhooks = hooks })
	id := h.limit(store.Limits{Budget: store.Budget{Burst: 3 * record.Dollar / 100, BurstMinutes: 60}})
	const body = `text "hi"; usage input=1000 output=200` // 1 cent
	reached := func(percent int) {
		t.Helper()
		select {
		case told := <-got:
			if told.Percent != percent || told.Limit != string(quota.BudgetBurst) || told.Key != id || told.Budget != 3*record.Dollar/100 {
				t.Errorf("told was %+v", told)
			}
		case <-time.After(timeout):
			t.Fatalf("nothing was told of %d %%", percent)
		}
	}
	for turn, header := range []string{"", "", "", "0.03 of 0.03 USD in 60 minutes"} {
		want := 200
		if header != "" {
			want = http.StatusPaymentRequired
		}
		a := h.post(messages.path, messages.body(body, false))
		if a.status != want || a.header.Get("X-Service-Burst") != header {
			t.Fatalf("turn %d: %d, %q: %s", turn, a.status, a.header.Get("X-Service-Burst"), a.body)
		}
		if want != 200 && (!strings.Contains(a.body, "0.03 USD in 60 minutes") || a.header.Get("X-Should-Retry") != "false") {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	reached(100)
	if !strings.Contains(h.log.String(), "money is spent fast") {
		t.Error("it is not in the log")
	}

	h.again()
	if a := h.post(chat.path, chat.body(`text "hi"`, true)); a.status != http.StatusTooManyRequests {
		t.Errorf("after a start: %d %s", a.status, a.body)
	}
	reached(100)

	h.plan.server.Engine.Archive = unreadable{h.plan.server.Engine.Archive}
	h.again()
	if a := h.post(messages.path, messages.body(body, false)); a.status != 200 {
		t.Errorf("where the record cannot be read: %d %s", a.status, a.body)
	}
	if !strings.Contains(h.log.String(), "bursts are counted from zero") {
		t.Errorf("it does not say so: %s", h.log)
	}
	h.post(messages.path, messages.body(`text "hi"; usage input=1000 output=440`, false))
	reached(80)
	a := h.post(messages.path, messages.body(body, false))
	x, err := h.store.Archive().ExchangeInfo("acme", a.exchange())
	if ok(t, err); x.Burst != "0.026 of 0.03 USD in 60 minutes" || a.header.Get("X-Service-Burst") != x.Burst {
		t.Errorf("on record is %q, in the header %q", x.Burst, a.header.Get("X-Service-Burst"))
	}
}
