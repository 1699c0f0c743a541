package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// reserveBudget reserves what the request may cost, if its key or account has a budget. Requests with the caller's own
// credential count toward no budget, and a model without a price has no cost to count.
func (x *exchange) reserveBudget() error {
	s := x.proxy
	x.allowance.claim = quota.NewClaim(x.request.caller.Account, s.engine.Keys.Origin(x.request.caller.KeyID), x.request.caller.Limits.Or(*s.keyLimits.Load()).Budget, s.engine.Accounts.Budget(x.request.caller.Account))
	if !x.allowance.claim.Bounded() || x.request.auxiliary == record.AuxiliaryTokens {
		return nil
	}
	x.allowance.metered = true
	if _, own, err := s.credential(&x.request.caller, x.route.placement.Provider, x.route.format); err != nil || own {
		return nil //nolint:nilerr // the call is what says so
	}
	now := s.opts.Clock()
	var most record.USD
	if price := x.router.Price(x.route.placement.Provider.Name(), x.route.placement.Model, now); price != nil {
		expected := codec.Usage{InputUncached: x.request.estimatedTokens(), Output: longestAnswer(x.router, &x.request, x.route.placement)}
		most = record.USD(price.Bill(&expected, now).Cost)
	}
	err := x.allowance.unlessRefused(x.ctx, func() *quota.Refusal { return s.budgets.Reserve(now, &x.allowance.claim, most) })
	if burst := s.budgets.Burst(now, &x.allowance.claim); burst != "" {
		x.recording.closing.Burst = burst
		x.answer.out.Set(headerBurst, burst)
	}
	if err != nil {
		x.allowance.claim = quota.Claim{}
	}
	return err
}

// unknownOutput is how many tokens are reserved for an answer whose length neither the request nor the model bounds. Few
// are longer.
const unknownOutput = 4096

// longestAnswer returns how many tokens the answer may have: the client's limit, but no more than the model can write,
// or else what its kind of model usually writes at most, reasoning included.
func longestAnswer(by *router.Router, r *request, placement router.Placement) int64 {
	if !r.surface.Converses() && (r.envelope.Model == "" || !r.passing.asksModel()) {
		return 0
	}
	e, model := &r.envelope, by.Model(placement)
	longest := cmp.Or(model.DefaultMaxOutput, unknownOutput)
	if e.MaxTokens > 0 {
		longest = e.MaxTokens
		if model.MaxOutput > 0 {
			longest = min(longest, model.MaxOutput)
		}
	}
	return min(longest, codec.MaxTokens) * min(max(e.Choices, 1), mostChoices)
}

// mostChoices bounds how many answers a request can ask for; providers take up to 128.
const mostChoices = 1024

// recordCost computes the cost of the exchange, once.
func (x *exchange) recordCost() {
	usage := &x.recording.closing.Usage
	x.completeUsage(usage)
	provider := x.route.placement.Provider
	if provider == nil || usage.IsZero() || x.request.auxiliary == record.AuxiliaryTokens {
		return
	}
	now := x.proxy.opts.Clock()
	price := x.router.Price(provider.Name(), x.recording.closing.ModelServed, now)
	if price == nil {
		price = x.router.Price(provider.Name(), x.route.placement.Model, now)
	}
	if price == nil {
		return
	}
	bill := price.Bill(usage, now)
	x.recording.cost = record.Cost{
		USD: record.USD(bill.Cost), Saved: record.USD(bill.Saved), Price: price.Version, Estimated: !bill.Exact, Notional: x.route.own,
	}
	x.recording.closing.Cost = &x.recording.cost
}

// completeUsage fills in what the provider has not counted, if it had the request: because its host does not count, the
// client left, or the stream broke. It charges for the prompt and for what it has written, of which hidden reasoning does
// not pass here. So where the caller is limited, an answer counts as the longest possible one: else a caller could hide
// its use from the limit. Elsewhere the text that passed is the best guess.
func (x *exchange) completeUsage(usage *codec.Usage) {
	if usage.IsZero() && !x.recording.charged(&x.request, &x.attempts) || x.request.passing != nil && (x.request.envelope.Model == "" || !x.request.passing.asksForText()) {
		return
	}
	counted := x.recording.counted(usage)
	if usage.TotalInput() == 0 {
		usage.InputUncached, usage.Estimated = x.request.estimatedTokens(), true
	}
	if counted {
		return
	}
	output := x.recording.written
	if x.allowance.metered {
		output = max(output, longestAnswer(x.router, &x.request, x.route.placement))
	}
	if output > usage.Output {
		usage.Output, usage.Estimated = output, true
	}
}

