package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// several are servers that share limits.
type several struct {
	lender *Lender
	tables []*Table
}

func newSeveral(now time.Time, n int) *several {
	s := &several{lender: NewLender()}
	for range n {
		s.tables = append(s.tables, &Table{Leases: NewLeases()})
	}
	for range 2 { // the first one hears how many there are
		for i := range s.tables {
			s.renew(now, i)
		}
	}
	return s
}

// renew has a server report and renew what it has on lease.
func (s *several) renew(now time.Time, i int) {
	leases := s.tables[i].Leases
	uses := leases.Report(now, 100)
	lent, servers := s.lender.Lend(now, string(rune('a'+i)), uses)
	leases.Renew(now, uses, lent, servers)
}

func TestServersThatShareALimitUseAllOfItAndNoMoreThanTheirCreditBeyondIt(t *testing.T) {
	const servers, most = 3, 120
	for name, limits := range map[string]store.Limits{
		"requests a minute": {RequestsPerMinute: most},
		"tokens a minute":   {TokensPerMinute: most},
		"at a time":         {Concurrent: most},
		"tokens a month":    {TokensPerMonth: most},
	} {
		t.Run(name, func(t *testing.T) {
			s, use := newSeveral(noon, servers), [servers]store.KeyUse{}
			let := 0
			enter := func(i int) {
				pass, refusal := s.tables[i].Enter(noon, "key_a", limits, &use[i], 1)
				if refusal != nil {
					return
				}
				if pass.Reserve(noon, 1) == nil {
					let++
				} else {
					pass.Leave(noon, 0)
				}
			}
			for range 50 {
				for i := range servers {
					for range 10 {
						enter(i)
					}
					s.renew(noon, i)
				}
			}
			if let < most || let > most+most/creditShare {
				t.Errorf("%d are let in of %d", let, most)
			}
		})
	}
}

func TestABudgetHoldsForServersThatShareIt(t *testing.T) {
	s := newSeveral(noon, 3)
	var budgets [3]Budgets
	for i := range budgets {
		budgets[i].Leases = s.tables[i].Leases
	}
	recorded := make(Spending)
	recorded.Add(noon, "acme", "key_b", "key_a", noon.Add(-time.Hour), 20*record.Dollar, 7)
	s.lender.Settle(recorded)
	let := 0
	for range 40 {
		for i := range budgets {
			for range 5 {
				c := NewClaim("acme", "key_a", store.Budget{}, store.Budget{Month: 100 * record.Dollar})
				if budgets[i].Reserve(noon, &c, record.Dollar) == nil {
					let++
					budgets[i].Settle(noon, &c, record.Dollar)
				}
			}
			s.renew(noon, i)
		}
	}
	if let < 80 || let > 80+100/creditShare+1 {
		t.Errorf("with 20 USD spent before, %d requests of 1 USD are let in of a budget of 100", let)
	}
	c := NewClaim("acme", "key_a", store.Budget{}, store.Budget{Month: 100 * record.Dollar})
	if refusal := budgets[0].Reserve(noon, &c, record.Dollar); refusal == nil || refusal.Error.RetryAfter < time.Hour {
		t.Errorf("a budget that others have used up: %+v", refusal)
	}
	raised := NewClaim("acme", "key_a", store.Budget{}, store.Budget{Month: 1000 * record.Dollar})
	if refusal := budgets[0].Reserve(noon, &raised, record.Dollar); refusal == nil || refusal.Error.RetryAfter > time.Hour {
		t.Errorf("before the lender has heard that the budget was raised: %+v", refusal)
	}
	s.renew(noon, 0)
	if refusal := budgets[0].Reserve(noon, &raised, record.Dollar); refusal != nil {
		t.Errorf("after it was raised: %v", refusal.Error)
	}
}

// A second lender is told the same reports, until the first one is gone.
func TestAnotherLenderContinuesALimitThatIsUsedUp(t *testing.T) {
	const most = 120
	s, other := newSeveral(noon, 3), NewLender()
	limits := store.Limits{RequestsPerMinute: most}
	report := func(i int) (uses []ship.Use) {
		uses = s.tables[i].Leases.Report(noon, 100)
		other.Lend(noon, string(rune('a'+i)), uses)
		return uses
	}
	let := 0
	for round := range 20 {
		if round == 10 {
			s.lender = other
		}
		for i := range s.tables {
			for range 10 {
				if _, refusal := s.tables[i].Enter(noon, "key_a", limits, nil, 1); refusal == nil {
					let++
				}
			}
			uses := report(i)
			lent, servers := s.lender.Lend(noon, string(rune('a'+i)), uses)
			s.tables[i].Leases.Renew(noon, uses, lent, servers)
		}
	}
	if let < most || let > most+most/creditShare {
		t.Errorf("%d are let in of %d", let, most)
	}
}

