package server

import (
	"context"
	"errors"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// answer is what the client gets.
type answer struct {
	out   *edge.Response
	begun bool  // bytes of it have been handed to the client
	sent  int64 // bytes of one that is sent as it comes
	held  int64 // bytes of the budget of answers, until it has been sent
	gaps  *telemetry.Gaps
}

// relay makes of a provider's stream what the client gets: the very bytes (pass.go), or their translation (cross.go). It knows
// the id of the answer and the number of its events, so that whatever is said in the provider's place goes on from there.
type relay interface {
	// frames takes in the frames that have come whole, tells p what each is, and gives what the client gets for them. That
	// is valid until the next call.
	frames(p *pump) []byte
	// end takes in the end of a body without a terminal event, with what was left after the last frame. It reports whether
	// the answer is complete by the format's own rules.
	end(p *pump, residue []byte) (out []byte, complete bool)
	// rest is what follows the terminal event without a blank line.
	rest(p *pump) []byte
	// fail appends the error that the answer ends with; next is the number of that event.
	fail(dst []byte, e *codec.Error, next int64) []byte
	// next is the number that goes on after the events so far, 0 where they have none.
	next() int64
	// seen is what the answer has said of itself so far.
	seen() *crossing.Seen
	// announce tells the client, in the head of the answer, what is done to it; record tells the record.
	announce()
	record()
	// answersWithStatus reports whether an error that the stream begins with becomes an answer with a status.
	answersWithStatus() bool
	release()
}

// answerOptions is what an encoder has to know of this exchange.
func (x *exchange) answerOptions() *codec.AnswerOptions {
	return &codec.AnswerOptions{
		ID:             strings.TrimPrefix(x.recording.capture.ID(), "exch_"),
		Previous:       x.request.envelope.PreviousResponse,
		Model:          x.request.envelope.Model,
		Created:        x.request.started,
		ShowReasoning:  true,
		RefusalAsText:  clients.IsCodex(x.request.in),
		EstimatedInput: int64(len(x.request.body)/bytesPerToken + 1),
	}
}

// hold takes room for n bytes of an answer from the budget of all answers, until they have been sent.
func (x *exchange) hold(n int64) error {
	if !x.server.answers.Take(n) {
		e := codec.Errorf(codec.KindOverloaded, "The proxy is holding as many bytes of answers as it has room for. Try again in a second.")
		e.RetryAfter = edge.RetrySoon
		return e
	}
	x.answer.held += n
	return nil
}

// letGo gives room back before the answer has been sent.
func (x *exchange) letGo(n int64) {
	x.server.answers.Give(n)
	x.answer.held -= n
}

// refuse answers with an error. Nothing of an answer has been sent.
func (x *exchange) refuse(e *codec.Error) {
	e = x.discreet(x.orDraining(e))
	x.recordRefusal(e)
	if e.Provider != "" && e.Kind != codec.KindUpstreamAuth { // what is said to a credential of ours is not for the caller
		x.providerHeader(x.attempts.replied)
	}
	x.ourHeader()
	x.server.answerError(x.answer.out, x.request.surface, e, x.recording.id())
	if !x.clientGone() {
		x.recording.closing.Error = e
		x.recording.closing.Status = x.answer.out.Status()
		x.recording.closing.ContentType = "application/json"
	}
	if x.recording.capture != nil && !x.clientGone() {
		_, _ = x.recording.capture.Write(x.answer.out.Body())
	}
	x.tryCommit(outcomeOf(x.ctx, e, x.route.placement.Provider != nil))
	if x.recording.capture != nil {
		x.sessionHeader()
	}
}

// answerError answers with e in the shape and with the status of the surface.
func (s *Server) answerError(out *edge.Response, surface codec.Format, e *codec.Error, exchange string) {
	if e.Kind == codec.KindInternal {
		s.log.Error("request failed", "error", e.Message, "cause", e.Cause, "exchange", exchange)
	}
	client := crossing.ClientCodec(surface)
	out.SetStatus(client.Status(e))
	out.SetContentType("application/json")
	if e.RetryAfter > 0 {
		out.SetRetryAfter(e.RetryAfter)
	}
	if exchange != "" {
		out.Set(headerExchangeID, exchange)
	}
	out.SetBody(client.AppendError(nil, e, &codec.AnswerOptions{ID: exchange}))
}

// asError is the error for the client that err is, or stands for.
func asError(err error) *codec.Error {
	return codec.AsError(err, "The proxy failed on this request. It is logged.")
}

// isForClient tells errors of ours and of the provider's from a connection to the client that failed.
func isForClient(err error) bool {
	var e *codec.Error
	return errors.As(err, &e)
}

// orDraining is e, or what stands for it when the exchange failed because the server is shutting down.
func (x *exchange) orDraining(e *codec.Error) *codec.Error {
	if context.Cause(x.ctx) == error(edge.ErrDraining) { //nolint:errorlint // the very value that contexts are aborted with
		return edge.ErrDraining
	}
	return e
}

// discreet is e without the credentials that are in use here: providers quote what they refuse.
func (x *exchange) discreet(e *codec.Error) *codec.Error {
	masked := *e
	for _, text := range []*string{&masked.Message, &masked.Code, &masked.Param} {
		*text = x.request.redactor.Known(*text)
	}
	if masked == *e {
		return e
	}
	return &masked
}

// clientGone reports whether the client has left.
func (x *exchange) clientGone() bool {
	return x.ctx.Err() != nil && context.Cause(x.ctx) != error(edge.ErrDraining) //nolint:errorlint // as above
}

// outcomeOf is how an exchange that failed with e ended.
func outcomeOf(ctx context.Context, e *codec.Error, placed bool) store.Outcome {
	switch {
	case context.Cause(ctx) == error(edge.ErrDraining): //nolint:errorlint // as above
		return store.OutcomeInterrupted
	case ctx.Err() != nil:
		return store.OutcomeClientClosed
	case !placed || e.Kind == codec.KindInvalidRequest && e.Provider == "":
		return store.OutcomeRefused
	default:
		return store.OutcomeUpstreamError
	}
}