// charged reports whether the provider charges for the exchange: it answered, or has the request of a client that left.
func (r *recording) charged(request *request, attempts *attempts) bool {
	closing := &r.closing
	switch {
	case request.auxiliary == record.AuxiliaryTokens:
		return false
	case attempts.leftTheProvider(closing.Outcome):
		return true
	}
	return !closing.FirstByte.IsZero() && closing.Status < http.StatusBadRequest && !r.failed
}

// loadBudgets restores the spending of the current month and of the last minutes, so that a restart does not reset budgets.
func (s *proxy) loadBudgets(ctx context.Context) error {
	now := s.opts.Clock()
	s.loadBursts(now)
	year, month, _ := now.UTC().Date()
	since := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	return s.engine.Accounts.Rollups(ctx, record.RollupQuery{Since: since}, func(of record.RollupOf, r *record.Rollup) {
		if of.KeyID == record.ImportedKey || r.Cost.USD == 0 {
			return
		}
		s.budgets.Spent(now, quota.Owner{Account: of.Account}, of.Hour, r.Cost.USD)
		s.budgets.Spent(now, quota.Owner{Account: of.Account, Key: s.engine.Keys.Origin(of.KeyID)}, of.Hour, r.Cost.USD)
	})
}

// loadBursts restores the spending of the last minutes where a burst has a budget. Spending that cannot be read counts as
// zero: the burst is stopped later, and no request is refused for it.
func (s *proxy) loadBursts(now time.Time) {
	for _, account := range s.engine.Accounts.List() {
		bursts := make(map[quota.Owner]store.Budget)
		window := account.Budget.BurstWindow()
		bursts[quota.Owner{Account: account.Name}] = account.Budget
		for _, key := range s.engine.Keys.List(account.Name) {
			budget := key.Limits.Or(s.opts.KeyLimits).Budget
			window = max(window, budget.BurstWindow())
			bursts[quota.Owner{Account: account.Name, Key: s.engine.Keys.Origin(key.ID)}] = budget
		}
		if window == 0 {
			continue
		}
		err := s.loadBurst(now, account.Name, now.Add(-time.Duration(window)*time.Minute), bursts)
		if err != nil {
			s.log.Warn("the spending of the last minutes cannot be read; bursts are counted from zero", "account", account.Name, "error", err)
		}
	}
}

// mostBurst is how many exchanges of an account are read for its bursts, newest first.
const mostBurst = 20_000

func (s *proxy) loadBurst(now time.Time, account string, since time.Time, bursts map[quota.Owner]store.Budget) error {
	q := record.ExchangeQuery{Limit: 1000}
	for read := 0; read < mostBurst; read += q.Limit {
		page, err := s.engine.Archive.Exchanges(account, q)
		if err != nil {
			return err
		}
		for i := range page.Data {
			x := &page.Data[i]
			q.After = x.ID
			switch {
			case x.Started.Before(since) && x.Imported.IsZero():
				return nil
			case x.Cost == nil || x.Cost.Notional || x.LastByte.Before(since):
				continue
			}
			for _, o := range []quota.Owner{{Account: account}, {Account: account, Key: s.engine.Keys.Origin(x.KeyID)}} {
				if budget := bursts[o]; budget.Burst > 0 {
					s.budgets.SpentLately(now, o, budget, x.LastByte, x.Cost.USD)
				}
			}
		}
		if !page.HasMore {
			return nil
		}
	}
	return nil
}

// prices has the prices of the router in use.
type prices struct{ *proxy }

func (p prices) Price(provider, model string, at time.Time) *router.Price {
	return p.router.Load().Price(provider, model, at)
}
