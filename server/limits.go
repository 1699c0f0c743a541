package server

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// LimitKeys sets the limits of keys that have none of their own, from the next request on.
func (s *Server) LimitKeys(l store.Limits) { s.keyLimits.Store(&l) }

// keepWithinLimits admits the exchange within the limits of the caller's key. Refused requests are counted but not
// recorded, so that impatient callers cost little.
func (x *exchange) keepWithinLimits() error {
	limits := x.request.caller.Limits.Or(*x.server.keyLimits.Load())
	x.request.metered = limits.TokensPerMinute > 0 || limits.TokensPerMonth > 0
	return x.unlessRefused(func() (refusal *quota.Refusal) {
		x.request.pass, refusal = x.server.limiter.Enter(x.server.opts.Clock(), x.request.caller.KeyID, limits, x.request.caller.Use, x.request.estimatedTokens())
		return refusal
	})
}

// firstLease is how long a request waits for the first lease of a limit that it would exceed without one. The centre of
// a cluster grants it within some 20 ms.
const firstLease = 250 * time.Millisecond

// unlessRefused runs enter, and runs it again if it was refused only for lack of a lease that then arrived.
func (x *exchange) unlessRefused(enter func() *quota.Refusal) error {
	refusal := enter()
	if refusal != nil && refusal.Coming != nil {
		timer := time.NewTimer(firstLease)
		defer timer.Stop()
		select {
		case <-refusal.Coming:
			refusal = enter()
		case <-timer.C:
		case <-x.ctx.Done():
		}
	}
	if refusal != nil {
		return x.turnAway(refusal)
	}
	return nil
}

// reserveTokens reserves the tokens that the request may use of the key's month.
func (x *exchange) reserveTokens() error {
	prompt := x.request.estimatedTokens()
	if prompt == 0 || x.request.pass == nil {
		return nil
	}
	return x.unlessRefused(func() *quota.Refusal {
		return x.request.pass.Reserve(x.server.opts.Clock(), codec.AddCounts(prompt, x.longestAnswer()))
	})
}

func (x *exchange) turnAway(refusal *quota.Refusal) error {
	x.request.limited = true
	x.server.telemetry.Limited(string(refusal.Limit))
	if refusal.Error.Kind == codec.KindQuota || refusal.Limit == quota.Repeats {
		x.answer.out.Set("X-Should-Retry", "false") // the SDKs of OpenAI and Anthropic heed it
	}
	return refusal.Error
}

// leaveLimits counts the tokens that the exchange has used.
func (x *exchange) leaveLimits() {
	now, used := x.server.opts.Clock(), x.recording.closing.Usage.Total()
	x.server.budgets.Settle(now, &x.request.claim, x.spent())
	if x.request.pass == nil {
		x.request.caller.Use.AddTokens(now, used)
		return
	}
	x.request.pass.Leave(now, used)
}

// leftTheProvider reports whether this side ended the exchange while a provider had the request. A request whose
// connection was still being made counts as sent: the two cannot be told apart.
func (x *exchange) leftTheProvider() bool {
	switch x.recording.closing.Outcome {
	case record.OutcomeClientClosed, record.OutcomeInterrupted, record.OutcomeStopped:
	default:
		return false
	}
	last := len(x.attempts.made) - 1
	return last >= 0 && x.attempts.made[last].Failure == "" && x.attempts.made[last].Status < 300
}
