package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// TracingOptions configure [StartTracing]. The standard variables set the receiver, the sampling and the service name:
// OTEL_EXPORTER_OTLP_*, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
type TracingOptions struct {
	Version string
	Log     *slog.Logger

	TrustTraceParent bool // continue traces of callers instead of linking them
	SendTraceParent  bool // send the trace context to providers
}

// StartTracing returns nil if neither OTEL_EXPORTER_OTLP_ENDPOINT nor OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names a
// receiver, or if OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER=none disable spans. It does not wait for the receiver.
func StartTracing(ctx context.Context, o TracingOptions) (*Tracing, error) {
	if !tracingWanted() {
		return nil, nil
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, err
	}
	service, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "mneme"), attribute.String("service.version", o.Version)),
		resource.WithFromEnv()) // wins
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return newTracing(exporter, service, o), nil
}

func newTracing(exporter sdk.SpanExporter, service *resource.Resource, o TracingOptions) *Tracing {
	p := &pipeline{exporter: exporter, log: o.Log}
	p.batches = sdk.NewBatchSpanProcessor(received{p}, sdk.WithMaxQueueSize(queueSize))
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(p), sdk.WithResource(service))
	return &Tracing{
		pipeline: p, provider: provider, tracer: provider.Tracer("github.com/mnemeproxy/mneme"),
		trust: o.TrustTraceParent, send: o.SendTraceParent,
	}
}

// Shutdown sends pending spans and ends the goroutines. It waits for a silent receiver until ctx ends; spans that are
// still pending then are lost.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

func tracingWanted() bool {
	named := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	return named && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

func newExporter(ctx context.Context) (sdk.SpanExporter, error) {
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; it has to be http/protobuf or grpc", protocol)
}

// queueSize is how many spans may wait for the receiver: those of some 5,000 exchanges, at about 2 KB a span.
const queueSize = 16384

// pipeline hands spans to the SDK's batches, and drops those that would not fit: the SDK would drop them silently. It
// counts the results.
type pipeline struct {
	exporter sdk.SpanExporter
	log      *slog.Logger
	batches  sdk.SpanProcessor

	waiting                   atomic.Int64 // handed to batches, and not yet exported
	exported, failed, dropped atomic.Int64

	mu      sync.Mutex
	failing bool // the newest export failed
}

// OnStart implements [sdk.SpanProcessor].
func (*pipeline) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements [sdk.SpanProcessor].
func (p *pipeline) OnEnd(span sdk.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if p.waiting.Add(1) > queueSize {
		p.waiting.Add(-1)
		p.dropped.Add(1)
		return
	}
	p.batches.OnEnd(span)
}

// Shutdown implements [sdk.SpanProcessor].
func (p *pipeline) Shutdown(ctx context.Context) error { return p.batches.Shutdown(ctx) }

// ForceFlush implements [sdk.SpanProcessor].
func (p *pipeline) ForceFlush(ctx context.Context) error { return p.batches.ForceFlush(ctx) }

// received is the exporter as the batches see it.
type received struct{ *pipeline }

// ExportSpans returns no error: failures are counted, and logged once per outage.
func (r received) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := r.exporter.ExportSpans(ctx, spans)
	r.waiting.Add(-int64(len(spans)))
	if err != nil {
		r.failed.Add(int64(len(spans)))
	} else {
		r.exported.Add(int64(len(spans)))
	}
	r.note(err)
	return nil
}

// Shutdown ends the exporter.
func (r received) Shutdown(ctx context.Context) error { return r.exporter.Shutdown(ctx) }

func (p *pipeline) note(err error) {
	p.mu.Lock()
	was := p.failing
	p.failing = err != nil
	p.mu.Unlock()
	switch {
	case p.log == nil:
	case err != nil && !was:
		p.log.Warn("the receiver of traces does not take spans; check OTEL_EXPORTER_OTLP_ENDPOINT and the receiver", "cause", err)
	case err == nil && was:
		p.log.Info("the receiver of traces takes spans again")
	}
}

var spans = prometheus.NewDesc(metricSpans, "Spans by what became of them.", []string{labelResult}, nil)

// Describe implements [prometheus.Collector].
func (*pipeline) Describe(to chan<- *prometheus.Desc) { to <- spans }

// Collect implements [prometheus.Collector].
func (p *pipeline) Collect(to chan<- prometheus.Metric) {
	count := func(result string, n int64) {
		to <- prometheus.MustNewConstMetric(spans, prometheus.CounterValue, float64(n), result)
	}
	count("exported", p.exported.Load())
	count("failed", p.failed.Load())
	count("dropped", p.dropped.Load())
}
