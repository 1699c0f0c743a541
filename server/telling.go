package server

import (
	"github.com/mnemeproxy/mneme/router"
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
func (s *proxy) tellFailure(r *request, of *recording, at *router.Provider) {
	closing := &of.closing
	switch closing.Outcome {
	case record.OutcomeUpstreamError, record.OutcomeInterrupted, record.OutcomeStopped:
	default:
		return
	}
	failed := webhook.ExchangeFailed{
		Account: r.caller.Account, Key: r.caller.KeyID, Exchange: of.id(),
		Model: r.masked(r.envelope.Model), Status: closing.Status, Outcome: closing.Outcome,
	}
	if at != nil {
		failed.Provider = at.Name()
	}
	s.opts.Webhooks.Tell(webhook.Failure, s.opts.Clock(), failed)
}
