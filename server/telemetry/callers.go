package telemetry

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mnemeproxy/mneme/store/record"
)

// mostCallers bounds the keys with series of their own: the first ones seen since the start. The others are counted
// together, as account and key "other".
const mostCallers = 500

// caller is the account and key that exchanges are counted by. Both names are this server's own.
type caller struct{ account, key string }

// callers counts the use of keys.
type callers struct {
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     *prometheus.CounterVec

	mu   sync.Mutex
	seen map[caller]*callerSeries
	rest *callerSeries // of those that are counted together
}

// callerSeries are the counters of one caller that have been used: to look one up costs more than to count.
type callerSeries struct {
	caller
	label    string // of the key, as its last request had it
	requests map[record.Outcome]prometheus.Counter
	tokens   [tokenKinds]prometheus.Counter
}

func newCallerSeries(who caller) *callerSeries {
	return &callerSeries{caller: who, requests: make(map[record.Outcome]prometheus.Counter)}
}

func newCallers() *callers {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{labelAccount, labelKey}, labels...))
	}
	return &callers{
		requests: counter(metricCallerRequests, "Requests of keys that have ended.", labelOutcome),
		tokens:   counter(metricCallerTokens, "Tokens of keys, counted as mneme_tokens_total counts them.", labelKind),
		cost:     counter(metricCallerCost, "What keys cost in US dollars, without what callers paid with credentials of their own."),
		seen:     make(map[caller]*callerSeries),
		rest:     newCallerSeries(caller{other, other}),
	}
}

func (c *callers) report(r *Report) {
	if r.KeyID == "" {
		return // nobody's
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who := c.seriesOf(caller{r.Account, r.KeyID})
	who.label = r.KeyLabel
	requests := who.requests[r.Outcome]
	if requests == nil {
		requests = c.requests.WithLabelValues(who.account, who.key, r.Outcome.String())
		who.requests[r.Outcome] = requests
	}
	requests.Inc()
	eachTokens(&r.Usage, func(kind int, n float64) {
		if who.tokens[kind] == nil {
			who.tokens[kind] = c.tokens.WithLabelValues(who.account, who.key, tokenKindNames[kind])
		}
		who.tokens[kind].Add(n)
	})
	if r.Cost != nil && !r.Cost.Notional && r.Cost.USD > 0 {
		c.cost.WithLabelValues(who.account, who.key).Add(float64(r.Cost.USD) / float64(record.Dollar))
	}
}

// keyInfo joins the labels of keys to the series of callers.
var keyInfo = prometheus.NewDesc(metricKeyInfo, "1 for each key that is counted by itself.", []string{labelAccount, labelKey, "label"}, nil)

// Describe and Collect are for keyInfo alone, because labels change.
func (c *callers) Describe(to chan<- *prometheus.Desc) { to <- keyInfo }

// Collect sends the series of keyInfo.
func (c *callers) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) >= mostCallers {
		to <- prometheus.MustNewConstMetric(keyInfo, prometheus.GaugeValue, 1, other, other, "")
	}
	for _, s := range c.seen {
		to <- prometheus.MustNewConstMetric(keyInfo, prometheus.GaugeValue, 1, s.account, s.key, strings.ToValidUTF8(s.label, "\uFFFD"))
	}
}

// seriesOf returns the series in which who is counted. The caller holds mu.
func (c *callers) seriesOf(who caller) *callerSeries {
	if s, known := c.seen[who]; known {
		return s
	}
	if len(c.seen) >= mostCallers {
		return c.rest
	}
	s := newCallerSeries(who)
	c.seen[who] = s
	return s
}
