package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/server/edge"
)

// refuse answers with an error. Nothing of the answer may have been sent.
func (x *exchange) refuse(err error) {
	e := x.request.discreet(orDraining(x.ctx, asError(err)))
	x.recordRefusal(e)
	if aboutCaller := e.Kind == codec.KindPermission || e.Kind == codec.KindQuota || e.Kind == codec.KindRateLimited; aboutCaller && e.Provider == "" {
		x.proxy.logRefusal(x.request.in, &x.request.caller.Identity, x.request.masked(e.Message)) // those without a key have been logged
	}
	if e.Provider != "" && e.Kind != codec.KindUpstreamAuth { // errors about our own credential are not for the caller
		x.providerHeader(x.attempts.replied)
	}
	x.ourHeader()
	if x.allowance.final {
		x.answer.out.Set("X-Should-Retry", "false") // the SDKs of OpenAI and Anthropic follow it
	}
	x.proxy.answerError(x.answer.out, x.request.shape(), e, x.recording.id())
	if !clientGone(x.ctx) {
		x.recording.closing.Error = e
		x.recording.closing.Status = x.answer.out.Status()
		x.recording.closing.ContentType = "application/json"
	}
	if x.recording.capture != nil && !clientGone(x.ctx) {
		_, _ = x.recording.capture.Write(x.answer.out.Body())
	}
	x.tryCommit(outcomeOf(x.ctx, e, false))
	x.recording.nameSession(x.answer.out)
}

// answerError answers with e in the surface's shape and status.
func (s *proxy) answerError(out *edge.Response, surface codec.Format, e *codec.Error, exchange string) {
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
