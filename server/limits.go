package server

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// allowance is what the limits and budgets of the caller leave an exchange.
type allowance struct {
	proxy   *proxy
	pass    *quota.Pass // nil if the key has no limits
	claim   quota.Claim // on the budgets of the key and the account
	metered bool        // money or tokens of the caller are limited
	refused bool        // by a limit or a budget
	final   bool        // asking again is no use
}

// enter admits a request within the limits of its caller's key. Refused requests are counted but not recorded, so that
// impatient callers cost little.
func (a *allowance) enter(ctx context.Context, r *request) error {
	limits := r.caller.Limits.Or(*a.proxy.keyLimits.Load())
	a.metered = limits.TokensPerMinute > 0 || limits.TokensPerMonth > 0
	return a.unlessRefused(ctx, func() (refusal *quota.Refusal) {
		a.pass, refusal = a.proxy.limiter.Enter(a.proxy.opts.Clock(), r.caller.KeyID, limits, r.caller.Use, r.estimatedTokens())
		return refusal
	})
}

// firstLease is how long a request waits for the first lease of a limit that it would exceed without one. The centre of
// a cluster grants it within some 20 ms.
const firstLease = 250 * time.Millisecond

// unlessRefused runs enter, and runs it again if it was refused only for lack of a lease that then arrived.
func (a *allowance) unlessRefused(ctx context.Context, enter func() *quota.Refusal) error {
	refusal := enter()
	if refusal != nil && refusal.Coming != nil {
		timer := time.NewTimer(firstLease)
		defer timer.Stop()
		select {
		case <-refusal.Coming:
			refusal = enter()
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if refusal != nil {
		return a.refuse(refusal)
	}
	return nil
}

func (a *allowance) refuse(refusal *quota.Refusal) error {
	a.refused = true
	a.final = refusal.Error.Kind == codec.KindQuota || refusal.Limit == quota.Repeats || refusal.Limit == quota.StalledTokens
	a.proxy.telemetry.Limited(string(refusal.Limit))
	return refusal.Error
}

// reserve reserves the tokens that a request may use of the limited key's month.
func (a *allowance) reserve(ctx context.Context, prompt, answer int64) error {
	return a.unlessRefused(ctx, func() *quota.Refusal {
		return a.pass.Reserve(a.proxy.opts.Clock(), codec.AddCounts(prompt, answer))
	})
}

// leave counts what the exchange has used.
func (a *allowance) leave(use *store.KeyUse, tokens int64, spent record.USD) {
	now := a.proxy.opts.Clock()
	a.proxy.budgets.Settle(now, &a.claim, spent)
	if a.pass == nil {
		use.AddTokens(now, tokens)
		return
	}
	a.pass.Leave(now, tokens)
}
