package server

import (
	"context"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/repeats"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/record"
)

// beginTrace opens the span of the request, once it is known whether the caller's own trace is to be continued.
func (s *proxy) beginTrace(ctx context.Context, r *request) *telemetry.Trace {
	if !s.telemetry.Traces() {
		return nil
	}
	method, route := http.MethodPost, r.in.Route() // the method of a message on a socket, too
	if r.passing != nil {
		method, route = r.in.Method(), codec.Pass.String()
	}
	return s.telemetry.Begin(ctx, &telemetry.Request{
		Method: method, Route: route, Started: r.started,
		Header: func(name string) string { return r.masked(r.in.Header(name)) }, Trusted: r.caller.TrustTrace,
	})
}

// endpoints returns the endpoints of the router in use.
func (s *proxy) endpoints() []telemetry.Endpoint {
	health := s.router.Load().Health()
	all := make([]telemetry.Endpoint, len(health))
	for i, h := range health {
		all[i] = telemetry.Endpoint{Provider: h.Provider, BaseURL: h.BaseURL, Breaker: int(h.Breaker), KeysReady: h.Ready}
	}
	return all
}

// traceCall opens the span of a call to the provider.
func (r *route) traceCall(trace *telemetry.Trace, request *request, operation router.Operation) {
	if trace == nil {
		return
	}
	p := r.placement.Provider
	trace.Call(&r.header, &telemetry.Call{
		Operation: operationNames[operation],
		Provider:  p.Name(), Dialect: p.Dialect().Name, Address: p.Address(), Model: request.masked(r.placement.Model), Stream: request.envelope.Stream,
	})
}

// traceAttempt makes the span of an attempt, if the provider was asked at all.
func traceAttempt(trace *telemetry.Trace, a *router.Attempt) {
	if trace == nil || a.Failure == router.FailureBreakerOpen {
		return
	}
	trace.Attempt(&telemetry.Attempt{
		Address: a.Address, Credential: a.Key, Resends: a.Resends, Status: a.Status, Failure: a.Failure.String(),
		Started: a.Started, Took: a.Took,
	})
}

// operationNames are the values of gen_ai.operation.name.
var operationNames = map[router.Operation]string{
	router.Generate: "chat", router.Embed: "embeddings", router.CountTokens: "count_tokens", router.Pass: "pass",
}

// report reports how the exchange ended.
func (x *exchange) report() {
	r := telemetry.Report{
		Account: x.request.caller.Account, KeyID: x.request.caller.KeyID, KeyLabel: x.request.caller.Label, ChatKey: x.request.masked(x.request.envelope.ChatKey),
		Surface: x.request.surface, Format: x.route.format, Model: x.request.masked(x.request.envelope.Model), ModelServed: x.request.masked(x.recording.closing.ModelServed), Stream: x.request.envelope.Stream,
		Status: x.recording.closing.Status, Outcome: x.recording.closing.Outcome, Error: x.recording.closing.Error,
		FinishReason: x.recording.closing.FinishReason, ResponseID: x.request.masked(x.recording.closing.ResponseID), Usage: x.recording.closing.Usage, Cost: x.recording.closing.Cost, Translation: x.recording.closing.Translation,
		Started: x.request.started, FirstByte: x.recording.closing.FirstByte, Ended: time.Now(),
	}
	r.CaptureLag, r.Gaps = x.recording.lag, x.answer.gaps
	r.BytesIn, r.BytesOut = x.request.in.Received(), x.answer.sent
	if r.BytesOut == 0 {
		r.BytesOut = int64(len(x.answer.out.Body()))
	}
	r.Attempts = len(x.attempts.toRecord())
	if x.route.fallback {
		r.StandIn = x.request.masked(x.route.placement.Model)
	}
	if x.recording.capture != nil {
		r.ID, r.Session = x.recording.capture.ID(), x.recording.capture.SessionID()
	}
	if x.request.passing != nil {
		r.Format = codec.Pass
	}
	if p := x.route.placement.Provider; p != nil {
		r.Provider = p.Name()
	}
	if err := x.recording.traceTools(x.trace, x.proxy.engine.Archive, &r); err != nil {
		x.proxy.log.Warn("tools are not traced", "exchange", r.ID, "error", err)
	}
	x.proxy.telemetry.Report(&r, x.trace)
}

// answeredTools returns the names of the tools whose results the request brings.
func (r *request) answeredTools() (names []string) {
	if !r.surface.Converses() || r.auxiliary != "" {
		return nil
	}
	for _, name := range repeats.Answered(r.surface, r.body, r.envelope.Items) {
		names = append(names, edge.Printable(r.masked(name)))
	}
	return names
}

// fewBefore is how many exchanges before one are looked at for the answer that called its tools.
const fewBefore = 8

// traceTools makes spans of the tools that the client ran after the session's last answer that called some.
func (r *recording) traceTools(trace *telemetry.Trace, archive Archive, x *telemetry.Report) error {
	if len(r.tools) == 0 || x.Session == "" {
		return nil
	}
	before, err := archive.Timeline(x.Account, x.Session, record.TimelineQuery{After: x.ID, Limit: fewBefore, Descending: true})
	for i := range before.Data {
		if called := &before.Data[i].Exchange; called.FinishReason == codec.FinishToolCalls.String() && called.LastByte.Before(x.Started) {
			for _, tool := range r.tools {
				trace.Tool(tool, called.LastByte, x.Started)
			}
			break
		}
	}
	return err
}
