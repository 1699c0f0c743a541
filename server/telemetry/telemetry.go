// Package telemetry reports what the proxy does: metrics for Prometheus, spans for OpenTelemetry, and one log line per
// exchange.
//
// An exchange is reported once, when it has ended, from what it noted anyway; nothing is done per stream event. No
// report holds a conversation or a credential; those who may see them find them by the exchange id.
//
// The names of all metrics, labels and attributes are in names.go.
package telemetry

import (
	"log/slog"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Options configure [New].
type Options struct {
	Log     *slog.Logger // one line per exchange goes here; nil: discard
	Version string
	Tracing *Tracing // nil: no spans
}

// Telemetry is safe for concurrent use. It starts nothing and need not be closed; its [Tracing] must be.
type Telemetry struct {
	*Process
	log     *slog.Logger
	metrics *metrics
	tracing *Tracing
}

// New makes the metrics of one server.
func New(o Options) *Telemetry {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	process := NewProcess(o.Version)
	return &Telemetry{Process: process, log: o.Log, metrics: newMetrics(process.registry, o.Tracing), tracing: o.Tracing}
}

// Report describes how an exchange ended. Whatever outlives the request is copied from it.
type Report struct {
	ID, Session    string // "" for a request that is not recorded
	Account, KeyID string // "" for a caller that was not authenticated
	KeyLabel       string
	ChatKey        string

	Surface, Format codec.Format // FormatUnknown as format: not placed
	Provider        string       // name in the configuration; "" if not placed
	Model           string       // the client's name for it
	ModelServed     string
	Stream          bool

	Status       int // sent to the client; 0: it left before
	Outcome      record.Outcome
	Error        *codec.Error // nil: none
	FinishReason string
	ResponseID   string
	Usage        codec.Usage
	Cost         *record.Cost // nil: unknown
	Translation  []string     // "emulated:NAME", "dropped:NAME"
	Attempts     int          // at providers, unless the only one succeeded; else 0
	StandIn      string       // the model that was asked instead of Model; "" if none was

	BytesIn, BytesOut int64         // of bodies, as received from and sent to the client
	CaptureLag        time.Duration // how long the end of the answer waited to be recorded; 0: it is not
	Gaps              *Gaps         // nil: not streamed

	Started, FirstByte, Ended time.Time // FirstByte is zero if no answer came
}

// Report counts and logs an exchange, and ends its spans. trace may be nil. Recorded exchanges are logged for an
// operator to read; requests that were refused earlier, which anybody can send in any number, only at level debug.
func (t *Telemetry) Report(r *Report, trace *Trace) {
	t.metrics.report(r)
	t.logExchange(r, trace)
	trace.end(r)
}

// Heartbeat counts a heartbeat that was sent on a silent stream.
func (t *Telemetry) Heartbeat() { t.metrics.heartbeats.Inc() }

// ConnectionRefused counts a connection that was closed as it opened; limit is the limit that it exceeded.
func (t *Telemetry) ConnectionRefused(limit string) {
	t.metrics.turnedAway.WithLabelValues(limit).Inc()
}

// Limited counts a request refused by a limit of its key.
func (t *Telemetry) Limited(limit string) { t.metrics.limited.WithLabelValues(limit).Inc() }

// Retry counts a retry after a failure for that reason.
func (t *Telemetry) Retry(provider, reason string) {
	t.metrics.retries.WithLabelValues(provider, reason).Inc()
}

// CoolDown counts a credential or an endpoint that is skipped for a while.
func (t *Telemetry) CoolDown(provider, reason string) {
	t.metrics.coolDowns.WithLabelValues(provider, reason).Inc()
}

// Fallback counts a request that goes on to a model of another, or the same, provider.
func (t *Telemetry) Fallback(from, to string) { t.metrics.fallbacks.WithLabelValues(from, to).Inc() }

// Endpoint is the current state of a provider's address.
type Endpoint struct {
	Provider, BaseURL string // unique as a pair
	Breaker           int    // 0: closed, 1: half-open, 2: open
	KeysReady         int
}

// Reloaded reports that the configuration was reread, and whether it was applied.
func (t *Telemetry) Reloaded(taken bool) {
	result, current := "taken", 1.0
	if !taken {
		result, current = "refused", 0
	}
	t.metrics.reloads.WithLabelValues(result).Inc()
	t.metrics.current.Set(current)
}

// Levels are read on collection, not counted as they happen. They may be called at any time.
type Levels struct {
	RequestsOpen  func() int
	StreamsOpen   func() int
	InFlightBytes func() int64 // of request bodies
	InFlightLimit int64
	Endpoints     func() []Endpoint
	Connections   func() int
	Captures      func() store.Stats
	IndexLag      func() (words, vectors uint64) // changes that are not searchable yet; nil: there is no index
	Recalls       func() recall.Counts           // results of questions to the memory
}

// Watch adds the levels of a server to the metrics. A telemetry watches one server.
func (t *Telemetry) Watch(l Levels) { t.registry.MustRegister(&levels{l}) }

// WatchEmbedder adds the use of the index's embedder to the metrics.
func (p *Process) WatchEmbedder(usage func() embedding.Usage) {
	p.registry.MustRegister(modelCalls{embedCalls, embedTokens, func() (answered, failed, tokens int64) {
		u := usage()
		return u.Calls, u.Failures, u.Tokens
	}})
}

// WatchSummaries adds the use of the writer of summaries to the metrics.
func (p *Process) WatchSummaries(usage func() summary.Usage) {
	p.registry.MustRegister(modelCalls{summaryCalls, summaryTokens, func() (answered, failed, tokens int64) {
		u := usage()
		return u.Calls, u.Failures, u.Tokens
	}})
}

// maxName bounds a client's or provider's own name on a span or in a log line, in bytes.
const maxName = 128

// clipped returns a copy: names may be views of a request's buffers, and spans outlive the request. It is valid UTF-8, because
// one text that is not makes the exporter drop all spans that it sends at that time.
func clipped(name string) string {
	return strings.Clone(strings.ToValidUTF8(name[:min(len(name), maxName)], "?"))
}
