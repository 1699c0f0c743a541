package telemetry

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Tracing makes spans: one for the request, one for each call to a provider, one for the end of the record. Its user shuts
// it down.
type Tracing struct {
	pipeline *pipeline
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	trust    bool
	send     bool
}

// Trace is the spans of one exchange, which one goroutine uses. Every method of a nil Trace does nothing, so that an
// exchange without tracing costs a comparison.
type Trace struct {
	tracing *Tracing
	ctx     context.Context // carries the server span
	server  trace.Span
	call    trace.Span // newest call to a provider; nil before the first
}

// w3c is the one way in which the context of a trace travels (W3C Trace Context). Baggage does not.
var w3c = propagation.TraceContext{}

// Request is a request as its span shows it.
type Request struct {
	Method, Route string
	Started       time.Time
	Header        func(name string) string // gives a header of the client's, for its trace context
	Trusted       bool                     // the caller's own trace is continued, whatever the server does with others
}

// Traces tells whether spans are made.
func (t *Telemetry) Traces() bool { return t.tracing != nil }

// Begin opens the span of a request. Unless its caller, or callers at all, are trusted, a trace of theirs is only linked:
// whoever may continue one decides what is sampled.
func (t *Telemetry) Begin(ctx context.Context, r *Request) *Trace {
	if t.tracing == nil {
		return nil
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.Started)}
	if r.Header("Traceparent") != "" {
		client := trace.SpanContextFromContext(w3c.Extract(context.Background(), carrier(r.Header)))
		switch {
		case !client.IsValid():
		case t.tracing.trust || r.Trusted:
			ctx = trace.ContextWithRemoteSpanContext(ctx, client)
		default:
			options = append(options, trace.WithLinks(trace.Link{SpanContext: client}))
		}
	}
	x := &Trace{tracing: t.tracing}
	x.ctx, x.server = t.tracing.tracer.Start(ctx, r.Method+" "+r.Route, options...)
	if x.server.IsRecording() {
		x.server.SetAttributes(attrMethod.String(r.Method), attrRoute.String(r.Route))
	}
	return x
}

// carrier reads headers for the propagator.
type carrier func(name string) string

func (c carrier) Get(name string) string { return strings.Clone(c(name)) }
func (carrier) Set(string, string)       {}
func (carrier) Keys() []string           { return nil }

// ID is the id of the trace, as hexadecimal digits; "" without one.
func (x *Trace) ID() string {
	if x == nil {
		return ""
	}
	return x.server.SpanContext().TraceID().String()
}

// Call is a call to a provider, as its span shows it.
type Call struct {
	Operation string // "chat", "embeddings" …
	Provider  string // name in the configuration
	Dialect   string
	Address   string // host:port
	Model     string // as sent
	Stream    bool
}

// Call opens the span of a call to a provider, which lasts until the next one or the end of the exchange. It sets in
// header what tells the provider of the trace, where it is to be told, and removes what the client said of its own.
func (x *Trace) Call(header http.Header, c *Call) {
	if x == nil {
		return
	}
	if x.call != nil {
		x.call.End()
	}
	model := clipped(c.Model)
	var ctx context.Context
	ctx, x.call = x.tracing.tracer.Start(x.ctx, c.Operation+" "+model, trace.WithSpanKind(trace.SpanKindClient))
	header.Del("Traceparent")
	header.Del("Tracestate")
	if x.tracing.send {
		w3c.Inject(ctx, propagation.HeaderCarrier(header))
	}
	if !x.call.IsRecording() {
		return
	}
	name := c.Dialect
	if known, ok := providerNames[name]; ok {
		name = known
	}
	host, port, _ := net.SplitHostPort(c.Address)
	attrs := []attribute.KeyValue{
		attrOperation.String(c.Operation), attrProvider.String(name), attrProviderConfig.String(c.Provider),
		attrRequestModel.String(model), attrRequestStream.Bool(c.Stream), attrServerAddress.String(host),
	}
	if number, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, attrServerPort.Int(number))
	}
	x.call.SetAttributes(attrs...)
}

// Capture opens the span of the commit that ends a record. The caller calls what it returns when the commit is over.
func (x *Trace) Capture() (ended func(error)) {
	if x == nil {
		return func(error) {}
	}
	_, span := x.tracing.tracer.Start(x.ctx, "capture")
	return func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(attrErrorType.String(codec.KindStorage.String()))
		}
		span.End()
	}
}

func (x *Trace) end(r *Report) {
	if x == nil {
		return
	}
	if x.call != nil {
		endCall(x.call, r)
	}
	if x.server.IsRecording() {
		x.server.SetAttributes(
			attrSurface.String(r.Surface.String()), attrOutcome.String(r.Outcome.String()), attrStatus.Int(r.Status),
			attrExchange.String(r.ID), attrSession.String(r.Session), attrAccount.String(r.Account))
		markError(x.server, r)
	}
	x.server.End(trace.WithTimestamp(r.Ended))
}

func endCall(span trace.Span, r *Report) {
	if span.IsRecording() {
		attrs := append(make([]attribute.KeyValue, 0, 14), attrExchange.String(r.ID), attrFormat.String(r.Format.String()))
		for _, text := range []struct {
			key   attribute.Key
			value string
		}{{attrConversation, clipped(r.ChatKey)}, {attrResponseModel, clipped(r.ModelServed)}, {attrResponseID, clipped(r.ResponseID)}} {
			if text.value != "" {
				attrs = append(attrs, text.key.String(text.value))
			}
		}
		if r.FinishReason != "" {
			attrs = append(attrs, attrFinishReasons.StringSlice([]string{r.FinishReason}))
		}
		if !r.FirstByte.IsZero() {
			attrs = append(attrs, attrFirstChunk.Float64(r.FirstByte.Sub(r.Started).Seconds()))
		}
		if u := r.Usage; !u.IsZero() {
			attrs = append(attrs, attrInputTokens.Int64(u.TotalInput()), attrOutputTokens.Int64(u.Output),
				attrCacheRead.Int64(u.CacheRead), attrCacheCreation.Int64(u.CacheWrite), attrReasoningTokens.Int64(u.Reasoning))
		}
		span.SetAttributes(attrs...)
		markError(span, r)
	}
	span.End(trace.WithTimestamp(r.Ended))
}

// markError says on a span why the exchange failed: the class, never the message, which may name what a client sent.
func markError(span trace.Span, r *Report) {
	if r.Outcome == store.OutcomeComplete {
		return
	}
	kind := r.Outcome.String()
	if r.Error != nil {
		kind = r.Error.Kind.String()
	}
	span.SetAttributes(attrErrorType.String(kind))
	span.SetStatus(codes.Error, "")
}
