package server

import (
	"strconv"
	"time"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// retrySoon is the wait that is asked of clients when the proxy itself is full.
const retrySoon = time.Second

// answerError answers with e in the shape and with the status of the surface.
func (s *Server) answerError(rc *app.RequestContext, surface codec.Format, e *codec.Error, exchange string) {
	if e.Kind == codec.KindInternal {
		s.log.Error("request failed", "error", e.Message, "cause", e.Cause, "exchange", exchange)
	}
	half := crossing.ClientHalf(surface)
	rc.Response.ResetBody()
	rc.Response.SetStatusCode(half.Status(e))
	rc.Response.Header.SetContentType("application/json")
	if e.RetryAfter > 0 {
		setRetryAfter(rc, e.RetryAfter)
	}
	if exchange != "" {
		rc.Response.Header.Set(headerExchangeID, exchange)
	}
	rc.Response.SetBody(half.AppendError(nil, e, &codec.AnswerOptions{ID: exchange}))
}

// setRetryAfter tells the client how long to wait, in whole seconds: of the forms that the header may have, the one that
// every client reads (docs/wire/clients.md).
func setRetryAfter(rc *app.RequestContext, wait time.Duration) {
	seconds := int64((wait + time.Second - 1) / time.Second)
	rc.Response.Header.Set("Retry-After", strconv.FormatInt(seconds, 10))
}
