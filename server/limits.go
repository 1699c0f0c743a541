package server

import (
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/repeats"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store/record"
)

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
	if refusal.Error.Kind == codec.KindQuota || refusal.Limit == quota.Repeats || refusal.Limit == quota.StalledTokens {
		x.answer.out.Set("X-Should-Retry", "false") // the SDKs of OpenAI and Anthropic follow it
	}
	return refusal.Error
}

// leaveLimits counts the tokens that the exchange has used.
func (x *exchange) leaveLimits() {
	now, used := x.server.opts.Clock(), x.recording.closing.Usage.Total()
	x.server.budgets.Settle(now, &x.request.claim, x.recording.spent())
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

// firstReport is how many rounds a loop has when it is first reported; it is reported again whenever they have doubled.
const firstReport = 5

// reportRepeats reports an agent that goes in circles to the caller and the operator, and refuses the request if the key
// bounds that. Without a bound the request goes on unchanged.
func (x *exchange) reportRepeats() error {
	r := &x.request
	if !r.surface.Converses() || r.auxiliary != "" || len(r.envelope.Items) < 2*repeats.Fewest {
		return nil
	}
	limits := r.caller.Limits.Or(*x.server.keyLimits.Load())
	most := int(limits.Repeats)
	least := firstReport
	if most > 0 {
		least = min(least, most)
	}
	loop := repeats.Find(r.surface, r.body, r.envelope.Items, least)
	if loop.Times == 0 {
		return nil
	}
	for i := range loop.Calls {
		loop.Calls[i] = edge.Printable(x.request.masked(loop.Calls[i])) // the caller chose it
	}
	limit, sentence := quota.Limit(""), ""
	switch {
	case most > 0 && loop.Times >= most:
		limit, sentence = quota.Repeats, stopped(&loop, most)
	case limits.StalledTokens > 0 && loop.Tokens >= limits.StalledTokens:
		limit, sentence = quota.StalledTokens, stalled(&loop, limits.StalledTokens)
	}
	x.recording.closing.Repeats = loop.String()
	x.answer.out.Set(headerRepeats, x.recording.closing.Repeats)
	x.announceRepeats(&loop, limit != "")
	if limit == "" {
		return nil
	}
	e := codec.Errorf(codec.KindInvalidRequest, "%s", sentence)
	e.Code = string(limit)
	return x.turnAway(&quota.Refusal{Limit: limit, Error: e})
}

// announceRepeats writes a loop to the log and sends its webhook: at the fifth round, whenever the rounds have doubled,
// and when it is refused; of a client that retries, once a minute.
func (x *exchange) announceRepeats(loop *repeats.Loop, refused bool) {
	r, now := &x.request, x.server.opts.Clock()
	report := repeats.Report{Key: r.caller.KeyID, Session: r.affinity(), Times: loop.Times}
	if refused {
		report.Times = 0
	}
	if !refused && !isReported(loop.Times) || !x.server.loops.Due(now, report) {
		return
	}
	x.server.log.WarnContext(x.ctx, "an agent repeats itself", "account", r.caller.Account, "key", r.caller.KeyID, "calls", loop.Calls, "times", loop.Times, "tokens", loop.Tokens, "refused", refused)
	x.server.opts.Webhooks.Tell(webhook.Repeats, now, webhook.AgentRepeats{
		Account: r.caller.Account, Key: r.caller.KeyID, Model: x.request.masked(r.envelope.Model), Calls: loop.Calls, Times: loop.Times, Tokens: loop.Tokens, Refused: refused,
	})
}

// isReported reports whether a loop of so many rounds is reported to the operator.
func isReported(times int) bool {
	for at := firstReport; at <= times; at *= 2 {
		if at == times {
			return true
		}
	}
	return false
}

func stopped(loop *repeats.Loop, most int) string {
	return fmt.Sprintf("This agent has called %s with the same arguments and got the same result %d times in a row. This service key stops that at %d. Tell the agent what to do instead, and it goes on; or raise the limit with: mneme key update --repeats.",
		loop.Named(), loop.Times, most)
}

func stalled(loop *repeats.Loop, most int64) string {
	return fmt.Sprintf("This agent has sent about %d tokens since its last new result: it called %s with the same arguments and got the same result %d times. This service key stops that at %d tokens. Tell the agent what to do instead, and it goes on; or raise the limit with: mneme key update --stalled-tokens.",
		loop.Tokens, loop.Named(), loop.Times, most)
}
