package telemetry

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Process has the metrics that every process of mneme has: what runs, what it uses, and its part in a cluster. A
// server's [Telemetry] has more.
type Process struct{ registry *prometheus.Registry }

// NewProcess makes the metrics of a process that is no server.
func NewProcess(version string) *Process {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: metricBuild, Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{labelVersion: version, labelGo: runtime.Version()},
	})
	build.Set(1)
	p := &Process{prometheus.NewRegistry()}
	p.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return p
}

// Metrics serves the metrics in the formats that Prometheus reads.
func (p *Process) Metrics() http.Handler {
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}
