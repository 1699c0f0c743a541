package server

import (
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// generate has the model answer. If its provider cannot, and nothing has reached the client yet, it asks the first
// fallback that can. If none can, the client gets the error of the model that it asked for.
func (x *exchange) generate() error {
	if failed := x.ask(); failed != nil {
		return x.fallBack(failed)
	}
	return nil
}

// fallBack asks the fallbacks in turn, if there are any for that failure.
func (x *exchange) fallBack(failed error) error {
	if !x.mayFallBack() || !router.FallsBack(asError(failed)) {
		return failed
	}
	asked, replied := x.route.placement, x.attempts.replied
	x.recordFailure(asError(failed))
	for _, placement := range x.router.Fallbacks(asked) {
		if !x.route.mayAsk(placement.Provider, asked.Provider) {
			continue
		}
		x.server.telemetry.Fallback(asked.Provider.Name(), placement.Provider.Name())
		x.reset(placement)
		x.route.fallback = true
		err := x.ask()
		if err == nil || x.ctx.Err() != nil || asError(err).Kind == codec.KindStorage {
			return err
		}
		if e := asError(err); e.Provider != "" { // not if this server refused
			x.recordFailure(e)
		}
	}
	x.reset(asked)
	x.route.fallback, x.attempts.replied = false, replied
	return failed
}

// ask has the placed model answer, in its own format.
func (x *exchange) ask() error {
	if x.route.format != x.request.surface {
		return x.cross()
	}
	return x.passThrough()
}

// mayFallBack reports whether another model could still answer: nothing has reached the client, who is still connected.
func (x *exchange) mayFallBack() bool {
	if x.route.fallback || x.answer.begun || x.ctx.Err() != nil {
		return false
	}
	for _, placement := range x.router.Fallbacks(x.route.placement) {
		if x.route.mayAsk(placement.Provider, x.route.placement.Provider) {
			return true
		}
	}
	return false
}

// mayAsk reports whether a provider may replace another. A client's own credential is for one provider only, and its
// request is never charged to anyone else's account.
func (r *route) mayAsk(other, asked *router.Provider) bool { return !r.own || other == asked }

// reset clears the state of the failed attempt.
func (x *exchange) reset(placement router.Placement) {
	x.routeTo(placement)
	x.recording.closing, x.recording.written, x.recording.failed = record.Closing{}, 0, false
	x.answer.out.Del(headerTranslation)
}

// shouldFallBack reports whether status triggers a fallback, or already has: the client would otherwise see an error of
// a model that it does not know.
func (x *exchange) shouldFallBack(status int) bool {
	if x.route.fallback {
		return status >= http.StatusBadRequest
	}
	failing := status == http.StatusPaymentRequired || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	return failing && x.mayFallBack()
}
