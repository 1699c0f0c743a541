// Package telemetry reports what the proxy does: metrics for Prometheus, spans for OpenTelemetry, and one log line per
// exchange.
//
// An exchange is reported once, when it has ended, from what it noted anyway; nothing is done per stream event. No
// report holds a conversation or a credential; those who may see them find them by the exchange id.
//
// The names of all metrics, labels and attributes are in names.go.
package telemetry

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
)

// Options configure [New].
type Options struct {
	Log     *slog.Logger // one line for each exchange goes here; nil: discard
	Version string
	Tracing *Tracing // nil: no spans
}

// Telemetry is safe for concurrent use. It starts nothing and need not be closed; its [Tracing] does.
type Telemetry struct {
	log     *slog.Logger
	metrics *metrics
	tracing *Tracing
}

// New makes the metrics of one process.
func New(o Options) *Telemetry {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Telemetry{log: o.Log, metrics: newMetrics(o.Version, o.Tracing), tracing: o.Tracing}
}

// Report is how an exchange ended. What outlives the request is copied out of it.
type Report struct {
	ID, Session    string // "" for a request that is not on record
	Account, KeyID string // "" for a caller that was not authenticated
	ChatKey        string

	Surface, Format codec.Format // FormatUnknown as format: not placed
	Provider        string       // name in the configuration; "" when not placed
	Model           string       // as asked for by the client
	ModelServed     string
	Stream          bool

	Status       int // that the client was given; 0: it left before
	Outcome      store.Outcome
	Error        *codec.Error // nil: none
	FinishReason string
	ResponseID   string
	Usage        codec.Usage
	Cost         *store.Cost // nil: not known
	Translation  []string    // "emulated:NAME", "dropped:NAME"
	Attempts     int         // at providers, where it was not one that gave the answer; else 0
	StandIn      string      // the model that was asked in place of Model; "" when none was

	BytesIn, BytesOut int64         // of bodies, as the client sent them and was sent them
	CaptureLag        time.Duration // for which the end of the answer waited to be on record; 0: it is not
	Gaps              *Gaps         // nil: not streamed

	Started, FirstByte, Ended time.Time // FirstByte is zero when no answer came
}

// Report counts and logs an exchange, and ends its spans. trace may be nil. Exchanges on record are logged for an operator
// to read; requests that were turned away before that, which anybody can send in any number, only at level debug.
func (t *Telemetry) Report(r *Report, trace *Trace) {
	t.metrics.report(r)
	t.logExchange(r, trace)
	trace.end(r)
}

// Heartbeat counts a sign of life that was sent on a silent stream.
func (t *Telemetry) Heartbeat() { t.metrics.heartbeats.Inc() }

// ConnectionRefused counts a connection that was closed as it opened; limit names the limit that was in its way.
func (t *Telemetry) ConnectionRefused(limit string) {
	t.metrics.turnedAway.WithLabelValues(limit).Inc()
}

// Limited counts a request that a limit of its key turned away.
func (t *Telemetry) Limited(limit string) { t.metrics.limited.WithLabelValues(limit).Inc() }

// Retry counts an attempt that follows one that failed for that reason.
func (t *Telemetry) Retry(provider, reason string) {
	t.metrics.retries.WithLabelValues(provider, reason).Inc()
}

// CoolDown counts a credential or an endpoint that is passed over for a while.
func (t *Telemetry) CoolDown(provider, reason string) {
	t.metrics.coolDowns.WithLabelValues(provider, reason).Inc()
}

// Fallback counts a request that goes on to a model of another, or the same, provider.
func (t *Telemetry) Fallback(from, to string) { t.metrics.fallbacks.WithLabelValues(from, to).Inc() }

// Endpoint is how an address of a provider is at the moment.
type Endpoint struct {
	Provider, BaseURL string // no two pairs are alike
	Breaker           int    // 0: closed, 1: half-open, 2: open
	KeysReady         int
}

// Reloaded tells that the configuration was read again, and whether it was taken.
func (t *Telemetry) Reloaded(taken bool) {
	result, current := "taken", 1.0
	if !taken {
		result, current = "refused", 0
	}
	t.metrics.reloads.WithLabelValues(result).Inc()
	t.metrics.current.Set(current)
}

// Levels are what is read when somebody looks, and not counted as it happens. They may be called at any time.
type Levels struct {
	RequestsOpen  func() int
	StreamsOpen   func() int
	InFlightBytes func() int64 // of request bodies
	InFlightLimit int64
	Endpoints     func() []Endpoint
	Connections   func() int
	Captures      func() store.Stats
	IndexLag      func() (words, vectors uint64) // changes that cannot be found yet; nil: there is no index
	Recalls       func() recall.Counts           // what became of questions to the memory
}

// Watch adds the levels of a server to the metrics. A telemetry watches one server.
func (t *Telemetry) Watch(l Levels) { t.metrics.registry.MustRegister(&levels{l}) }

// WatchEmbedder adds what the embedder of the index does to the metrics.
func (t *Telemetry) WatchEmbedder(usage func() embedding.Usage) {
	t.metrics.registry.MustRegister(modelCalls{embedCalls, embedTokens, func() (answered, failed, tokens int64) {
		u := usage()
		return u.Calls, u.Failures, u.Tokens
	}})
}

// WatchSummaries adds what the writer of summaries does to the metrics.
func (t *Telemetry) WatchSummaries(usage func() summary.Usage) {
	t.metrics.registry.MustRegister(modelCalls{summaryCalls, summaryTokens, func() (answered, failed, tokens int64) {
		u := usage()
		return u.Calls, u.Failures, u.Tokens
	}})
}

// Metrics serves the metrics in the formats that Prometheus reads.
func (t *Telemetry) Metrics() http.Handler {
	return promhttp.HandlerFor(t.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// maxName bounds what a client or a provider can put on a span and in a line by a name of its own, in bytes.
const maxName = 128

// clipped is a copy: names may be views of a request's buffers, and spans outlive the request.
func clipped(name string) string { return strings.Clone(name[:min(len(name), maxName)]) }

func (t *Telemetry) logExchange(r *Report, trace *Trace) {
	level := slog.LevelInfo
	if r.ID == "" {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !t.log.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(r.Ended, level, ExchangeLine, 0) // without its caller, which is always this one
	var attrs attributes
	line.AddAttrs(attrs.describe(r, trace)...)
	_ = t.log.Handler().Handle(ctx, line) // there is nobody to tell of a failure
}