// What servers have reported is on record a little later.
func TestWhatIsOnRecordDoesNotLowerWhatWasReported(t *testing.T) {
	l := NewLender()
	use := ship.Use{Share: ship.Share{Limit: string(TokensPerMonth), Key: "key_a", Period: periodOf(noon, TokensPerMonth)}, Most: 100, Used: 60}
	left := func() int64 {
		lent, _ := l.Lend(noon, "a", []ship.Use{use})
		return lent[0].Left
	}
	left()
	for _, c := range []struct{ recorded, left int64 }{{20, 40}, {90, 10}} {
		recorded := make(Spending)
		recorded.Add(noon, "acme", "key_a", "key_a", noon, 0, c.recorded)
		l.Settle(recorded)
		if got := left(); got != c.left {
			t.Errorf("with %d on record %d of 100 are left, want %d", c.recorded, got, c.left)
		}
	}
}

// A server that hears nothing keeps what it has on lease, and then goes on with its even part.
func TestWithoutTheLenderAServerHasItsEvenPart(t *testing.T) {
	s := newSeveral(noon, 3)
	limits := store.Limits{RequestsPerMinute: 60}
	enter := func(now time.Time) (let int) {
		for {
			if _, refusal := s.tables[0].Enter(now, "key_a", limits, nil, 1); refusal != nil {
				return let
			}
			let++
		}
	}
	if let := enter(noon); let != 60/creditShare/3 {
		t.Errorf("on credit: %d", let)
	}
	s.renew(noon, 0)
	if let := enter(noon.Add(leaseHolds)); let < 50 || let > 55 {
		t.Errorf("on lease, alone with the key: %d", let)
	}
	alone := noon.Add(leaseHolds + time.Hour)
	if let := enter(alone); let != 20 {
		t.Errorf("without the lender: %d of 60, on one of three servers", let)
	}
	if let := enter(alone.Add(time.Minute)); let != 20 {
		t.Errorf("a minute later: %d", let)
	}
}

func TestALeaseThatIsNotUsedGoesToOthers(t *testing.T) {
	s := newSeveral(noon, 2)
	limits := store.Limits{Concurrent: 8}
	for i := range s.tables {
		pass, refusal := s.tables[i].Enter(noon, "key_a", limits, nil, 1)
		if refusal != nil {
			t.Fatal(refusal.Error)
		}
		s.renew(noon, i)
		pass.Leave(noon, 1)
	}
	later := noon.Add(2 * leaseIdle)
	s.renew(later, 1) // the other one has nothing of it any more
	let := 0
	for range 20 {
		if _, refusal := s.tables[0].Enter(later, "key_a", limits, nil, 1); refusal == nil {
			let++
		}
		s.renew(later, 0)
	}
	if let != 8 {
		t.Errorf("%d of 8 are let in where no other server needs any", let)
	}
}

// A server that pauses gives its leases back. What it is let in on when it goes on is no more than was left.
func TestAServerThatPausesDoesNotExceedALimitEachTime(t *testing.T) {
	const most = 120
	for name, limits := range map[string]store.Limits{
		"requests a minute": {RequestsPerMinute: most},
		"tokens a month":    {TokensPerMonth: most},
	} {
		t.Run(name, func(t *testing.T) {
			s, use := newSeveral(noon, 3), [3]store.KeyUse{}
			let, now := 0, noon
			for range 100 {
				for i := range s.tables {
					for range 2 * most {
						pass, refusal := s.tables[i].Enter(now, "key_a", limits, &use[i], 1)
						if refusal != nil {
							break
						}
						if pass.Reserve(now, 1) == nil {
							let++
						}
						pass.Leave(now, 1)
					}
					s.renew(now, i)
				}
				now = now.Add(leaseIdle + time.Second)
				for i := range s.tables {
					s.renew(now, i)
				}
			}
			within := most
			if limits.RequestsPerMinute > 0 {
				within += int(now.Sub(noon).Minutes() * most)
			}
			if let > within+most/creditShare {
				t.Errorf("%d are let in of %d", let, within)
			}
			for range 2 {
				now = now.Add(24 * 31 * time.Hour)
				for i := range s.tables {
					s.renew(now, i)
				}
			}
			if parts := len(s.tables[0].Leases.parts); parts != 0 {
				t.Errorf("after two months it remembers %d limits", parts)
			}
		})
	}
}

// A request that finds no credit may wait for the lease, which has all that is left.
func TestTheFirstLeaseIsWaitedFor(t *testing.T) {
	const most = 60
	s := newSeveral(noon, 3)
	limits := store.Limits{RequestsPerMinute: most}
	enter := func() *Refusal {
		_, refusal := s.tables[0].Enter(noon, "key_a", limits, nil, 1)
		return refusal
	}
	let, refusal := 0, enter()
	for ; refusal == nil; refusal = enter() {
		let++
	}
	if refusal.Coming == nil || let != most/creditShare/3 {
		t.Fatalf("after %d requests: %+v", let, refusal)
	}
	s.renew(noon, 0)
	select {
	case <-refusal.Coming:
	default:
		t.Error("the lease has come, and the request waits")
	}
	for refusal = enter(); refusal == nil; refusal = enter() {
		let++
	}
	if refusal.Coming != nil || let != most {
		t.Errorf("on lease %d requests of %d are let in, and then: %+v", let, most, refusal)
	}
}

