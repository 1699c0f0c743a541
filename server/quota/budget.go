package quota

import (
	"fmt"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Budgets enforces the budgets of keys and accounts per day and month, in UTC. The zero Budgets is ready to use.
//
// A request reserves what it may cost, and is admitted while every budget that applies has anything left that is
// neither spent nor reserved. So a budget is exceeded by less than one request's reservation, provided that no request
// costs more than it reserved. When the request ends, its cost replaces the reservation.
type Budgets struct {
	// Notify is called when a budget reaches [WarnAt], and when it is used up, once each per day or month. It must not
	// block.
	Notify func(Mark)

	Leases *Leases // of budgets shared with other servers; nil: none are

	mu     sync.Mutex
	purses map[Owner]*purse
}

// WarnAt is the share of a budget at which its owner is warned, in percent.
const WarnAt = 80

// Owner is the owner of a budget: a key, or without a key the account.
type Owner struct{ Account, Key string }

// Mark reports that a share of a budget has been spent.
type Mark struct {
	Owner
	Limit   Limit // [BudgetDay] or [BudgetMonth]
	Percent int   // [WarnAt] or 100
	Spent   record.USD
	Budget  record.USD
	Reset   time.Time // when the next day or month begins
}

// purse is what an owner has spent and reserved.
type purse struct {
	day, month span
	reserved   record.USD   // by open requests
	budget     store.Budget // of the last claim
}

// span is a day or a month.
type span struct {
	number int // of the day or month
	spent  record.USD
	told   int // percent of the budget that Notify was called for
}

// at resets the span if it has ended.
func (s *span) at(number int) {
	if s.number != number {
		*s = span{number: number}
	}
}

func dayOf(t time.Time) int { return int(t.UTC().Unix() / 86400) }

func monthOf(t time.Time) int {
	year, month, _ := t.UTC().Date()
	return year*12 + int(month) - 1
}

// turn brings the purse up to date.
func (p *purse) turn(now time.Time) {
	p.day.at(dayOf(now))
	p.month.at(monthOf(now))
}

func (b *Budgets) purse(o Owner, now time.Time) *purse {
	p := b.purses[o]
	if p == nil {
		if b.purses == nil {
			b.purses = make(map[Owner]*purse)
		}
		p = new(purse)
		b.purses[o] = p
	}
	p.turn(now)
	return p
}

// Spent counts what was spent in the hour starting at hour, before the process began.
func (b *Budgets) Spent(now time.Time, o Owner, hour time.Time, amount record.USD) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.purse(o, now)
	if dayOf(hour) == p.day.number {
		p.day.spent += amount
	}
	if monthOf(hour) == p.month.number {
		p.month.spent += amount
	}
}

// Standing returns what an owner has spent in the day and in the month of now.
func (b *Budgets) Standing(now time.Time, o Owner) (day, month record.USD) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.purses[o] == nil {
		return 0, 0
	}
	p := b.purse(o, now)
	return p.day.spent, p.month.spent
}

// Claim is a request's claim on the budgets of its key and its account.
type Claim struct {
	owners   [2]Owner
	budgets  [2]store.Budget
	reserved record.USD
	at       time.Time // when that was
}

// NewClaim returns the claim of a request, with the budgets of its key and its account.
func NewClaim(account, key string, ofKey, ofAccount store.Budget) Claim {
	return Claim{
		owners:  [2]Owner{{Account: account, Key: key}, {Account: account}},
		budgets: [2]store.Budget{ofKey, ofAccount},
	}
}

// Bounded reports whether any budget applies to the request.
func (c *Claim) Bounded() bool { return c.budgets != [2]store.Budget{} }

// Reserve reserves what the request may cost, or returns why it is not admitted. A claim reserves once.
func (b *Budgets) Reserve(now time.Time, c *Claim, amount record.USD) *Refusal {
	marks, refusal := b.reserve(now, c, amount)
	b.notify(marks)
	return refusal
}

// reserve returns the marks that were reached without a claim on the budget: before the process began, which may have been
// killed before Notify was called, or before the budget was set. A request that is refused settles nothing.
func (b *Budgets) reserve(now time.Time, c *Claim, amount record.USD) (marks []Mark, refusal *Refusal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range c.owners {
		if p := b.purse(o, now); p.budget != c.budgets[i] {
			p.budget = c.budgets[i]
			marks = b.marks(marks, now, o, p.budget)
		}
	}
	for i, o := range c.owners {
		if c.budgets[i] == (store.Budget{}) {
			continue
		}
		if refusal := b.refusal(now, o, c.budgets[i]); refusal != nil {
			return marks, refusal
		}
	}
	c.reserved, c.at = max(amount, 0), now
	b.lease(c, now, 0, c.reserved)
	for _, o := range c.owners {
		b.purse(o, now).reserved += c.reserved
	}
	return marks, nil
}

