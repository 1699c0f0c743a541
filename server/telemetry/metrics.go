package telemetry

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

type metrics struct {
	requests       *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	firstByte      *prometheus.HistogramVec
	tokens         *prometheus.CounterVec
	translations   *prometheus.CounterVec
	upstreamErrors *prometheus.CounterVec
	retries        *prometheus.CounterVec
	fallbacks      *prometheus.CounterVec
	coolDowns      *prometheus.CounterVec
	heartbeats     prometheus.Counter
	reloads        *prometheus.CounterVec
	current        prometheus.Gauge
	gaps           gapCounts
	captureLag     prometheus.Histogram
	bytes          *prometheus.CounterVec
	limited        *prometheus.CounterVec
	turnedAway     *prometheus.CounterVec
	callers        *callers

	// series are looked up once per exchange, and added when a kind is first seen: the map is replaced, never changed.
	series atomic.Pointer[map[kind]*series]
	adding sync.Mutex
}

// kind has the labels of the exchange metrics; most use the first two.
type kind struct {
	surface  codec.Format
	provider string
	outcome  record.Outcome
	class    string // of the status
}

// series are the children of one kind.
type series struct {
	requests  prometheus.Counter
	duration  prometheus.Observer
	firstByte prometheus.Observer
	tokens    [tokenKinds]prometheus.Counter
	in, out   prometheus.Counter // bytes
}

func newMetrics(registry *prometheus.Registry, tracing *Tracing) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{labelSurface, labelProvider})
	}
	m := &metrics{
		requests:       counter(metricRequests, "Requests that have ended.", labelSurface, labelProvider, labelOutcome, labelStatus),
		duration:       histogram(metricDuration, "From a request's arrival to the end of its answer.", durationBuckets),
		firstByte:      histogram(metricFirstByte, "From a request's arrival to the first byte of its answer.", firstByteBuckets),
		tokens:         counter(metricTokens, "Tokens as providers count them, estimated where they do not; reasoning is a part of output.", labelSurface, labelProvider, labelKind),
		translations:   counter(metricTranslations, "Members of requests that a provider's format has no twin for.", labelSurface, labelFormat, labelTreatment),
		upstreamErrors: counter(metricUpstreamErrors, "Exchanges that failed at a provider, by class of the error.", labelProvider, labelKind),
		retries:        counter(metricRetries, "Attempts after the first, by why the one before failed.", labelProvider, labelReason),
		fallbacks:      counter(metricFallbacks, "Requests that went on to a fallback model.", labelProvider, labelTo),
		coolDowns:      counter(metricCoolDowns, "Times a credential or an endpoint was told to rest.", labelProvider, labelReason),
		heartbeats:     prometheus.NewCounter(prometheus.CounterOpts{Name: metricHeartbeats, Help: "Signs of life sent on silent streams."}),
		reloads:        counter(metricReloads, "Times the configuration was read again, by what became of it.", labelResult),
		current:        prometheus.NewGauge(prometheus.GaugeOpts{Name: metricCurrent, Help: "Whether the configuration that was read last is in use."}),
		captureLag:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricCaptureLag, Help: "How long the end of an answer waited to be on record.", Buckets: captureBuckets}),
		bytes:          counter(metricBytes, "Bytes of requests and answers as clients sent and were sent them.", labelSurface, labelProvider, labelDirection),
		limited:        counter(metricLimited, "Requests that a limit of their key turned away.", labelLimit),
		turnedAway:     counter(metricTurnedAway, "Connections that were closed as they opened, by the limit in their way.", labelLimit),
		callers:        newCallers(),
	}
	m.series.Store(&map[kind]*series{})
	m.current.Set(1)
	registry.MustRegister(m.requests, m.duration, m.firstByte, m.tokens, m.translations, m.upstreamErrors,
		m.retries, m.fallbacks, m.coolDowns, m.heartbeats, m.limited, m.reloads, m.current, &m.gaps, m.captureLag, m.bytes, m.turnedAway,
		m.callers.requests, m.callers.tokens, m.callers.cost, m.callers)
	if tracing != nil {
		registry.MustRegister(tracing.pipeline)
	}
	return m
}

