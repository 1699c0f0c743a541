package server

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/repeats"
	"github.com/mnemeproxy/mneme/server/webhook"
)

// firstReport is how many rounds a loop has when it is first reported; it is reported again whenever they have doubled.
const firstReport = 5

// reportRepeats reports an agent that goes in circles to the caller and the operator, and refuses the request if the key
// bounds that. Without a bound the request goes on unchanged.
func (x *exchange) reportRepeats() error {
	r := &x.request
	if !r.surface.Converses() || r.auxiliary != "" || len(r.envelope.Items) < 2*repeats.Fewest {
		return nil
	}
	limits := r.caller.Limits.Or(*x.proxy.keyLimits.Load())
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
		loop.Calls[i] = edge.Printable(r.masked(loop.Calls[i])) // the caller chose it
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
	x.proxy.announceRepeats(x.ctx, r, &loop, limit != "")
	if limit == "" {
		return nil
	}
	e := codec.Errorf(codec.KindInvalidRequest, "%s", sentence)
	e.Code = string(limit)
	return x.allowance.refuse(&quota.Refusal{Limit: limit, Error: e})
}

// announceRepeats writes a loop to the log and sends its webhook: at the fifth round, whenever the rounds have doubled,
// and when it is refused; of a client that retries, once a minute.
func (s *proxy) announceRepeats(ctx context.Context, r *request, loop *repeats.Loop, refused bool) {
	now := s.opts.Clock()
	report := repeats.Report{Key: r.caller.KeyID, Session: r.affinity(), Times: loop.Times}
	if refused {
		report.Times = 0
	}
	if !refused && !isReported(loop.Times) || !s.loops.Due(now, report) {
		return
	}
	s.log.WarnContext(ctx, "an agent repeats itself", "account", r.caller.Account, "key", r.caller.KeyID, "calls", loop.Calls, "times", loop.Times, "tokens", loop.Tokens, "refused", refused)
	s.opts.Webhooks.Tell(webhook.Repeats, now, webhook.AgentRepeats{
		Account: r.caller.Account, Key: r.caller.KeyID, Model: r.masked(r.envelope.Model), Calls: loop.Calls, Times: loop.Times, Tokens: loop.Tokens, Refused: refused,
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
