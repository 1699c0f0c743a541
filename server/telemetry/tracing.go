package telemetry

import (
	"context"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// Tracing makes spans: one for the request, one for each call to a provider, with one for each attempt unless the first
// succeeded, and one for the end of the record. Its user shuts it down.
type Tracing struct {
	pipeline *pipeline
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	trust    bool
	send     bool
}

// Trace has the spans of one exchange, and is used by one goroutine. Every method of a nil Trace does nothing, so that
// an exchange without tracing costs a comparison.
type Trace struct {
	tracing *Tracing
	ctx     context.Context // carries the server span
	server  trace.Span
	call    trace.Span      // newest call to a provider; nil before the first
	callCtx context.Context // carries call

	method, route string
	calling       Call
	attempts      int // of call, so far
}

// attributeRoom pools the lists in which the attributes of a span are built. A span gets all of them at once, when it
// ends, and copies them; growing lists would cost as much as the rest of it.
var attributeRoom = sync.Pool{New: func() any { return new([]attribute.KeyValue) }}

// Options that every span of a kind shares.
var (
	clientKind = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
	serverKind = trace.WithSpanKind(trace.SpanKindServer)
)

// w3c is the only supported format of trace contexts (W3C Trace Context). Baggage is not passed on.
var w3c = propagation.TraceContext{}

// Request is a request as its span shows it.
type Request struct {
	Method, Route string
	Started       time.Time
	Header        func(name string) string // returns a header of the client, for its trace context
	Trusted       bool                     // the caller's own trace is continued, whatever the server does with others
}

// Traces reports whether spans are made.
func (t *Telemetry) Traces() bool { return t.tracing != nil }

// Begin opens the span of a request. Unless its caller, or callers at all, are trusted, their trace is only linked: a
// caller whose trace is continued decides what is sampled.
func (t *Telemetry) Begin(ctx context.Context, r *Request) *Trace {
	if t.tracing == nil {
		return nil
	}
	options := append(make([]trace.SpanStartOption, 0, 3), serverKind, trace.WithTimestamp(r.Started))
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
	x := &Trace{tracing: t.tracing, method: r.Method, route: r.Route}
	x.ctx, x.server = t.tracing.tracer.Start(ctx, r.Method+" "+r.Route, options...)
	return x
}

// carrier reads headers for the propagator.
type carrier func(name string) string

func (c carrier) Get(name string) string { return strings.Clone(c(name)) }
func (carrier) Set(string, string)       {}
func (carrier) Keys() []string           { return nil }

// ID returns the id of the trace in hexadecimal digits; "" without one.
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

// Call opens the span of a call to a provider, which lasts until the next one or the end of the exchange. It sets the
// trace context in header if it is to be sent, and removes the client's own.
func (x *Trace) Call(header *router.Header, c *Call) {
	if x == nil {
		return
	}
	x.endEarlierCall()
	x.calling = *c
	x.calling.Model = clipped(c.Model)
	x.attempts = 0
	x.callCtx, x.call = x.tracing.tracer.Start(x.ctx, c.Operation+" "+x.calling.Model, clientKind...)
	header.Del("Traceparent")
	header.Del("Tracestate")
	if x.tracing.send {
		w3c.Inject(x.callCtx, headerCarrier{header})
	}
}

// headerCarrier writes a trace context to the header of a call.
type headerCarrier struct{ *router.Header }

func (c headerCarrier) Set(name, value string) {
	c.Header.Set(textproto.CanonicalMIMEHeaderKey(name), value)
}

func (c headerCarrier) Keys() (names []string) {
	for _, f := range *c.Header {
		names = append(names, f.Name)
	}
	return names
}

// CallFailed records why another call follows the newest one.
func (x *Trace) CallFailed(kind codec.Kind) {
	if x != nil && x.call != nil {
		fail(x.call, kind.String())
	}
}

// endEarlierCall ends the span of a call that is followed by another.
func (x *Trace) endEarlierCall() {
	if x.call == nil {
		return
	}
	if x.call.IsRecording() {
		x.call.SetAttributes(x.calling.attributes(nil)...)
	}
	x.call.End()
}

// attributes appends what was known when the call was made.
func (c *Call) attributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	name := c.Dialect
	if known, ok := providerNames[name]; ok {
		name = known
	}
	return appendAddress(append(attrs,
		attrOperation.String(c.Operation), attrProvider.String(name), attrProviderConfig.String(c.Provider),
		attrRequestModel.String(c.Model), attrRequestStream.Bool(c.Stream)), c.Address)
}

