package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/server/edge"
)

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
