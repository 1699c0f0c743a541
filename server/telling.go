package server

import (
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
)

// tellBudget tells webhooks that a budget is reached.
func (s *Server) tellBudget(m quota.Mark) {
	s.opts.Webhooks.Tell(webhook.Budget, s.opts.Clock(), webhook.BudgetReached{
		Account: m.Account, Key: m.Key, Limit: string(m.Limit), Percent: m.Percent, Spent: m.Spent, Budget: m.Budget, Reset: m.Reset,
	})
}

// tellFailure tells webhooks of an exchange that failed on the provider's side or on this one. What callers got wrong, and
// refusals, are theirs to know.
func (x *exchange) tellFailure() {
	closing := &x.recording.closing
	if closing.Outcome != store.OutcomeUpstreamError && closing.Outcome != store.OutcomeInterrupted {
		return
	}
	failed := webhook.ExchangeFailed{
		Account: x.request.caller.Account, Key: x.request.caller.KeyID, Exchange: x.recording.id(),
		Model: x.request.envelope.Model, Status: closing.Status, Outcome: closing.Outcome,
	}
	if p := x.route.placement.Provider; p != nil {
		failed.Provider = p.Name()
	}
	x.server.opts.Webhooks.Tell(webhook.Failure, x.server.opts.Clock(), failed)
}
