package server

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// serve serves one surface. This is the path of every exchange; each step makes one part of it, which later steps read.
func (s *Server) serve(surface codec.Format) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		x := s.newExchange(ctx, in, out, surface)
		defer x.finish() // whatever happens, a panic included
		x.run()
	}
}

// run answers the request. If a step fails, nothing has been sent to the client yet.
func (x *exchange) run() {
	err := x.arrive()
	if err == nil && x.mustCompact() {
		err = x.prepareCompaction()
	}
	if err == nil {
		err = x.enter()
	}
	switch {
	case err != nil:
	case x.request.compaction != nil:
		err = x.compact()
	case x.request.surface == codec.Embeddings:
		err = x.embed()
	case x.request.envelope.Background && storesAnswers(x.request.surface):
		err = x.runInBackground()
	default:
		err = x.generate()
	}
	if err != nil {
		x.refuse(err)
	}
}

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
	if err := x.readBody(); err != nil {
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

// finish releases what the exchange holds: its record, its share of budgets and limits, its telemetry.
func (x *exchange) finish() {
	if x.detached {
		return
	}
	x.answer.out.GiveWhenSent(x.server.answers, x.answer.held)
	x.closeRecord()
	x.leaveLimits()
	x.tellFailure()
	x.report()
	x.request.release()
	x.request.share.GiveAll()
}

// exchange is one request on its way through the proxy, with its answer. It belongs to its handler's goroutine.
type exchange struct {
	server *Server
	ctx    context.Context  // ends when the client leaves, or when the server aborts what is still open
	router *router.Router   // in use when the exchange began
	trace  *telemetry.Trace // nil without tracing

	detached bool // another exchange has taken over, in the background

	request   request   // the client's request
	route     route     // where it goes
	attempts  attempts  // the calls to providers
	answer    answer    // the client's answer
	recording recording // the durable record
}

func (s *Server) newExchange(ctx context.Context, in *edge.Request, out *edge.Response, surface codec.Format) *exchange {
	return &exchange{
		server: s, ctx: ctx, router: s.router.Load(),
		request: request{in: in, surface: surface, started: time.Now(), openings: &s.openings, share: s.held.Share()},
		answer:  answer{out: out},
	}
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
