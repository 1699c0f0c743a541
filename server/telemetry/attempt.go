package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Attempt is one request to a provider, as its span shows it.
type Attempt struct {
	Address    string // host:port
	Credential int    // number of the server's credential in the configuration, from 1; 0: the caller's own
	Resends    int    // attempts of the same call before it
	Status     int    // HTTP; 0: there was no answer
	Failure    string // why it gave no answer worth having, of a fixed list; "": it did
	Started    time.Time
	Took       time.Duration // until the header of the answer
}

// Attempt makes the span of an attempt that has ended, below that of its call and by the conventions for HTTP clients. An
// attempt that gave the answer at once has none: the call's tells all of it.
func (x *Trace) Attempt(a *Attempt) {
	if x == nil || x.call == nil {
		return
	}
	x.attempts++
	if x.attempts == 1 && a.Failure == "" {
		return
	}
	_, span := x.tracing.tracer.Start(x.callCtx, http.MethodPost, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.Started))
	if span.IsRecording() {
		span.SetAttributes(a.attributes()...)
		switch {
		case a.Failure != "":
			fail(span, a.Failure)
		case a.Status >= http.StatusBadRequest:
			fail(span, strconv.Itoa(a.Status))
		}
	}
	span.End(trace.WithTimestamp(a.Started.Add(a.Took)))
}

func (a *Attempt) attributes() []attribute.KeyValue {
	attrs := appendAddress([]attribute.KeyValue{attrMethod.String(http.MethodPost), attrCredential.Int(a.Credential)}, a.Address)
	if a.Status != 0 {
		attrs = append(attrs, attrStatus.Int(a.Status))
	}
	if a.Resends > 0 {
		attrs = append(attrs, attrResendCount.Int(a.Resends))
	}
	return attrs
}
