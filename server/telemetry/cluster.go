package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mnemeproxy/mneme/server/cluster"
)

var (
	clusterConnected = prometheus.NewDesc(metricClusterConnected, "Whether a broker of the cluster is connected.", nil, nil)
	clusterWaiting   = prometheus.NewDesc(metricClusterWaiting, "Exchanges of this edge that the centre has not confirmed.", nil, nil)
	clusterWaitingS  = prometheus.NewDesc(metricClusterWaitingSeconds, "Time since the oldest of them began.", nil, nil)
	clusterFrames    = prometheus.NewDesc(metricClusterFrames, "Frames of exchanges that the brokers took from this edge.", nil, nil)
	clusterResent    = prometheus.NewDesc(metricClusterResent, "Times this edge shipped again what had not arrived.", nil, nil)
	clusterLocal     = prometheus.NewDesc(metricClusterLocal, "Exchanges that were to wait for the brokers, which did not take them in time.", nil, nil)
	clusterArrived   = prometheus.NewDesc(metricClusterArrived, "Exchanges that edges have shipped to this centre.", nil, nil)
	clusterRefused   = prometheus.NewDesc(metricClusterRefused, "What this centre did not take, by reason.", []string{labelReason}, nil)
	clusterIdentity  = prometheus.NewDesc(metricClusterIdentityAge, "Time since this edge heard of the centre, whose accounts and keys it has.", nil, nil)
	clusterAside     = prometheus.NewDesc(metricClusterAside, "Exchanges that this centre refused and keeps aside.", nil, nil)
)

// WatchCluster adds metrics about a server's role in a cluster: the progress of an edge, or the arrivals at a centre.
// One of the functions is nil.
func (t *Telemetry) WatchCluster(edge func() cluster.Shipping, centre func() cluster.Arriving) {
	t.metrics.registry.MustRegister(&clusterLevels{edge, centre})
}

type clusterLevels struct {
	edge   func() cluster.Shipping
	centre func() cluster.Arriving
}

func (c *clusterLevels) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		clusterConnected, clusterWaiting, clusterWaitingS, clusterFrames, clusterResent, clusterLocal, clusterArrived, clusterRefused, clusterAside, clusterIdentity,
	} {
		to <- d
	}
}

func (c *clusterLevels) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	connected := false
	if c.edge != nil {
		status, age := c.edge(), 0.0
		if !status.Oldest.IsZero() {
			age = time.Since(status.Oldest).Seconds()
		}
		connected = status.Connected
		gauge(clusterWaiting, float64(status.Waiting))
		gauge(clusterWaitingS, age)
		if status.Identity != nil && !status.Identity.Heard.IsZero() {
			gauge(clusterIdentity, time.Since(status.Identity.Heard).Seconds())
		}
		counter(clusterFrames, status.Frames)
		counter(clusterResent, status.Resent)
		counter(clusterLocal, status.Local)
	}
	if c.centre != nil {
		status := c.centre()
		connected = connected || status.Connected
		counter(clusterArrived, status.Exchanges)
		for reason, n := range status.Refused {
			counter(clusterRefused, n, reason)
		}
		gauge(clusterAside, float64(status.Aside))
	}
	gauge(clusterConnected, truth(connected))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
