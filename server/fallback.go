package server

import (
	"net/http"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

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

// shouldFallBack reports whether status triggers a fallback, or already has: the client would otherwise see an error of
// a model that it does not know.
func (x *exchange) shouldFallBack(status int) bool {
	if x.route.fallback {
		return status >= http.StatusBadRequest
	}
	failing := status == http.StatusPaymentRequired || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	return failing && x.mayFallBack()
}

// mayAsk reports whether a provider may replace another. A client's own credential is for one provider only, and its
// request is never charged to anyone else's account.
func (r *route) mayAsk(other, asked *router.Provider) bool { return !r.own || other == asked }

// reset clears the state of the failed attempt.
func (x *exchange) reset(placement router.Placement) {
	x.route.to(placement, &x.request)
	x.recording.closing, x.recording.written, x.recording.failed = record.Closing{}, 0, false
	x.answer.out.Del(headerTranslation)
}
