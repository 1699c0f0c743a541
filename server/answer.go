package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/record"
)

// answer is what the client gets.
type answer struct {
	out    *edge.Response
	begun  bool         // some of it has been handed to the client
	sent   int64        // bytes sent of an answer that is passed on as it arrives
	budget *edge.Budget // of all answers
	held   int64        // bytes taken from the budget of answers until it has been sent
	gaps   *telemetry.Gaps
}

// hold reserves n bytes for an answer in the budget of all answers, until they have been sent.
func (a *answer) hold(n int64) error {
	if !a.budget.Take(n) {
		return errAnswersFull()
	}
	a.held += n
	return nil
}

func errAnswersFull() error {
	e := codec.Errorf(codec.KindOverloaded, "The proxy is out of memory for answers (limits.in_flight_bytes). Try again in a second.")
	e.RetryAfter = edge.RetrySoon
	return e
}

// release releases n bytes before the answer has been sent.
func (a *answer) release(n int64) {
	a.budget.Give(n)
	a.held -= n
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
func orDraining(ctx context.Context, e *codec.Error) *codec.Error {
	if context.Cause(ctx) == error(edge.ErrDraining) { //nolint:errorlint // the very value that contexts are aborted with
		return edge.ErrDraining
	}
	return e
}

// clientGone reports whether the client has left.
func clientGone(ctx context.Context) bool {
	return ctx.Err() != nil && context.Cause(ctx) != error(edge.ErrDraining) //nolint:errorlint // as above
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

func send(w *edge.Stream, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return err
	}
	return w.Flush()
}

const eventStream = "text/event-stream"

func eventHeader(out *edge.Response) {
	out.SetStatus(http.StatusOK)
	out.SetContentType(eventStream)
	out.Set("Cache-Control", "no-cache")
	out.Set("X-Accel-Buffering", "no") // tells reverse proxies not to buffer events
}
