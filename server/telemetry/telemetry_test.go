package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// stuck is a receiver that does not take anything until it is let go.
type stuck struct {
	release chan struct{}
	took    atomic.Int64
}

func (s *stuck) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	select {
	case <-s.release:
		s.took.Add(int64(len(spans)))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*stuck) Shutdown(context.Context) error { return nil }

func TestSpansThatDoNotFitAreDroppedAndEveryOneIsCounted(t *testing.T) {
	receiver := &stuck{release: make(chan struct{})}
	tracing := newTracing(receiver, resource.Empty(), TracingOptions{})
	const made = queueSize + 1000
	for range made {
		_, span := tracing.tracer.Start(context.Background(), "span")
		span.End()
	}
	p := tracing.pipeline
	if got := p.dropped.Load(); got != made-queueSize {
		t.Errorf("%d of %d spans are counted as dropped, want %d", got, made, made-queueSize)
	}
	close(receiver.release)
	if err := tracing.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := receiver.took.Load(); got != queueSize || p.exported.Load() != got || p.failed.Load() != 0 || p.waiting.Load() != 0 {
		t.Errorf("the receiver took %d spans; counted are %d exported, %d failed, %d waiting", got, p.exported.Load(), p.failed.Load(), p.waiting.Load())
	}
}

func TestLevelsSayBeforehandWhatTheyCollect(t *testing.T) {
	registry := prometheus.NewPedanticRegistry() // which takes nothing else
	registry.MustRegister(&levels{Levels{
		RequestsOpen: func() int { return 1 }, StreamsOpen: func() int { return 1 }, Connections: func() int { return 1 },
		InFlightBytes: func() int64 { return 1 },
		Endpoints:     func() []Endpoint { return []Endpoint{{Provider: "openai", BaseURL: "https://llm.example.com"}} },
		Captures:      func() store.Stats { return store.Stats{} },
		IndexLag:      func() (words, vectors uint64) { return 1, 1 },
		Recalls:       func() recall.Counts { return recall.Counts{Spoke: 1} },
	}})
	registry.MustRegister(&clusterLevels{arrivals: &Arrivals{
		Status: func() cluster.Arriving {
			return cluster.Arriving{Refused: map[string]int64{"account": 1}, Stream: &cluster.Stream{Bytes: 1, Most: 2}}
		},
		Behind:  func(context.Context) (uint64, error) { return 1, nil },
		Backlog: func(context.Context) (Backlog, error) { return Backlog{Exchanges: 1}, nil },
	}})
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
}

// A scrape goes on without what only brokers or database know, and says nothing rather than something old.
func TestACentreWhoseBrokersAndDatabaseAreAwayTellsTheRest(t *testing.T) {
	p, away := NewProcess("test"), errors.New("away")
	p.WatchArrivals(Arrivals{
		Status:  func() cluster.Arriving { return cluster.Arriving{Exchanges: 3} },
		Behind:  func(context.Context) (uint64, error) { return 0, away },
		Backlog: func(context.Context) (Backlog, error) { return Backlog{}, away },
	})
	answer := httptest.NewRecorder()
	p.Metrics().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	said := answer.Body.String()
	if answer.Code != http.StatusOK || !strings.Contains(said, metricClusterArrived+" 3\n") || !strings.Contains(said, metricClusterConnected+" 0\n") {
		t.Errorf("it answers %d: %s", answer.Code, said)
	}
	if strings.Contains(said, metricClusterBehind+" ") || strings.Contains(said, metricClusterUndigested+" ") ||
		strings.Contains(said, metricClusterUndigestedAge+" ") || strings.Contains(said, metricClusterLocks+" ") {
		t.Errorf("it tells what it cannot know: %s", said)
	}
}

