package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// spentWith is what the exchanges of an account cost by their records, and by what is rolled up.
func (h *harness) spent(account string) (recorded, rolledUp record.USD) {
	h.t.Helper()
	for _, x := range h.records(account) {
		if x.Cost != nil && !x.Cost.Notional {
			recorded += x.Cost.USD
		}
	}
	err := h.store.Accounts().Rollups(h.t.Context(), record.RollupQuery{Account: account}, func(_ record.RollupOf, r *record.Rollup) { rolledUp += r.Cost.USD })
	ok(h.t, err)
	return recorded, rolledUp
}

func TestAnExchangeHasItsCostOnRecord(t *testing.T) {
	h := build(t, func(p *plan) { p.server.AskUsage = true })
	// gpt-4.1: 2 USD a million of input, 0.50 from a cache, 8 of output. claude-opus-4-8: 5, 0.50 and 25.
	for _, story := range []struct {
		surface surface
		body    string
		want    record.USD
	}{
		{chat, chat.body(`text "hi"; usage input=1000 cached=400 output=100`, false), 600*2000 + 400*500 + 100*8000},
		{chat, chat.body(`text "hi"; usage input=1000 cached=400 output=100`, true), 600*2000 + 400*500 + 100*8000},
		{messages, messages.body(`text "hi"; usage input=1000 cached=400 output=100`, true), 600*5000 + 400*500 + 100*25000},
	} {
		a := h.post(story.surface.path, story.body)
		x := h.record(a.exchange())
		if x.Cost == nil || x.Cost.USD != story.want || x.Cost.Estimated || x.Cost.Notional || !strings.Contains(x.Cost.Price, "@") {
			t.Errorf("%s: %+v cost %+v, want %v", story.surface.name, x.Usage, x.Cost, story.want)
		}
	}
	x := h.record(h.post(messages.path, messages.body(`text "hi"`, false), "X-Service-API-Key", h.key, "Authorization", "Bearer "+callersOwnKey).exchange())
	if x.Cost == nil || !x.Cost.Notional {
		t.Errorf("what the caller's own credential paid is on record as %+v", x.Cost)
	}
	recorded, rolledUp := h.spent("acme")
	if recorded != rolledUp || recorded == 0 {
		t.Errorf("the records say %v, what is rolled up %v", recorded, rolledUp)
	}
}

func TestParallelCallsExceedABudgetByLessThanOneReservation(t *testing.T) {
	h, _ := timed(t)
	const budget = record.Dollar / 100
	h.limit(store.Limits{Budget: store.Budget{Day: budget}})
	// Each costs 0.004 USD and reserves at most that and its prompt.
	body := with(messages.body(`text "hi"; usage input=60 output=148; delay first=20ms`, false), `"max_tokens":160`)
	const each = 60*5000 + 148*25000
	var calls sync.WaitGroup
	for range 60 {
		calls.Go(func() { h.post(messages.path, body) })
	}
	calls.Wait()
	h.post(messages.path, body)
	recorded, rolledUp := h.spent("acme")
	if recorded < budget/2 || recorded >= budget+each || recorded != rolledUp {
		t.Errorf("of a budget of %v USD, %v were spent (%v rolled up)", budget, recorded, rolledUp)
	}
}

func TestAnExhaustedBudgetRefusesUntilItsDayEnds(t *testing.T) {
	h, clock := timed(t)
	id := h.limit(store.Limits{Budget: store.Budget{Day: record.Dollar / 1000}})
	for _, s := range generating {
		h.post(messages.path, messages.body(`text "hi"; usage input=1000 output=1000`, false))
		a := h.post(s.path, s.body(`text "hi"`, true))
		kind, message := errorOf(t, s, a)
		if (a.status != http.StatusTooManyRequests && a.status != http.StatusPaymentRequired) || !strings.Contains(message, "0.001 USD a day") || !strings.Contains(message, "mneme key update "+id+" --budget-usd-day") {
			t.Errorf("%s: %d %s %q", s.name, a.status, kind, message)
		}
	}
	clock.turn(12 * time.Hour)
	if a := h.post(chat.path, chat.body(`text "hi"`, false)); a.status != 200 {
		t.Errorf("on the next day: %d %s", a.status, a.body)
	}
}

func TestTheBudgetOfAnAccountHoldsForAllItsKeysAndAcrossAStart(t *testing.T) {
	h, _ := timed(t)
	if _, err := h.store.Accounts().SetBudget(t.Context(), "acme", func(b *store.Budget) { b.Month = record.Dollar / 1000 }); err != nil {
		t.Fatal(err)
	}
	if a := h.post(messages.path, messages.body(`text "hi"; usage input=1000 output=1000`, false)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	h.limit(store.Limits{})
	if a := h.post(chat.path, chat.body(`text "hi"`, false)); a.status != http.StatusTooManyRequests || !strings.Contains(a.body, "account") {
		t.Errorf("another key of the account: %d %s", a.status, a.body)
	}
}

// A provider charges for what it wrote, read or not. A client cannot spend more than its budget by leaving.
func TestAClientThatLeavesEarlyIsChargedWhatTheProviderWrote(t *testing.T) {
	h, _ := timed(t)
	h.limit(store.Limits{Budget: store.Budget{Day: record.Dollar / 1000}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r := h.request(ctx, http.MethodPost, messages.path, messages.body(`events 1000; size 40; delay 1ms`, true), "Authorization", "Bearer "+h.key)
	response, err := h.client.Do(r)
	ok(t, err)
	defer response.Body.Close()
	readEvents(t, response.Body, 200)
	leave()
	x := h.settled(response.Header.Get("X-Service-Exchange-ID"))
	if x.Outcome != record.OutcomeClientClosed || x.Cost == nil || !x.Cost.Estimated || x.Cost.USD < record.Dollar/1000 {
		t.Fatalf("%s, usage %+v cost %+v", x.Outcome, x.Usage, x.Cost)
	}
	eventually(t, func() error {
		if a := h.post(messages.path, messages.body(`text "hi"`, false)); a.status != http.StatusPaymentRequired {
			return fmt.Errorf("the budget lets the next request in: %d", a.status)
		}
		return nil
	})
	if recorded, rolledUp := h.spent("acme"); recorded != rolledUp || recorded < x.Cost.USD {
		t.Errorf("the records say %v, what is rolled up %v", recorded, rolledUp)
	}
}
