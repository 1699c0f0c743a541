package server

import (
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/telemetry"
)

// watch lets the metrics show what the server holds at any moment.
func (s *Server) watch() {
	s.telemetry.Watch(telemetry.Levels{
		RequestsOpen:  s.edge.Requests,
		StreamsOpen:   s.beat.open,
		InFlightBytes: s.bodies.Used,
		InFlightLimit: s.opts.InFlightBytes,
		Endpoints:     s.endpoints,
		Connections:   s.edge.Connections,
		Captures:      s.engine.Stats,
		IndexLag:      s.engine.Lag,
	})
}

// beginTrace opens the span of the request. It is known by then whether the caller's own trace is to be continued.
func (x *exchange) beginTrace() {
	if !x.server.telemetry.Traces() {
		return
	}
	x.trace = x.server.telemetry.Begin(x.ctx, &telemetry.Request{
		Method: http.MethodPost, Route: x.in.Route(), Started: x.started,
		Header: func(name string) string { return x.masked(x.in.Header(name)) }, Trusted: x.caller.TrustTrace,
	})
}

// endpoints are those of the router in use.
func (s *Server) endpoints() []telemetry.Endpoint {
	health := s.router.Load().Health()
	all := make([]telemetry.Endpoint, len(health))
	for i, h := range health {
		all[i] = telemetry.Endpoint{Provider: h.Provider, BaseURL: h.BaseURL, Breaker: int(h.Breaker), KeysReady: h.Ready}
	}
	return all
}

// traceCall opens the span of a call to the provider.
func (x *exchange) traceCall(operation router.Operation) {
	if x.trace == nil {
		return
	}
	p := x.placement.Provider
	x.trace.Call(x.header, &telemetry.Call{
		Operation: operationNames[operation],
		Provider:  p.Name(), Dialect: p.Dialect().Name, Address: p.Address(), Model: x.masked(x.placement.Model), Stream: x.envelope.Stream,
	})
}

// traceAttempt makes the span of an attempt at the provider, if it was asked at all.
func (x *exchange) traceAttempt(a router.Attempt) {
	if x.trace == nil || a.Failure == router.FailureBreakerOpen {
		return
	}
	x.trace.Attempt(&telemetry.Attempt{
		Address: a.Address, Credential: a.Key, Resends: a.Resends, Status: a.Status, Failure: a.Failure.String(),
		Started: a.Started, Took: a.Took,
	})
}

// operationNames are the values of gen_ai.operation.name.
var operationNames = map[router.Operation]string{
	router.Generate: "chat", router.Embed: "embeddings", router.CountTokens: "count_tokens",
}

// masked is a text of a client's or a provider's as operators may see it.
func (x *exchange) masked(text string) string {
	text, _ = x.redactor.Text(text)
	return text
}

// report tells operators how the exchange ended.
func (x *exchange) report() {
	r := telemetry.Report{
		Account: x.caller.Account, KeyID: x.caller.KeyID, ChatKey: x.masked(x.envelope.ChatKey),
		Surface: x.surface, Format: x.format, Model: x.masked(x.envelope.Model), ModelServed: x.masked(x.closing.ModelServed), Stream: x.envelope.Stream,
		Status: x.closing.Status, Outcome: x.closing.Outcome, Error: x.closing.Error,
		FinishReason: x.closing.FinishReason, ResponseID: x.masked(x.closing.ResponseID), Usage: x.closing.Usage, Translation: x.closing.Translation,
		Started: x.started, FirstByte: x.closing.FirstByte, Ended: time.Now(),
	}
	r.CaptureLag, r.Gaps = x.captureLag, x.gaps
	r.BytesIn, r.BytesOut = int64(len(x.in.Body())), x.sent
	if r.BytesOut == 0 {
		r.BytesOut = int64(len(x.out.Body()))
	}
	r.Attempts = len(x.attemptsToRecord())
	if x.standingIn {
		r.StandIn = x.masked(x.placement.Model)
	}
	if x.capture != nil {
		r.ID, r.Session = x.capture.ID(), x.capture.SessionID()
	}
	if p := x.placement.Provider; p != nil {
		r.Provider = p.Name()
	}
	x.server.telemetry.Report(&r, x.trace)
}
