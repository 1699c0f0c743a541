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
	Resends    int    // earlier attempts of the same call
	Status     int    // HTTP; 0: no answer
	Failure    string // why it gave no useful answer, from a fixed list; "": it did
	Started    time.Time
	Took       time.Duration // until the header of the answer
}

// Attempt makes the span of a finished attempt, as a child of its call's and by the conventions for HTTP clients. A
// first attempt that succeeds has none: the call's span says it all.
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