// appendAddress appends host and port of an address, "host:port".
func appendAddress(attrs []attribute.KeyValue, address string) []attribute.KeyValue {
	host, port, _ := net.SplitHostPort(address)
	attrs = append(attrs, attrServerAddress.String(host))
	if number, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, attrServerPort.Int(number))
	}
	return attrs
}

// Capture opens the span of the commit that ends a record. The caller calls ended when the commit is over.
func (x *Trace) Capture() (ended func(error)) {
	if x == nil {
		return func(error) {}
	}
	_, span := x.tracing.tracer.Start(x.ctx, "capture")
	return func(err error) {
		if err != nil {
			fail(span, codec.KindStorage.String())
		}
		span.End()
	}
}

// Recording reports whether the trace is sampled.
func (x *Trace) Recording() bool { return x != nil && x.server.IsRecording() }

// Tool makes a span of a tool that the client ran, from the answer that called it to the request with its result.
func (x *Trace) Tool(name string, called, answered time.Time) {
	name = clipped(name)
	_, span := x.tracing.tracer.Start(x.ctx, "execute_tool "+name, trace.WithTimestamp(called))
	span.SetAttributes(attrOperation.String("execute_tool"), attrTool.String(name))
	span.End(trace.WithTimestamp(answered))
}

func (x *Trace) end(r *Report) {
	if x == nil {
		return
	}
	room := attributeRoom.Get().(*[]attribute.KeyValue)
	attrs := (*room)[:0]
	ended := trace.WithTimestamp(r.Ended)
	if x.call != nil {
		if x.call.IsRecording() {
			attrs = r.attributes(x.calling.attributes(attrs))
			x.call.SetAttributes(attrs...)
			markError(x.call, r)
		}
		x.call.End(ended)
	}
	if x.server.IsRecording() {
		attrs = append(attrs[:0], attrMethod.String(x.method), attrRoute.String(x.route),
			attrSurface.String(r.Surface.String()), attrOutcome.String(r.Outcome.String()), attrStatus.Int(r.Status),
			attrExchange.String(r.ID), attrSession.String(r.Session), attrAccount.String(r.Account))
		x.server.SetAttributes(attrs...)
		markError(x.server, r)
	}
	x.server.End(ended)
	clear(attrs[:cap(attrs)])
	*room = attrs[:0]
	attributeRoom.Put(room)
}

// attributes appends what the answer to a call has said.
func (r *Report) attributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	attrs = append(attrs, attrExchange.String(r.ID), attrFormat.String(r.Format.String()))
	for _, text := range [...]struct {
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
			attrCacheRead.Int64(u.CacheRead), attrCacheWrite.Int64(u.CacheWrite), attrCacheCreation.Int64(u.CacheWrite), attrReasoningTokens.Int64(u.Reasoning))
	}
	return attrs
}

// markError records on a span why the exchange failed: the class, never the message, which may quote a client.
func markError(span trace.Span, r *Report) {
	if r.Outcome == record.OutcomeComplete {
		return
	}
	kind := r.Outcome.String()
	if r.Error != nil {
		kind = r.Error.Kind.String()
	}
	fail(span, kind)
}

// fail marks a span as failed, for a reason from a fixed list.
func fail(span trace.Span, reason string) {
	span.SetAttributes(attrErrorType.String(reason))
	span.SetStatus(codes.Error, "")
}

// Memory opens the span of an operation on the memory, by the convention's name of it, such as "search_memory". The returned
// context has it for [NoteRecords]; the function ends it, with the status that was sent.
func (t *Telemetry) Memory(ctx context.Context, operation string, r *Request) (within context.Context, end func(status int)) {
	x := t.Begin(ctx, r)
	if x == nil {
		return ctx, func(int) {}
	}
	x.server.SetName(operation)
	return x.ctx, func(status int) {
		x.server.SetAttributes(attrOperation.String(operation), attrMethod.String(r.Method), attrRoute.String(r.Route), attrStatus.Int(status))
		if status >= http.StatusInternalServerError {
			fail(x.server, strconv.Itoa(status))
		}
		x.server.End()
	}
}

// NoteRecords adds to the span of an operation on the memory whose it is, and which records it concerns: one, or so many. -1:
// unknown. What is searched for and found is content, and on no span.
func NoteRecords(ctx context.Context, account, record string, count int64) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attrMemoryStore.String(account))
	if record != "" {
		span.SetAttributes(attrMemoryRecord.String(clipped(record)))
	}
	if count >= 0 {
		span.SetAttributes(attrMemoryCount.Int64(count))
	}
}