// Settle ends the request: its cost replaces its reservation.
func (b *Budgets) Settle(now time.Time, c *Claim, cost record.USD) {
	if c.owners == [2]Owner{} || cost == 0 && c.reserved == 0 {
		return
	}
	var marks []Mark
	b.mu.Lock()
	b.lease(c, now, cost, 0)
	b.lease(c, c.at, 0, -c.reserved)
	for i, o := range c.owners {
		p := b.purse(o, now)
		p.reserved -= c.reserved
		p.day.spent += cost
		p.month.spent += cost
		marks = b.marks(marks, now, o, c.budgets[i])
	}
	b.mu.Unlock()
	*c = Claim{}
	b.notify(marks)
}

func (b *Budgets) notify(marks []Mark) {
	for _, m := range marks {
		if b.Notify != nil {
			b.Notify(m)
		}
	}
}

// lease counts cost and reservation on the leases.
func (b *Budgets) lease(c *Claim, at time.Time, cost, reserved record.USD) {
	if b.Leases == nil {
		return
	}
	for i, o := range c.owners {
		for limit, most := range map[Limit]record.USD{BudgetDay: c.budgets[i].Day, BudgetMonth: c.budgets[i].Month} {
			b.Leases.add(at, budgetOf(at, o, limit), int64(most), int64(cost), int64(reserved))
		}
	}
}

// budgetOf returns a budget's identity among servers.
func budgetOf(now time.Time, o Owner, limit Limit) ship.Share {
	return ship.Share{Limit: string(limit), Account: o.Account, Key: o.Key, Period: periodOf(now, limit)}
}

// windows returns the spans of a purse with their budgets.
func (p *purse) windows(now time.Time, budget store.Budget) [2]window {
	midnight := time.Unix(int64(p.day.number+1)*86400, 0).UTC()
	return [...]window{
		{BudgetDay, &p.day, budget.Day, midnight, "a day"},
		{BudgetMonth, &p.month, budget.Month, store.NextMonth(now), "a month"},
	}
}

type window struct {
	limit  Limit
	span   *span
	budget record.USD // 0: none
	reset  time.Time
	each   string
}

// spent returns what was spent in a window, on all servers as far as known.
func (b *Budgets) spent(now time.Time, o Owner, w *window) record.USD {
	return max(w.span.spent, record.USD(b.Leases.spent(budgetOf(now, o, w.limit), int64(w.budget))))
}

func (b *Budgets) refusal(now time.Time, o Owner, budget store.Budget) *Refusal {
	p := b.purse(o, now)
	whose, command := "of this service key", "mneme key update "+o.Key
	if o.Key == "" {
		whose, command = fmt.Sprintf("of account %q", o.Account), "mneme account update "+o.Account
	}
	for _, w := range p.windows(now, budget) {
		if w.budget == 0 {
			continue
		}
		spent := b.spent(now, o, &w)
		if spent >= w.budget {
			e := codec.Errorf(codec.KindQuota, "The budget %s, %v USD %s, is exhausted: %v USD were spent. It resets on %s; an operator can raise it with: %s --%s",
				whose, w.budget, w.each, spent, w.reset.Format("2 January 2006 at 15:04 MST"), command, flagOf(w.limit))
			e.RetryAfter = w.reset.Sub(now)
			return &Refusal{Limit: w.limit, Error: e}
		}
		admits, coming := b.Leases.admits(now, budgetOf(now, o, w.limit), int64(w.budget), 1)
		if spent+p.reserved >= w.budget || !admits {
			e := codec.Errorf(codec.KindRateLimited, "The rest of the budget %s, %v USD %s, is reserved by requests in flight; retry shortly.", whose, w.budget, w.each)
			e.RetryAfter = retrySoon
			return &Refusal{w.limit, e, coming}
		}
	}
	return nil
}

func flagOf(l Limit) string {
	if l == BudgetDay {
		return "budget-usd-day"
	}
	return "budget-usd-month"
}

// marks appends the marks that the owner has not been notified of.
func (b *Budgets) marks(marks []Mark, now time.Time, o Owner, budget store.Budget) []Mark {
	p := b.purse(o, now)
	for _, w := range p.windows(now, budget) {
		if w.budget == 0 {
			continue
		}
		reached, spent := 0, b.spent(now, o, &w)
		switch {
		case spent >= w.budget:
			reached = 100
		case spent >= w.budget/100*WarnAt:
			reached = WarnAt
		}
		if reached > w.span.told {
			w.span.told = reached
			marks = append(marks, Mark{Owner: o, Limit: w.limit, Percent: reached, Spent: spent, Budget: w.budget, Reset: w.reset})
		}
	}
	return marks
}
