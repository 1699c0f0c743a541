package quota

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// A process may be killed after it has recorded what an answer cost, and before it announced the budget that it reached.
// Where the budget is spent, no later request settles, so none could announce it.
func TestABudgetThatWasReachedBeforeAKillIsAnnounced(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var told []string
	b := &Budgets{Notify: func(m Mark) { told = append(told, fmt.Sprint(m.Account, " ", m.Key, " ", m.Limit, " ", m.Percent)) }}
	claim := func(key string, ofKey, ofAccount record.USD) bool {
		c := NewClaim("acme", key, store.Budget{Day: ofKey}, store.Budget{Month: ofAccount})
		refusal := b.Reserve(now, &c, 10)
		b.Settle(now, &c, 0)
		return refusal == nil
	}
	want := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(told, want) {
			t.Errorf("%s: told is %q, want %q", what, told, want)
		}
		told = nil
	}
	for _, o := range []Owner{{"acme", "spent"}, {"acme", ""}} { // as on record
		b.Spent(now, o, now.Truncate(time.Hour), 1000)
	}
	b.Spent(now, Owner{"acme", "warned"}, now.Truncate(time.Hour), 850)

	if claim("spent", 1000, 0) {
		t.Error("a spent budget admits a request")
	}
	want("at the first request", "acme spent budget_usd_day 100")
	claim("spent", 1000, 0)
	want("at the second one")
	if !claim("warned", 1000, 0) {
		t.Error("a budget with a rest admits nothing")
	}
	want("at a warning", "acme warned budget_usd_day 80")
	claim("warned", 1000, 1000)
	want("once the account has one", "acme  budget_usd_month 100")
	claim("warned", 1000, 2000)
	claim("warned", 850, 2000)
	want("once it is lower", "acme warned budget_usd_day 100")
	claim("unknown", 0, 0)
	want("without any")
}