// An exchange that ends late says nothing about when its key was last used, and how much the limit is by now.
func TestAnOldRequestDoesNotSetALimitBack(t *testing.T) {
	s := newSeveral(noon, 1)
	old, refusal := s.tables[0].Enter(noon, "key_a", store.Limits{TokensPerMinute: 10}, nil, 1)
	if refusal != nil {
		t.Fatal(refusal.Error)
	}
	later := noon.Add(time.Minute)
	s.renew(later, 0)
	if _, refusal := s.tables[0].Enter(later, "key_a", store.Limits{TokensPerMinute: 100}, nil, 1); refusal != nil {
		t.Fatal(refusal.Error)
	}
	old.Leave(later, 5)
	for _, use := range s.tables[0].Leases.Report(later.Add(leaseRenew), 10) {
		if use.Most != 100 || use.Want == ship.GiveBack {
			t.Errorf("reported is %+v", use)
		}
	}
}

// A server goes on by its old lease while the answer to its report is on the way to it.
func TestALeaseThatShrinksIsLentToOthersOnceItsServerHasHeard(t *testing.T) {
	const most = 600
	s, let := newSeveral(noon, 3), 0
	limits := store.Limits{RequestsPerMinute: most}
	enter := func(i, times int) {
		for range times {
			if _, refusal := s.tables[i].Enter(noon, "key_a", limits, nil, 1); refusal == nil {
				let++
			}
		}
	}
	enter(0, 1)
	s.renew(noon, 0) // it is the only one, and has all of the limit
	enter(1, 1)
	s.renew(noon, 1)
	now := noon.Add(leaseRenew)
	uses := s.tables[0].Leases.Report(now, 100)
	lent, servers := s.lender.Lend(now, "a", uses)
	enter(0, most) // before the answer is there
	for i := 1; i < 3; i++ {
		enter(i, most)
		s.renew(now, i)
		enter(i, most)
	}
	s.tables[0].Leases.Renew(now, uses, lent, servers)
	for range 3 {
		now = now.Add(leaseRenew)
		for i := range 3 {
			s.renew(now, i)
			enter(i, most)
		}
	}
	if let < most || let > most+most/creditShare {
		t.Errorf("%d are let in of %d", let, most)
	}
}

// However servers use a limit of a month, pause, report, lose replies and are started again: together they stay within it and
// their credit.
func TestLeasesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 500).Draw(t, "most")
		const servers = 3
		s, use := newSeveral(noon, servers), [servers]store.KeyUse{}
		limits := store.Limits{TokensPerMonth: most}
		var total int64
		now := noon
		enter := func(i int) {
			pass, refusal := s.tables[i].Enter(now, "key_a", limits, &use[i], 1)
			if refusal != nil {
				return
			}
			if pass.Reserve(now, 1) == nil {
				total++
			}
			pass.Leave(now, 1)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, servers-1).Draw(t, "server")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				s.renew(now, i)
			case 1: // the reply is lost
				uses := s.tables[i].Leases.Report(now, 100)
				s.lender.Lend(now, string(rune('a'+i)), uses)
				s.tables[i].Leases.Unheard(uses)
			case 2: // the request is
				s.tables[i].Leases.Unheard(s.tables[i].Leases.Report(now, 100))
			case 3: // all of them pause
				now = now.Add(leaseIdle + time.Second)
				for i := range servers {
					s.renew(now, i)
				}
			case 4: // all are used while the answer is on its way
				uses := s.tables[i].Leases.Report(now, 100)
				lent, count := s.lender.Lend(now, string(rune('a'+i)), uses)
				for range rapid.IntRange(1, 200).Draw(t, "requests") {
					j := rapid.IntRange(0, servers-1).Draw(t, "server")
					enter(j)
					if j != i {
						s.renew(now, j)
					}
				}
				s.tables[i].Leases.Renew(now, uses, lent, count)
			default:
				enter(i)
			}
		}
		if credit := max(most/creditShare, servers); total > most+credit {
			t.Fatalf("%d of %d were used", total, most)
		}
	})
}

func TestALenderForgetsWhatIsOver(t *testing.T) {
	l := NewLender()
	l.Lend(noon, "a", []ship.Use{
		{Share: ship.Share{Limit: string(RequestsPerMinute), Key: "key_a"}, Most: 10},
		{Share: budgetOf(noon, Owner{Account: "acme"}, BudgetDay), Most: 10},
	})
	for _, after := range []time.Duration{time.Hour, 72 * time.Hour} {
		l.Lend(noon.Add(after), "b", nil)
	}
	if len(l.pools) > 0 || len(l.servers) != 1 {
		t.Errorf("it remembers %d limits and %d servers", len(l.pools), len(l.servers))
	}
}