func TestKeysBeyondTheBoundAreCountedTogether(t *testing.T) {
	m := newMetrics(prometheus.NewRegistry(), nil)
	r := exampleReport()
	for i := range mostCallers + 2 {
		r.KeyID = fmt.Sprintf("key_%d", i)
		m.report(r)
	}
	r.KeyID = "key_0" // has its own still
	m.report(r)
	for name, want := range map[caller]float64{{r.Account, "key_0"}: 2, {r.Account, "key_1"}: 1, {other, other}: 2} {
		var got dto.Metric
		if err := m.callers.requests.WithLabelValues(name.account, name.key, r.Outcome.String()).Write(&got); err != nil || got.GetCounter().GetValue() != want {
			t.Errorf("%v has %v requests, want %v (%v)", name, got.GetCounter().GetValue(), want, err)
		}
	}
}

func TestTheLabelsOfKeysCanBeJoined(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, nil)
	r := exampleReport()
	r.KeyID = "key_1"
	for _, label := range []string{"old", "not UTF-8: \xff"} { // a label can change
		r.KeyLabel = label
		m.report(r)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != metricKeyInfo {
			continue
		}
		labels := map[string]string{}
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels[pair.GetName()] = pair.GetValue()
		}
		if len(family.GetMetric()) != 1 || labels["account"] != r.Account || labels["key"] != "key_1" || labels["label"] != "not UTF-8: \uFFFD" {
			t.Errorf("%v", family)
		}
		return
	}
	t.Error("there is no " + metricKeyInfo)
}

func TestShutdownHeedsItsDeadline(t *testing.T) {
	tracing := newTracing(&stuck{release: make(chan struct{})}, resource.Empty(), TracingOptions{})
	_, span := tracing.tracer.Start(context.Background(), "span")
	span.End()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := tracing.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the shutdown ended with: %v", err)
	}
}

// A provider may say what it wants, and a counter panics when it is to go down.
func TestTokenCountsThatMakeNoSenseAreLeftOut(t *testing.T) {
	r := exampleReport()
	r.Usage = codec.Usage{InputUncached: -1, Output: -1 << 62}
	r.Status = -5
	New(Options{}).Report(r, nil)
}

func exampleReport() *Report {
	now := time.Now()
	return &Report{
		ID: "exch_01", Session: "sess_01", Account: "acme", KeyID: "key_01", ChatKey: "thread",
		Surface: codec.Messages, Format: codec.Messages, Provider: "anthropic", Model: "claude-opus-4-8", Stream: true,
		Status: http.StatusOK, Outcome: record.OutcomeComplete, FinishReason: "stop",
		Usage:   codec.Usage{InputUncached: 100, CacheRead: 50, Output: 20, Reasoning: 5},
		Started: now, FirstByte: now, Ended: now,
	}
}

// What telemetry adds to an exchange: the metrics alone, with the line of the log, and with three spans.
func BenchmarkReport(b *testing.B) {
	var tracing *Tracing
	for name, o := range map[string]Options{
		"metrics": {},
		"slog":    {Log: slog.New(slog.NewJSONHandler(io.Discard, nil))},
		"spans":   {},
	} {
		b.Run(name, func(b *testing.B) {
			if name == "spans" {
				released := &stuck{release: make(chan struct{})}
				close(released.release)
				tracing = newTracing(released, resource.Empty(), TracingOptions{SendTraceParent: true})
				defer func() { _ = tracing.Shutdown(context.Background()) }()
				o.Tracing = tracing
			}
			telemetry, header, r := New(o), router.Header{}, exampleReport()
			b.ReportAllocs()
			for b.Loop() {
				x := telemetry.Begin(context.Background(), &Request{Method: http.MethodPost, Route: "/v1/messages", Started: r.Started, Header: header.Get})
				x.Call(&header, &Call{Operation: "chat", Provider: "anthropic", Dialect: "anthropic", Address: "api.anthropic.com:443", Model: r.Model, Stream: true})
				x.Capture()(nil)
				telemetry.Report(r, x)
			}
		})
	}
}

func TestALongNameOnASpanIsNotCutInsideACharacter(t *testing.T) {
	long := strings.Repeat("n", maxName-1)
	for name, want := range map[string]string{long + "é": long + "?", "modèle": "modèle", "a\xff": "a?"} {
		if got := clipped(name); got != want {
			t.Errorf("%q is %q on a span, want %q", name, got, want)
		}
	}
}
