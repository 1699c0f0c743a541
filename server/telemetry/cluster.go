package telemetry

import (
	"context"
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
	clusterArrived   = prometheus.NewDesc(metricClusterArrived, "Exchanges of edges that this centre or worker has taken.", nil, nil)
	clusterRefused   = prometheus.NewDesc(metricClusterRefused, "What this centre or worker did not take, by reason.", []string{labelReason}, nil)
	clusterIdentity  = prometheus.NewDesc(metricClusterIdentityAge, "Time since this edge heard of the centre, whose accounts and keys it has.", nil, nil)
	clusterAside     = prometheus.NewDesc(metricClusterAside, "Exchanges that the centre keeps aside; workers report the same ones.", nil, nil)
	clusterBehind    = prometheus.NewDesc(metricClusterBehind, "Messages at the brokers that this centre or worker has not handled.", nil, nil)
	clusterStream    = prometheus.NewDesc(metricClusterStream, "Size of what edges have shipped and the brokers hold, of one replica; every centre and worker reports the same.", nil, nil)
	clusterMost      = prometheus.NewDesc(metricClusterStreamMost, "Size at which the brokers take no more from edges.", nil, nil)
	clusterDigests   = prometheus.NewDesc(metricClusterUndigested, "Exchanges in Postgres that wait to be digested into turns, at most 100,000; every process reports the same ones.", nil, nil)

	clusterOldest = prometheus.NewDesc(metricClusterUndigestedAge, "Time since the oldest of them was recorded, 0 while turns are made again; every process reports the same.", nil, nil)
	clusterLocks  = prometheus.NewDesc(metricClusterLocks, "Connections to Postgres that wait for a lock of another one; every process reports the same ones.", nil, nil)
	clusterBegun  = prometheus.NewDesc(metricClusterBegun, "Packs that are being written into the bucket, or that a process ended without finishing.", nil, nil)
	clusterGoing  = prometheus.NewDesc(metricClusterGoing, "Packs that are to be deleted from the bucket.", nil, nil)
	clusterTries  = prometheus.NewDesc(metricClusterTries, "Transactions by which this centre or worker tried to take exchanges, whether or not others were first.", nil, nil)

	clusterLeads = prometheus.NewDesc(metricClusterLeads, "Whether this one of the centres that share a memory in Postgres leads.", nil, nil)
	clusterTerms = prometheus.NewDesc(metricClusterTerms, "How often one of these centres has begun to lead; all of them report the same.", nil, nil)

	clusterSummaries = prometheus.NewDesc(metricClusterUnsummarized, "Sessions in Postgres that have grown since a model summarized them, at most 100,000; every process reports the same ones.", nil, nil)
)

// Arrivals describe what a centre or a worker takes of what edges ship. They may be called at any time.
type Arrivals struct {
	Status  func() cluster.Arriving
	Behind  func(context.Context) (messages uint64, err error) // of the brokers' stream
	Backlog func(context.Context) (Backlog, error)
}

// Backlog is what waits in the memory of a cluster, for whichever process.
type Backlog struct {
	Exchanges int           // to be digested
	Oldest    time.Duration // since the first of them to arrive was recorded; 0: it is digested again
	Locks     int           // connections to the database that wait for a lock of another one
	Begun     int           // packs that are being written, or that a process ended without finishing
	Going     int           // packs that are to be deleted from the bucket
}

// collectTime bounds how long a scrape waits for brokers or database. Without an answer the value is missing.
const collectTime = 2 * time.Second

// WatchEdge adds the progress of an edge to the metrics.
func (p *Process) WatchEdge(status func() cluster.Shipping) {
	p.registry.MustRegister(&clusterLevels{edge: status})
}

// WatchArrivals adds what a centre or a worker takes to the metrics.
func (p *Process) WatchArrivals(a Arrivals) { p.registry.MustRegister(&clusterLevels{arrivals: &a}) }

