package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// accept runs every step before a provider is asked, up to recording the request.
func (x *exchange) accept() error {
	if err := x.arrive(); err != nil {
		return err
	}
	return x.enter()
}

// arrive runs the steps up to where the request goes.
func (x *exchange) arrive() error {
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.request.readBody(x.server.opts.BodyBytes); err != nil {
		return err
	}
	if x.request.in.Announced() < 0 {
		if err := x.keepWithinLimits(); err != nil {
			return err
		}
	}
	if err := x.beginWork(); err != nil {
		return err
	}
	defer x.endWork()
	if err := x.read(); err != nil {
		return err
	}
	return x.place()
}

// enter reserves what the request may use, and puts it on record.
func (x *exchange) enter() error {
	if err := x.beginWork(); err != nil {
		return err
	}
	defer x.endWork()
	if err := x.reportRepeats(); err != nil {
		return err
	}
	if err := x.reserveTokens(); err != nil {
		return err
	}
	if err := x.reserveBudget(); err != nil {
		return err
	}
	return x.record()
}

// admit authenticates the caller and checks permissions.
func (x *exchange) admit() error {
	var err error
	x.request.caller, err = x.server.authenticateAt(x.request.in, x.answer.out, x.request.googles())
	x.request.redactor = x.server.engine.Credentials.Redactor(x.request.caller.Account, x.request.caller.brought()...)
	x.beginTrace()
	if err != nil {
		return err
	}
	if err := x.request.caller.requireScope(store.ScopeWrite); err != nil {
		return err
	}
	if x.request.in.Announced() < 0 {
		return nil // the limits of the key count the body, which has no length yet
	}
	return x.keepWithinLimits()
}

// read reads what the body says.
func (x *exchange) read() error {
	r := &x.request
	if err := r.readEnvelope(&x.server.pieces); err != nil {
		return err
	}
	return r.preferHeaders()
}

// place finds the provider and the format to speak to it.
func (x *exchange) place() error {
	if err := x.request.caller.requireModels(&x.request.envelope, x.request.body); err != nil {
		return err
	}
	var placement router.Placement
	var refused *codec.Error
	if at := x.request.at; at != nil {
		placement, refused = x.router.PlaceAt(at, x.request.envelope.Model)
	} else {
		placement, refused = x.router.Place(x.request.envelope.Model)
	}
	if refused != nil {
		return refused
	}
	x.route.to(placement, &x.request)
	return nil
}

// finish releases what the exchange holds: its record, its share of budgets and limits, its telemetry.
func (x *exchange) finish() {
	if x.detached {
		return
	}
	x.answer.out.GiveWhenSent(x.answer.budget, x.answer.held)
	x.tryCommit(record.OutcomeInterrupted) // if nothing else ended it: after a panic, for instance
	x.leaveLimits()
	x.tellFailure()
	x.report()
	x.request.release()
	x.request.share.GiveAll()
}
