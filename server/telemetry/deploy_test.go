package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.yaml.in/yaml/v3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// exposed are the metrics of a server that has seen everything, with the labels of each.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	tracing := newTracing(&stuck{}, resource.Empty(), TracingOptions{})
	telemetry := New(Options{Version: "test", Tracing: tracing})
	t.Cleanup(func() { _ = tracing.Shutdown(t.Context()) })
	telemetry.Watch(Levels{
		RequestsOpen: func() int { return 0 }, StreamsOpen: func() int { return 0 }, InFlightBytes: func() int64 { return 0 },
		Endpoints:   func() []Endpoint { return []Endpoint{{Provider: "openai", BaseURL: "https://api.openai.com/v1"}} },
		Connections: func() int { return 0 },
		Captures:    func() store.Stats { return store.Stats{} },
		IndexLag:    func() (words, vectors uint64) { return 0, 0 },
		Recalls:     func() recall.Counts { return recall.Counts{} },
	})
	telemetry.WatchEmbedder(func() embedding.Usage { return embedding.Usage{} })
	telemetry.WatchArrivals(Arrivals{
		Status: func() cluster.Arriving {
			return cluster.Arriving{Refused: map[string]int64{"account": 1}, Stream: &cluster.Stream{Bytes: 1, Most: 2}}
		},
		Behind:  func(context.Context) (uint64, error) { return 0, nil },
		Backlog: func(context.Context) (Backlog, error) { return Backlog{}, nil },
	})
	telemetry.WatchSummaries(func() summary.Usage { return summary.Usage{} })
	telemetry.WatchUnsummarized(func(context.Context) (int, error) { return 0, nil })
	telemetry.WatchLead(func() bool { return true }, func() int64 { return 1 })
	telemetry.WatchTakes()(1, time.Millisecond)
	telemetry.Limited("concurrent")
	telemetry.Reloaded(true)
	telemetry.Retry("openai", "rate_limited")
	telemetry.CoolDown("openai", "rate_limited")
	telemetry.Fallback("openai", "anthropic")
	telemetry.ConnectionRefused("connections")
	r := exampleReport()
	r.Translation = []string{"dropped:stop"}
	r.CaptureLag, r.Gaps, r.Cost = time.Millisecond, new(Gaps), &record.Cost{USD: record.Dollar}
	r.Outcome, r.Error = record.OutcomeUpstreamError, codec.Errorf(codec.KindTimeout, "late")
	telemetry.Report(r, nil)
	edge := NewProcess("test")
	edge.WatchEdge(func() cluster.Shipping { return cluster.Shipping{Identity: &cluster.Identity{Heard: time.Now()}} })
	var families []*dto.MetricFamily
	for _, process := range []*Process{telemetry.Process, edge} {
		gathered, err := process.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		families = append(families, gathered...)
	}
	known := map[string][]string{}
	for _, family := range families {
		var labels []string
		for _, pair := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, pair.GetName())
		}
		name := family.GetName()
		known[name] = labels
		if family.GetType() == dto.MetricType_HISTOGRAM {
			known[name+"_sum"], known[name+"_count"], known[name+"_bucket"] = labels, labels, append(slices.Clone(labels), "le")
		}
	}
	return known
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// queries finds the expressions of the dashboard and of the alert rules, by what they are for.
func queries(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(read(t, "grafana.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for i, target := range panel.Targets {
			found[panel.Title+" "+string(rune('A'+i))] = target.Expr
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Action string }
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules.Groups[0].Rules {
		found[rule.Alert] = rule.Expr
		if rule.Annotations.Summary == "" || rule.Annotations.Action == "" {
			t.Errorf("%s does not say what to do", rule.Alert)
		}
	}
	if len(found) < 25 {
		t.Fatalf("only %d queries were found", len(found))
	}
	return found
}

var (
	metricName = regexp.MustCompile(`\b(?:mneme|go|process)_[a-z_]+`)
	selector   = regexp.MustCompile(`\b((?:mneme|go|process)_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=~|!=|!~|=)"`)
	grouping   = regexp.MustCompile(`by \(([^)]*)\)`)
)

// A metric that is renamed takes its panels and alerts along, or this fails.
func TestDashboardAndAlertsAskForWhatThereIs(t *testing.T) {
	known := exposed(t)
	asked := map[string]bool{}
	for title, expression := range queries(t) {
		labels := []string{"instance"}
		for _, name := range metricName.FindAllString(expression, -1) {
			asked[name] = true
			if _, ok := known[name]; !ok {
				t.Errorf("%s asks for %s, which is no metric: %s", title, name, expression)
			}
			labels = append(labels, known[name]...)
		}
		for _, part := range selector.FindAllStringSubmatch(expression, -1) {
			for _, label := range matcher.FindAllStringSubmatch(part[2], -1) {
				if !slices.Contains(known[part[1]], label[1]) {
					t.Errorf("%s: %s has no label %s", title, part[1], label[1])
				}
			}
		}
		for _, part := range grouping.FindAllStringSubmatch(expression, -1) {
			for label := range strings.SplitSeq(part[1], ",") {
				if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
					t.Errorf("%s groups by %s, which none of its metrics has: %s", title, label, expression)
				}
			}
		}
	}
	for name := range known {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count"), "_bucket")
		if strings.HasPrefix(name, "mneme_") && !asked[name] && !asked[base+"_bucket"] {
			t.Errorf("nobody looks at %s", name)
		}
	}
}

func TestManifestsAreYAML(t *testing.T) {
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, "kubernetes.yaml")))
	var kinds []string
	for {
		var object struct{ Kind string }
		err := decoder.Decode(&object)
		if err == io.EOF { //nolint:errorlint // the decoder gives it as it is
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, object.Kind)
	}
	if want := []string{"ConfigMap", "Service", "StatefulSet"}; !slices.Equal(kinds, want) {
		t.Errorf("the manifests are %v, want %v", kinds, want)
	}
}
