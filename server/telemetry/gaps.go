package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Gaps counts the times between the pieces of one answer as sent to its client, in the buckets of their metric. It is
// used by one goroutine at a time and added to the totals when the answer has ended, so a piece costs no more than a
// few comparisons.
type Gaps struct {
	counts [gapBucketCount + 1]uint32
	sum    time.Duration
}

const gapBucketCount = 12

// gapBounds are gapBuckets as durations.
var gapBounds = func() (bounds [gapBucketCount]time.Duration) {
	for i := range bounds {
		bounds[i] = time.Duration(gapBuckets[i] * float64(time.Second))
	}
	return bounds
}()

// Note counts one gap.
func (g *Gaps) Note(gap time.Duration) {
	bucket := 0
	for bucket < gapBucketCount && gap > gapBounds[bucket] {
		bucket++
	}
	g.counts[bucket]++
	g.sum += gap
}

// gapCounts has the gaps of all answers. It is a [prometheus.Collector].
type gapCounts struct {
	counts [gapBucketCount + 1]atomic.Uint64
	sum    atomic.Int64 // nanoseconds
}

// add adds the gaps of an answer; nil for one that was not streamed.
func (c *gapCounts) add(g *Gaps) {
	if g == nil {
		return
	}
	for i, n := range g.counts {
		if n > 0 {
			c.counts[i].Add(uint64(n))
		}
	}
	c.sum.Add(int64(g.sum))
}

var gaps = prometheus.NewDesc(metricGap, "Between two pieces of a streamed answer, as its client was sent them.", nil, nil)

// Describe implements [prometheus.Collector].
func (*gapCounts) Describe(to chan<- *prometheus.Desc) { to <- gaps }

// Collect implements [prometheus.Collector].
func (c *gapCounts) Collect(to chan<- prometheus.Metric) {
	var total uint64
	buckets := make(map[float64]uint64, gapBucketCount)
	for i := range c.counts {
		total += c.counts[i].Load()
		if i < gapBucketCount {
			buckets[gapBuckets[i]] = total
		}
	}
	to <- prometheus.MustNewConstHistogram(gaps, total, time.Duration(c.sum.Load()).Seconds(), buckets)
}
