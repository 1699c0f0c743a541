package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/record"
)

// answer is what the client gets.
type answer struct {
	out   *edge.Response
	begun bool  // some of it has been handed to the client
	sent  int64 // bytes sent of an answer that is passed on as it arrives
	held  int64 // bytes taken from the budget of answers until it has been sent
	gaps  *telemetry.Gaps
}

// relay turns a provider's stream into the client's: the same bytes (pass.go), or their translation (cross.go). It
// knows the id of the answer and the number of its events, so that anything written in the provider's place continues
// from there.
type relay interface {
	// frames reads the complete frames, tells p the kind of each, and returns the client's bytes for them, valid until
	// the next call.
	frames(p *pump) []byte
	// end handles the end of a body without a terminal event, with the bytes after the last frame. It reports whether
	// the answer is complete by the format's own rules.
	end(p *pump, residue []byte) (out []byte, complete bool)
	// rest returns what follows the terminal event without a blank line.
	rest(p *pump) []byte
	// fail appends the error that ends the answer; next is the number of that event.
	fail(dst []byte, e *codec.Error, next int64) []byte
	// next returns the number of the next event, 0 if events have none.
	next() int64
	// seen returns what the answer has said about itself so far.
	seen() *crossing.Seen
	// announce describes in the head of the answer what is done to it; record puts the same on record.
	announce()
	record()
	// answersWithStatus reports whether an error at the start of the stream becomes an answer with a status.
	answersWithStatus() bool
	release()
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

// hold reserves n bytes for an answer in the budget of all answers, until they have been sent.
func (x *exchange) hold(n int64) error {
	if !x.server.answers.Take(n) {
		return errAnswersFull()
	}
	x.answer.held += n
	return nil
}

func errAnswersFull() error {
	e := codec.Errorf(codec.KindOverloaded, "The proxy is out of memory for answers (limits.in_flight_bytes). Try again in a second.")
	e.RetryAfter = edge.RetrySoon
	return e
}

// releaseHeld releases the reservation before the answer has been sent.
func (x *exchange) releaseHeld(n int64) {
	x.server.answers.Give(n)
	x.answer.held -= n
}

// refuse answers with an error. Nothing of the answer may have been sent.
func (x *exchange) refuse(err error) {
	e := x.request.discreet(x.orDraining(asError(err)))
	x.recordRefusal(e)
	x.logRefusal(e)
	if e.Provider != "" && e.Kind != codec.KindUpstreamAuth { // errors about our own credential are not for the caller
		x.providerHeader(x.attempts.replied)
	}
	x.ourHeader()
	x.server.answerError(x.answer.out, x.request.shape(), e, x.recording.id())
	if !x.clientGone() {
		x.recording.closing.Error = e
		x.recording.closing.Status = x.answer.out.Status()
		x.recording.closing.ContentType = "application/json"
	}
	if x.recording.capture != nil && !x.clientGone() {
		_, _ = x.recording.capture.Write(x.answer.out.Body())
	}
	x.tryCommit(outcomeOf(x.ctx, e, false))
	if x.recording.capture != nil {
		x.sessionHeader()
	}
}

// shape returns the surface in whose shape errors of the exchange are written.
func (r *request) shape() codec.Format {
	switch {
	case r.passing != nil:
		return errorShape(r.in)
	case r.addressed != nil:
		return addressedForm
	}
	return r.surface
}

// logRefusal logs an error that is about the caller. Callers without a key are logged where they are authenticated.
func (x *exchange) logRefusal(e *codec.Error) {
	aboutCaller := e.Kind == codec.KindPermission || e.Kind == codec.KindQuota || e.Kind == codec.KindRateLimited
	if aboutCaller && e.Provider == "" {
		x.server.logRefusal(x.request.in, &x.request.caller.Identity, x.request.masked(e.Message))
	}
}

// answerError answers with e in the surface's shape and status.
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

// asError returns err as an error for the client.
func asError(err error) *codec.Error {
	return codec.AsError(err, "The proxy failed on this request. It is logged.")
}

// isForClient reports whether an error is ours or the provider's, not a failed connection to the client.
func isForClient(err error) bool {
	var e *codec.Error
	return errors.As(err, &e)
}

// orDraining returns e, or the draining error if the exchange failed because the server is shutting down.
func (x *exchange) orDraining(e *codec.Error) *codec.Error {
	if context.Cause(x.ctx) == error(edge.ErrDraining) { //nolint:errorlint // the very value that contexts are aborted with
		return edge.ErrDraining
	}
	return e
}

// discreet returns e without the credentials in use: providers quote what they refuse.
func (r *request) discreet(e *codec.Error) *codec.Error {
	masked := *e
	for _, text := range []*string{&masked.Message, &masked.Code, &masked.Param} {
		*text = r.redactor.Known(*text)
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

// outcomeOf returns the outcome of an exchange that failed with e. Only an error of the provider counts as its failure,
// wherever the exchange was when it failed: budgets, limits and the memory of this server refuse as well. begun reports
// whether the client has got some of the answer.
func outcomeOf(ctx context.Context, e *codec.Error, begun bool) record.Outcome {
	switch {
	case context.Cause(ctx) == error(edge.ErrDraining): //nolint:errorlint // as above
		return record.OutcomeStopped
	case ctx.Err() != nil:
		return record.OutcomeClientClosed
	case e.Provider != "":
		return record.OutcomeUpstreamError
	case begun:
		return record.OutcomeInterrupted
	default:
		return record.OutcomeRefused
	}
}