// WatchTakes adds the transactions that take frames to the metrics, and returns the function that reports one.
func (p *Process) WatchTakes() func(frames int, took time.Duration) {
	taken := prometheus.NewCounter(prometheus.CounterOpts{Name: metricClusterTakenFrames, Help: "Frames of edges that this centre or worker has taken."})
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: metricClusterTake, Help: "Time of a transaction that takes exchanges, of one frame or of several.", Buckets: takeBuckets,
	})
	p.registry.MustRegister(taken, duration)
	return func(frames int, took time.Duration) {
		taken.Add(float64(frames))
		duration.Observe(took.Seconds())
	}
}

// WatchLead adds to the metrics whether a centre leads the others, and how often any of them has begun to.
func (p *Process) WatchLead(leads func() bool, terms func() int64) {
	p.registry.MustRegister(&lead{leads, terms})
}

// lead collects the metrics of a centre beside others.
type lead struct {
	leads func() bool
	terms func() int64
}

func (*lead) Describe(to chan<- *prometheus.Desc) {
	to <- clusterLeads
	to <- clusterTerms
}

func (l *lead) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(clusterLeads, prometheus.GaugeValue, truth(l.leads()))
	to <- prometheus.MustNewConstMetric(clusterTerms, prometheus.CounterValue, float64(l.terms()))
}

// WatchUnsummarized adds the number of sessions in Postgres that wait for their summary to the metrics.
func (p *Process) WatchUnsummarized(waiting func(context.Context) (sessions int, err error)) {
	p.registry.MustRegister(unsummarized(waiting))
}

// unsummarized collects the number of sessions that it returns.
type unsummarized func(context.Context) (sessions int, err error)

func (unsummarized) Describe(to chan<- *prometheus.Desc) { to <- clusterSummaries }

func (waiting unsummarized) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTime)
	defer cancel()
	if n, err := waiting(ctx); err == nil {
		to <- prometheus.MustNewConstMetric(clusterSummaries, prometheus.GaugeValue, float64(n))
	}
}

// clusterLevels collects the metrics of a node. One of its members is nil.
type clusterLevels struct {
	edge     func() cluster.Shipping
	arrivals *Arrivals
}

func (c *clusterLevels) Describe(to chan<- *prometheus.Desc) {
	all := []*prometheus.Desc{clusterConnected, clusterArrived, clusterRefused, clusterAside, clusterBehind, clusterStream, clusterMost, clusterDigests, clusterOldest, clusterLocks, clusterBegun, clusterGoing, clusterTries}
	if c.edge != nil {
		all = []*prometheus.Desc{clusterConnected, clusterWaiting, clusterWaitingS, clusterFrames, clusterResent, clusterLocal, clusterIdentity}
	}
	for _, d := range all {
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
	if c.arrivals != nil {
		status := c.arrivals.Status()
		connected = status.Connected
		counter(clusterArrived, status.Exchanges)
		counter(clusterTries, status.Tries)
		for reason, n := range status.Refused {
			counter(clusterRefused, n, reason)
		}
		gauge(clusterAside, float64(status.Aside))
		ctx, cancel := context.WithTimeout(context.Background(), collectTime)
		defer cancel()
		if n, err := c.arrivals.Behind(ctx); err == nil {
			gauge(clusterBehind, float64(n))
			if stream := c.arrivals.Status().Stream; stream != nil {
				gauge(clusterStream, float64(stream.Bytes))
				gauge(clusterMost, float64(stream.Most))
			}
		}
		if b, err := c.arrivals.Backlog(ctx); err == nil {
			gauge(clusterDigests, float64(b.Exchanges))
			gauge(clusterOldest, b.Oldest.Seconds())
			gauge(clusterLocks, float64(b.Locks))
			gauge(clusterBegun, float64(b.Begun))
			gauge(clusterGoing, float64(b.Going))
		}
	}
	gauge(clusterConnected, truth(connected))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