func (m *metrics) report(r *Report) {
	provider := r.Provider
	if provider == "" {
		provider = none
	}
	s := m.seriesOf(kind{r.Surface, provider, r.Outcome, statusClass(r.Status)})
	s.requests.Inc()
	s.duration.Observe(r.Ended.Sub(r.Started).Seconds())
	if !r.FirstByte.IsZero() {
		s.firstByte.Observe(r.FirstByte.Sub(r.Started).Seconds())
	}
	s.in.Add(float64(r.BytesIn))
	s.out.Add(float64(r.BytesOut))
	if r.CaptureLag > 0 {
		m.captureLag.Observe(r.CaptureLag.Seconds())
	}
	m.gaps.add(r.Gaps)
	eachTokens(&r.Usage, func(kind int, n float64) { s.tokens[kind].Add(n) })
	m.callers.report(r)
	for _, note := range r.Translation {
		treatment, _, _ := strings.Cut(note, ":")
		m.translations.WithLabelValues(r.Surface.String(), r.Format.String(), treatment).Inc()
	}
	if r.Outcome == record.OutcomeUpstreamError && r.Error != nil {
		m.upstreamErrors.WithLabelValues(provider, r.Error.Kind.String()).Inc()
	}
}

// eachTokens visits the kinds of tokens that were used.
func eachTokens(u *codec.Usage, visit func(kind int, n float64)) {
	for kind, n := range [tokenKinds]int64{
		tokensInput: u.InputUncached, tokensCacheRead: u.CacheRead, tokensCacheWrite: u.CacheWrite,
		tokensOutput: u.Output, tokensReasoning: u.Reasoning,
	} {
		if n > 0 { // a counter panics if it goes down, and a provider may send any value
			visit(kind, float64(n))
		}
	}
}

func (m *metrics) seriesOf(k kind) *series {
	if s, ok := (*m.series.Load())[k]; ok {
		return s
	}
	m.adding.Lock()
	defer m.adding.Unlock()
	if s, ok := (*m.series.Load())[k]; ok {
		return s
	}
	surface := k.surface.String()
	s := &series{
		requests:  m.requests.WithLabelValues(surface, k.provider, k.outcome.String(), k.class),
		duration:  m.duration.WithLabelValues(surface, k.provider),
		firstByte: m.firstByte.WithLabelValues(surface, k.provider),
		in:        m.bytes.WithLabelValues(surface, k.provider, "in"),
		out:       m.bytes.WithLabelValues(surface, k.provider, "out"),
	}
	for kind := range s.tokens {
		s.tokens[kind] = m.tokens.WithLabelValues(surface, k.provider, tokenKindNames[kind])
	}
	more := maps.Clone(*m.series.Load())
	more[k] = s
	m.series.Store(&more)
	return s
}

var statusClasses = [...]string{none, "1xx", "2xx", "3xx", "4xx", "5xx"}

func statusClass(status int) string {
	if status < 0 || status/100 >= len(statusClasses) {
		return other
	}
	return statusClasses[status/100]
}

// levels collects [Levels].
type levels struct{ Levels }

