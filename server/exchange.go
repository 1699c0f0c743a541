package server

import (
	"context"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/telemetry"
)

// exchange is one request on its way through the proxy, with its answer. It belongs to its handler's goroutine.
type exchange struct {
	proxy  *proxy
	ctx    context.Context  // ends when the client leaves, or when the server aborts what is still open
	router *router.Router   // in use when the exchange began
	trace  *telemetry.Trace // nil without tracing

	detached bool // another exchange has taken over, in the background

	request   request   // the client's request
	route     route     // where it goes
	attempts  attempts  // the calls to providers
	answer    answer    // the client's answer
	recording recording // the durable record
	allowance allowance // by the caller's limits and budgets
}

func (s *proxy) newExchange(ctx context.Context, in *edge.Request, out *edge.Response, surface codec.Format) *exchange {
	return &exchange{
		proxy: s, ctx: ctx, router: s.router.Load(),
		request: request{in: in, surface: surface, started: time.Now(), openings: &s.openings, share: s.held.Share()},
		answer:  answer{out: out, budget: s.answers}, allowance: allowance{proxy: s},
	}
}

// answerOptions returns what an encoder needs to know about this exchange.
func (x *exchange) answerOptions() *codec.AnswerOptions {
	return &codec.AnswerOptions{
		ID:             strings.TrimPrefix(x.recording.capture.ID(), "exch_"),
		Previous:       x.request.envelope.PreviousResponse,
		Model:          x.request.envelope.Model,
		Created:        x.request.started,
		Clock:          time.Now,
		ShowReasoning:  true,
		RefusalAsText:  clients.IsCodex(x.request.in),
		EstimatedInput: x.request.bodySize()/bytesPerToken + 1,
	}
}
