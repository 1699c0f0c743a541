package server

import (
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store/record"
)

// tellBudget sends a webhook about a reached budget, and logs a burst.
func (s *proxy) tellBudget(m quota.Mark) {
	if m.Limit == quota.BudgetBurst {
		s.log.Warn("money is spent fast", "account", m.Account, "key", m.Key, "spent_usd", m.Spent, "budget_usd", m.Budget, "percent", m.Percent, "until", m.Reset)
	}
	s.opts.Webhooks.Tell(webhook.Budget, s.opts.Clock(), webhook.BudgetReached{
		Account: m.Account, Key: m.Key, Limit: string(m.Limit), Percent: m.Percent, Spent: m.Spent, Budget: m.Budget, Reset: m.Reset,
	})
}

// tellFailure sends a webhook about an exchange that failed on the provider's side or on ours. Callers' own errors and
// refusals are theirs to handle.
func (x *exchange) tellFailure() {
	closing := &x.recording.closing
	switch closing.Outcome {
	case record.OutcomeUpstreamError, record.OutcomeInterrupted, record.OutcomeStopped:
	default:
		return
	}
	failed := webhook.ExchangeFailed{
		Account: x.request.caller.Account, Key: x.request.caller.KeyID, Exchange: x.recording.id(),
		Model: x.request.masked(x.request.envelope.Model), Status: closing.Status, Outcome: closing.Outcome,
	}
	if p := x.route.placement.Provider; p != nil {
		failed.Provider = p.Name()
	}
	x.server.opts.Webhooks.Tell(webhook.Failure, x.server.opts.Clock(), failed)
}