var (
	requestsOpen  = prometheus.NewDesc(metricRequestsOpen, "Requests whose answer has not been sent whole.", nil, nil)
	streamsOpen   = prometheus.NewDesc(metricStreamsOpen, "Answers that are being streamed.", nil, nil)
	inFlightBytes = prometheus.NewDesc(metricInFlightBytes, "Bytes of request bodies that are being handled.", nil, nil)
	inFlightLimit = prometheus.NewDesc(metricInFlightLimit, "What mneme_in_flight_bytes may reach before requests are turned away.", nil, nil)
	breakerState  = prometheus.NewDesc(metricBreaker, "0: the endpoint is asked, 1: one call tries it, 2: it is left alone.", []string{labelProvider, labelEndpoint}, nil)
	keysReady     = prometheus.NewDesc(metricKeysReady, "Credentials of the server's that are not told to rest.", []string{labelProvider, labelEndpoint}, nil)
	connections   = prometheus.NewDesc(metricConnections, "Connections of clients.", nil, nil)
	storeQueue    = prometheus.NewDesc(metricStoreQueue, "Operations that wait for the one writer of the store.", nil, nil)
	digestQueue   = prometheus.NewDesc(metricDigestQueue, "Exchanges on record that wait to be digested into turns.", nil, nil)
	captures      = prometheus.NewDesc(metricCaptures, "Exchanges by what the store did with them.", []string{labelResult}, nil)
	recalls       = prometheus.NewDesc(metricRecalls, "Questions to the memory, by what became of them.", []string{labelResult}, nil)
	recallTokens  = prometheus.NewDesc(metricRecallTokens, "Tokens of the texts that were recalled, estimated.", nil, nil)
	indexLag      = prometheus.NewDesc(metricIndexLag, "Changes of turns that searches do not use yet.", []string{labelIndex}, nil)
	embedCalls    = prometheus.NewDesc(metricEmbedCalls, "Calls of the embedder of the index.", []string{labelResult}, nil)
	summaryCalls  = prometheus.NewDesc(metricSummaryCalls, "Calls of the model that writes summaries of sessions.", []string{labelResult}, nil)
	summaryTokens = prometheus.NewDesc(metricSummaryTokens, "Tokens that summaries of sessions have used.", nil, nil)
	embedTokens   = prometheus.NewDesc(metricEmbedTokens, "Tokens that the embedder of the index has used.", nil, nil)
)

func (l *levels) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		requestsOpen, streamsOpen, inFlightBytes, inFlightLimit, breakerState, keysReady, connections, storeQueue, digestQueue, captures, indexLag, recalls, recallTokens,
	} {
		to <- d
	}
}

func (l *levels) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(requestsOpen, float64(l.RequestsOpen()))
	gauge(streamsOpen, float64(l.StreamsOpen()))
	gauge(inFlightBytes, float64(l.InFlightBytes()))
	gauge(inFlightLimit, float64(l.InFlightLimit))
	for _, e := range l.Endpoints() {
		to <- prometheus.MustNewConstMetric(breakerState, prometheus.GaugeValue, float64(e.Breaker), e.Provider, e.BaseURL)
		to <- prometheus.MustNewConstMetric(keysReady, prometheus.GaugeValue, float64(e.KeysReady), e.Provider, e.BaseURL)
	}
	gauge(connections, float64(l.Connections()))
	counted := l.Recalls()
	for result, n := range map[string]int64{"spoke": counted.Spoke, "silent": counted.Silent, "late": counted.Late} {
		to <- prometheus.MustNewConstMetric(recalls, prometheus.CounterValue, float64(n), result)
	}
	to <- prometheus.MustNewConstMetric(recallTokens, prometheus.CounterValue, float64(counted.Tokens))
	if l.IndexLag != nil {
		words, vectors := l.IndexLag()
		to <- prometheus.MustNewConstMetric(indexLag, prometheus.GaugeValue, float64(words), "words")
		to <- prometheus.MustNewConstMetric(indexLag, prometheus.GaugeValue, float64(vectors), "vectors")
	}
	stats := l.Captures()
	gauge(storeQueue, float64(stats.Queued))
	gauge(digestQueue, float64(stats.Undigested))
	for result, n := range map[string]int64{
		"captured": stats.Captured, "shed": stats.Shed, "off": stats.Off, "refused": stats.Refused, "failed": stats.Failed,
	} {
		to <- prometheus.MustNewConstMetric(captures, prometheus.CounterValue, float64(n), result)
	}
}

// modelCalls collects the calls that mneme makes on its own behalf: those of the index's embedder, and of the writer of
// summaries.
type modelCalls struct {
	calls, tokens *prometheus.Desc
	usage         func() (answered, failed, tokens int64)
}

func (m modelCalls) Describe(to chan<- *prometheus.Desc) {
	to <- m.calls
	to <- m.tokens
}

func (m modelCalls) Collect(to chan<- prometheus.Metric) {
	answered, failed, tokens := m.usage()
	to <- prometheus.MustNewConstMetric(m.calls, prometheus.CounterValue, float64(answered), "answered")
	to <- prometheus.MustNewConstMetric(m.calls, prometheus.CounterValue, float64(failed), "failed")
	to <- prometheus.MustNewConstMetric(m.tokens, prometheus.CounterValue, float64(tokens))
}
