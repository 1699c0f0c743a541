package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// spender spends from the burst of one key.
type spender struct {
	Budgets
	now    time.Time
	budget store.Budget
	told   []string
}

func newSpender(burst record.USD, minutes int64) *spender {
	s := &spender{now: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), budget: store.Budget{Burst: burst, BurstMinutes: minutes}}
	s.Notify = func(m Mark) { s.told = append(s.told, fmt.Sprint(m.Limit, " ", m.Percent)) }
	return s
}

func (s *spender) spend(cost record.USD) *Refusal {
	c := NewClaim("acme", "key", s.budget, store.Budget{})
	if refusal := s.Reserve(s.now, &c, 100*s.budget.Burst); refusal != nil {
		return refusal
	}
	s.Settle(s.now, &c, cost)
	return nil
}

func TestABurstIsToldThenRefusedUntilEnoughOfItIsOld(t *testing.T) {
	s := newSpender(10*record.Dollar, 5)
	for minute, cost := range []record.USD{3, 3, 3, 3} { // 9 of 10 at the third, 12 at the fourth
		s.now = s.now.Add(time.Minute)
		if refusal := s.spend(cost * record.Dollar); refusal != nil {
			t.Fatalf("minute %d: %v", minute, refusal.Error)
		}
	}
	if want := []string{"budget_usd_burst 80", "budget_usd_burst 100"}; !slices.Equal(s.told, want) {
		t.Errorf("told is %q", s.told)
	}
	refusal := s.spend(1)
	if refusal == nil || refusal.Limit != BudgetBurst || !strings.Contains(refusal.Error.Message, "10 USD in 5 minutes, is exhausted: 12 USD were spent") ||
		!strings.Contains(refusal.Error.Message, "mneme key update key --budget-usd-burst") {
		t.Fatalf("%+v", refusal)
	}
	c := NewClaim("acme", "key", s.budget, store.Budget{})
	if got := s.Burst(s.now, &c); got != "12 of 10 USD in 5 minutes" {
		t.Errorf("%q", got)
	}
	s.now = s.now.Add(refusal.Error.RetryAfter)
	if refusal := s.spend(0); refusal != nil {
		t.Errorf("after the wait that it named: %v", refusal.Error)
	}
	s.now = s.now.Add(5 * time.Minute)
	if got := s.Burst(s.now, &c); got != "" {
		t.Errorf("long after: %q", got)
	}
	s.told = nil
	s.spend(9 * record.Dollar)
	if want := []string{"budget_usd_burst 80"}; !slices.Equal(s.told, want) {
		t.Errorf("told of the next burst is %q", s.told)
	}
}

// Agents side by side reserve their longest answers, which they do not write.
func TestABurstCountsNoReservations(t *testing.T) {
	s := newSpender(10, 0)
	for range 20 {
		c := NewClaim("acme", "key", s.budget, store.Budget{})
		if refusal := s.Reserve(s.now, &c, 1000); refusal != nil {
			t.Fatal(refusal.Error)
		}
	}
}

func TestAClockThatIsSetBackEndsABurst(t *testing.T) {
	s := newSpender(10, 10)
	s.spend(20)
	s.now = s.now.Add(-time.Hour)
	if refusal := s.spend(1); refusal != nil {
		t.Errorf("refused until the clock is where it was: %v", refusal.Error)
	}
	if refusal := s.spend(9); refusal != nil {
		t.Errorf("what was spent before counts twice: %v", refusal.Error)
	}
	if s.spend(1) == nil {
		t.Error("nothing counts after the clock was set back")
	}
}

func TestSpendingBeforeTheStartCountsForABurst(t *testing.T) {
	s := newSpender(10, 10)
	o := Owner{"acme", "key"}
	for _, ago := range []time.Duration{2 * time.Minute, 9 * time.Minute, 11 * time.Minute, 2 * time.Minute} {
		s.SpentLately(s.now, o, s.budget, s.now.Add(-ago), 4)
	}
	c := NewClaim("acme", "key", s.budget, store.Budget{})
	if got := s.Burst(s.now, &c); !strings.HasPrefix(got, record.USD(12).String()) {
		t.Errorf("%q", got)
	}
	if s.spend(1) == nil {
		t.Error("a burst before the start is forgotten")
	}
}

// Sessions of people pause, and their turns cost cents.
func TestNoHealthySpendingIsABurst(t *testing.T) {
	for seed := range 1000 {
		s := newSpender(5*record.Dollar, 10)
		for turn := range 60 {
			s.now = s.now.Add(time.Duration(20+(seed*31+turn*17)%120) * time.Second)
			if refusal := s.spend(record.USD((seed*7+turn*13)%25) * record.Dollar / 100); refusal != nil {
				t.Fatalf("seed %d, turn %d: %v", seed, turn, refusal.Error)
			}
		}
	}
}

func BenchmarkABurst(b *testing.B) {
	s := newSpender(record.Dollar, store.MostBurstMinutes)
	for range store.MostBurstMinutes {
		s.now = s.now.Add(time.Minute)
		s.spend(1)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.spend(1)
	}
}
