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

// serve serves one surface. This is the way of every exchange; each step makes one part of it, which later steps read.
func (s *Server) serve(surface codec.Format) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		x := s.newExchange(ctx, in, out, surface)
		defer x.finish() // whatever happens, a panic included
		if err := x.run(); err != nil {
			x.refuse(asError(err))
		}
	}
}

// run takes the request the whole way. An error that it returns is for the client, who has not been answered yet.
func (x *exchange) run() error {
	if err := x.accept(); err != nil {
		return err
	}
	if x.request.surface == codec.Embeddings {
		return x.embed()
	}
	return x.generate()
}

// accept takes the request up to where it is on record and a provider is to be asked.
func (x *exchange) accept() error {
	if err := x.admit(); err != nil {
		return err
	}
	if err := x.read(); err != nil {
		return err
	}
	if err := x.place(); err != nil {
		return err
	}
	if err := x.reserveBudget(); err != nil {
		return err
	}
	return x.record()
}

// finish ends what the exchange has begun: its record, what it holds of budgets and limits, its telemetry.
func (x *exchange) finish() {
	x.server.bodies.Give(x.request.reserved)
	x.answer.out.GiveWhenSent(x.server.answers, x.answer.held)
	x.closeRecord()
	x.leaveLimits()
	x.tellFailure()
	x.report()
	x.request.release()
}

// exchange is one request on its way through the proxy, with its answer. It belongs to its handler's goroutine.
type exchange struct {
	server *Server
	ctx    context.Context  // ends when the client leaves, or when the server aborts what is still open
	router *router.Router   // the one in use when the exchange began
	trace  *telemetry.Trace // nil without tracing

	request   request   // what the client asks
	route     route     // where that goes
	attempts  attempts  // what providers were asked
	answer    answer    // what the client gets
	recording recording // what is put on record
}

func (s *Server) newExchange(ctx context.Context, in *edge.Request, out *edge.Response, surface codec.Format) *exchange {
	return &exchange{
		server: s, ctx: ctx, router: s.router.Load(),
		request: request{in: in, surface: surface, started: time.Now(), openings: &s.openings},
		answer:  answer{out: out},
	}
}

// admit finds out who asks, and whether they may.
func (x *exchange) admit() error {
	var err error
	x.request.caller, err = x.server.authenticate(x.request.in, x.answer.out)
	x.request.redactor = x.server.engine.Credentials.Redactor(x.request.caller.Account, x.request.caller.brought()...)
	x.beginTrace()
	if err != nil {
		return err
	}
	if err := x.request.caller.requireScope(store.ScopeWrite); err != nil {
		return err
	}
	return x.keepWithinLimits()
}

// read takes in the body.
func (x *exchange) read() (err error) {
	r := &x.request
	if r.body, err = x.server.readBody(r.in); err != nil {
		return err
	}
	r.reserved = int64(len(r.body))
	if err := r.readEnvelope(&x.server.pieces); err != nil {
		return err
	}
	if err := x.reserveTokens(); err != nil {
		return err
	}
	return r.preferHeaders()
}
