package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mnemeproxy/mneme/store"
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
	seen map[caller]struct{}
}

func newCallers() *callers {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{labelAccount, labelKey}, labels...))
	}
	return &callers{
		requests: counter(metricCallerRequests, "Requests of keys that have ended.", labelOutcome),
		tokens:   counter(metricCallerTokens, "Tokens of keys, counted as mneme_tokens_total counts them.", labelKind),
		cost:     counter(metricCallerCost, "What keys cost in US dollars, without what callers paid with credentials of their own."),
		seen:     make(map[caller]struct{}),
	}
}

func (c *callers) report(r *Report) {
	if r.KeyID == "" {
		return // nobody's
	}
	who := c.name(caller{r.Account, r.KeyID})
	c.requests.WithLabelValues(who.account, who.key, r.Outcome.String()).Inc()
	eachTokens(&r.Usage, func(kind int, n float64) {
		c.tokens.WithLabelValues(who.account, who.key, tokenKindNames[kind]).Add(n)
	})
	if r.Cost != nil && !r.Cost.Notional && r.Cost.USD > 0 {
		c.cost.WithLabelValues(who.account, who.key).Add(float64(r.Cost.USD) / float64(store.Dollar))
	}
}

// name returns the caller under which who is counted.
func (c *callers) name(who caller) caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.seen[who]; !known {
		if len(c.seen) >= mostCallers {
			return caller{other, other}
		}
		c.seen[who] = struct{}{}
	}
	return who
}
