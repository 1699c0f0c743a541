package quota

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Budgets enforces the budgets of keys and accounts per day and month, in UTC, and for bursts of some minutes. The zero
// Budgets is ready to use.
//
// A request reserves what it may cost, and is admitted while every budget that applies has anything left that is
// neither spent nor reserved. So a budget is exceeded by less than one request's reservation, provided that no request
// costs more than it reserved. When the request ends, its cost replaces the reservation. A burst counts only what is spent:
// agents side by side reserve much more than that for a moment.
type Budgets struct {
	// Notify is called when a budget reaches [WarnAt], and when it is used up, once each per day, month or burst. It must
	// not block.
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
	Limit   Limit // [BudgetDay], [BudgetMonth] or [BudgetBurst]
	Percent int   // [WarnAt] or 100
	Spent   record.USD
	Budget  record.USD
	Reset   time.Time // when the next day or month begins, or enough of a burst is old
}

// purse is what an owner has spent and reserved.
type purse struct {
	day, month span
	burst      burst
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

// burst is what was spent in the last minutes.
type burst struct {
	span    // of which number is not used
	budget  record.USD
	window  int64    // in minutes
	minutes []minute // with spending, oldest first
}

type minute struct {
	number int64
	spent  record.USD
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// add counts spending at a time, which may be before other spending.
func (b *burst) add(at time.Time, amount record.USD) {
	m := minuteOf(at)
	i, found := slices.BinarySearchFunc(b.minutes, m, func(e minute, m int64) int { return cmp.Compare(e.number, m) })
	if !found {
		b.minutes = slices.Insert(b.minutes, i, minute{number: m})
	}
	b.minutes[i].spent += amount
	b.spent += amount
}

// bound sets the budget.
func (b *burst) bound(budget *store.Budget) { b.budget, b.window = budget.Burst, budget.BurstWindow() }

// at forgets what is older than the budget's window, or in the future because the clock was set back. A burst that has ended
// may be reported again.
func (b *burst) at(now time.Time) {
	newest := minuteOf(now)
	oldest := newest - b.window
	for len(b.minutes) > 0 && b.minutes[0].number <= oldest {
		b.spent -= b.minutes[0].spent
		b.minutes = b.minutes[1:]
	}
	for last := len(b.minutes) - 1; last >= 0 && b.minutes[last].number > newest+1; last-- {
		b.spent -= b.minutes[last].spent
		b.minutes = b.minutes[:last]
	}
	if b.spent < b.budget/2 {
		b.told = 0
	}
}

// ends returns when the spending is below the budget again, if nothing more is spent.
func (b *burst) ends(now time.Time) time.Time {
	left := b.spent
	for _, m := range b.minutes {
		if left -= m.spent; left < b.budget {
			return time.Unix((m.number+b.window)*60, 0).UTC()
		}
	}
	return now
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
	p.burst.at(now)
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

// SpentLately counts for a burst what was spent at a time before the process began. budget is that of the owner.
func (b *Budgets) SpentLately(now time.Time, o Owner, budget store.Budget, at time.Time, amount record.USD) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.purse(o, now)
	p.burst.bound(&budget)
	p.burst.add(at, amount)
	p.turn(now)
}

// Burst returns what was spent of the burst that is nearest to its end, if that is [WarnAt] or more; "" if none is.
func (b *Budgets) Burst(now time.Time, c *Claim) (spent string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	nearest := 0.0
	for i, o := range c.owners {
		budget := &c.budgets[i]
		if budget.Burst <= 0 {
			continue
		}
		p := b.purse(o, now)
		if share := float64(p.burst.spent) / float64(budget.Burst); share >= WarnAt/100. && share > nearest {
			nearest, spent = share, fmt.Sprintf("%v of %v USD in %d minutes", p.burst.spent, budget.Burst, budget.BurstWindow())
		}
	}
	return spent
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
			p.burst.bound(&p.budget)
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
		if c.budgets[i].Burst > 0 {
			p.burst.add(now, cost)
		}
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
func (p *purse) windows(now time.Time, budget store.Budget) [3]window {
	midnight := time.Unix(int64(p.day.number+1)*86400, 0).UTC()
	return [...]window{
		{BudgetDay, &p.day, budget.Day, midnight, "a day"},
		{BudgetMonth, &p.month, budget.Month, store.NextMonth(now), "a month"},
		{limit: BudgetBurst, span: &p.burst.span, budget: budget.Burst},
	}
}

// complete adds to the window of a burst what takes a look at all of it.
func (p *purse) complete(w *window, now time.Time) {
	if w.limit == BudgetBurst {
		w.reset, w.each = p.burst.ends(now), fmt.Sprintf("in %d minutes", p.burst.window)
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
			p.complete(&w, now)
			e := codec.Errorf(codec.KindQuota, "The budget %s, %v USD %s, is exhausted: %v USD were spent. It resets on %s; an operator can raise it with: %s --%s",
				whose, w.budget, w.each, spent, w.reset.Format("2 January 2006 at 15:04 MST"), command, flagOf(w.limit))
			e.RetryAfter = w.reset.Sub(now)
			return &Refusal{Limit: w.limit, Error: e}
		}
		if w.limit == BudgetBurst {
			continue
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

func flagOf(l Limit) string { return strings.ReplaceAll(string(l), "_", "-") }

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
			p.complete(&w, now)
			w.span.told = reached
			marks = append(marks, Mark{Owner: o, Limit: w.limit, Percent: reached, Spent: spent, Budget: w.budget, Reset: w.reset})
		}
	}
	return marks
}
