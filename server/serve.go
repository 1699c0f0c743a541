package server

import (
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// serve serves one surface. This is the path of every exchange; each step makes one part of it, which later steps read.
func (s *proxy) serve(surface codec.Format) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		x := s.newExchange(ctx, in, out, surface)
		defer x.finish() // whatever happens, a panic included
		x.run()
	}
}

// runSurface answers the request, counts its tokens, or passes it on, as its path asks.
func (x *exchange) runSurface() {
	switch r := &x.request; {
	case r.passing != nil:
		p := passage{passing: r.passing, x: x}
		p.run()
	case r.auxiliary == record.AuxiliaryTokens:
		if err := x.countTokens(); err != nil {
			x.refuse(err)
		}
	default:
		x.run()
	}
}

// run answers the request. If a step fails, nothing has been sent to the client yet.
func (x *exchange) run() {
	err := x.arrive()
	if err == nil && mustCompact(&x.request, &x.route) {
		c := compaction{x: x}
		err = c.run()
	} else if err == nil {
		err = x.proceed()
	}
	if err != nil {
		x.refuse(err)
	}
}

// proceed puts the request on record and answers it.
func (x *exchange) proceed() error {
	if err := x.enter(); err != nil {
		return err
	}
	switch {
	case x.request.surface == codec.Embeddings:
		e := embedding{x: x}
		return e.run()
	case x.request.envelope.Background && storesAnswers(x.request.surface):
		return x.runInBackground()
	}
	return x.generate()
}

// countTokens answers a request for the size of a prompt: by the provider if it is the author of the surface's format,
// else by an estimate, so that clients that count before they send get an answer for every family.
func (s *proxy) countTokens(surface codec.Format) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		x := s.newExchange(ctx, in, out, surface)
		x.request.auxiliary = record.AuxiliaryTokens
		defer x.finish()
		x.runSurface()
	}
}
