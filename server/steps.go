package server

import (
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// arrive runs the steps up to where the request goes.
func (x *exchange) arrive() error {
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.request.readBody(x.proxy.opts.BodyBytes); err != nil {
		return err
	}
	if x.request.in.Announced() < 0 {
		if err := x.allowance.enter(x.ctx, &x.request); err != nil {
			return err
		}
	}
	if err := x.proxy.beginWork(x.ctx, &x.request); err != nil {
		return err
	}
	defer x.proxy.endWork(&x.request)
	if err := x.request.read(&x.proxy.pieces); err != nil {
		return err
	}
	return x.route.find(x.router, &x.request)
}

// enter reserves what the request may use, and puts it on record.
func (x *exchange) enter() error {
	if err := x.proxy.beginWork(x.ctx, &x.request); err != nil {
		return err
	}
	defer x.proxy.endWork(&x.request)
	if err := x.reportRepeats(); err != nil {
		return err
	}
	if x.trace.Recording() {
		x.recording.tools = x.request.answeredTools()
	}
	if prompt := x.request.estimatedTokens(); prompt > 0 && x.allowance.pass != nil {
		if err := x.allowance.reserve(x.ctx, prompt, longestAnswer(x.router, &x.request, x.route.placement)); err != nil {
			return err
		}
	}
	if err := x.reserveBudget(); err != nil {
		return err
	}
	return x.record()
}

// admit authenticates the caller and checks permissions.
func (x *exchange) admit() error {
	var err error
	x.request.caller, err = x.proxy.authenticateAt(x.request.in, x.answer.out, x.request.googles())
	x.request.redactor = x.proxy.engine.Credentials.Redactor(x.request.caller.Account, x.request.caller.brought()...)
	x.trace = x.proxy.beginTrace(x.ctx, &x.request)
	if err != nil {
		return err
	}
	if err := x.request.caller.requireScope(store.ScopeWrite); err != nil {
		return err
	}
	if x.request.in.Announced() < 0 {
		return nil // the limits of the key count the body, which has no length yet
	}
	return x.allowance.enter(x.ctx, &x.request)
}

// finish releases what the exchange holds: its record, its share of budgets and limits, its telemetry.
func (x *exchange) finish() {
	if x.detached {
		return
	}
	x.answer.out.GiveWhenSent(x.answer.budget, x.answer.held)
	x.tryCommit(record.OutcomeInterrupted) // if nothing else ended it: after a panic, for instance
	x.allowance.leave(x.request.caller.Use, x.recording.closing.Usage.Total(), x.recording.spent())
	x.proxy.tellFailure(&x.request, &x.recording, x.route.placement.Provider)
	x.report()
	x.request.release()
	x.request.share.GiveAll()
}
