package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// observed is a harness whose metrics and log can be read.
func observed(t *testing.T, tracing *telemetry.Tracing, changes ...func(*plan)) (h *harness, metrics func() series, log *notes) {
	log = &notes{}
	telemetry := telemetry.New(telemetry.Options{Log: slog.New(slog.NewJSONHandler(log, nil)), Version: "test", Tracing: tracing})
	h = build(t, append(changes, func(p *plan) { p.server.Telemetry = telemetry })...)
	return h, func() series { return scrape(t, telemetry.Metrics()) }, log
}

// series are the values of metrics, by name and labels as Prometheus writes them.
type series map[string]float64

// scrape reads metrics as Prometheus does.
func scrape(t *testing.T, metrics http.Handler) series {
	t.Helper()
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	ok(t, err)
	found := series{}
	for name, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, pair := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			at := name
			if len(labels) > 0 {
				at += "{" + strings.Join(labels, ",") + "}"
			}
			found[at] = value(metric)
		}
	}
	return found
}

// value is a counter's or gauge's, and how often a histogram was observed.
func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	default:
		return float64(m.GetHistogram().GetSampleCount())
	}
}

// await waits until metrics have these values: an answer reaches its client before it is counted.
func await(t *testing.T, metrics func() series, want series) {
	t.Helper()
	eventually(t, func() error {
		now := metrics()
		var wrong []error
		for name, value := range want {
			if now[name] != value {
				wrong = append(wrong, fmt.Errorf("%s is %v, want %v", name, now[name], value))
			}
		}
		return errors.Join(wrong...)
	})
}

func TestMetricsAddUpToWhatClientsSaw(t *testing.T) {
	h, metrics, _ := observed(t, nil)
	h.post(messages.path, messages.body("usage input=100 cached=40 written=10 output=7", true))
	h.post(messages.path, messages.body("usage input=100 output=7", false))
	h.post(chat.path, chat.body("error 429", false))
	h.post(chat.path, `{"model":"gpt-4.1","messages":`)
	h.post(chat.path, chat.body("", false), "Authorization", "Bearer nonsense")
	h.post(chat.path, with(strings.Replace(chat.body("", true), chat.model, messages.model, 1), `"logit_bias":{"1":5}`))
	caller := fmt.Sprintf(`account="acme",key="%s"`, h.store.Keys().List("acme")[0].ID)

	await(t, metrics, series{
		`mneme_requests_total{outcome="complete",provider="anthropic",status="2xx",surface="chat"}`:     1,
		`mneme_requests_total{outcome="complete",provider="anthropic",status="2xx",surface="messages"}`: 2,
		`mneme_requests_total{outcome="upstream_error",provider="openai",status="4xx",surface="chat"}`:  1,
		`mneme_requests_total{outcome="refused",provider="none",status="4xx",surface="chat"}`:           2,
		`mneme_upstream_errors_total{kind="rate_limited",provider="openai"}`:                            1,
		`mneme_request_duration_seconds{provider="anthropic",surface="messages"}`:                       2,
		`mneme_time_to_first_byte_seconds{provider="anthropic",surface="messages"}`:                     2,
		`mneme_tokens_total{kind="input",provider="anthropic",surface="messages"}`:                      150,
		`mneme_tokens_total{kind="cache_read",provider="anthropic",surface="messages"}`:                 40,
		`mneme_tokens_total{kind="cache_write",provider="anthropic",surface="messages"}`:                10,
		`mneme_tokens_total{kind="output",provider="anthropic",surface="messages"}`:                     14,
		`mneme_translations_total{format="messages",surface="chat",treatment="dropped"}`:                1,
		`mneme_captures_total{result="captured"}`:                                                       5,
		`mneme_caller_requests_total{` + caller + `,outcome="complete"}`:                                3,
		`mneme_caller_requests_total{` + caller + `,outcome="refused"}`:                                 1, // not the one without a key
		`mneme_caller_tokens_total{` + caller + `,kind="cache_read"}`:                                   40,
		`mneme_streams_open`:    0,
		`mneme_in_flight_bytes`: 0,
	})
}

// How evenly clients were sent their answers, how long the record took, and how much passed.
func TestTheStreamThatAClientSeesIsMeasured(t *testing.T) {
	pieces := []string{benchEvent, benchEvent, benchEvent, chatStream}
	next := make(chan struct{}, 1) // the client has the piece before
	up := newUpstream(t, func(c *upstreamCall) {
		c.chunked()
		for _, piece := range pieces {
			select {
			case <-next:
				c.chunk(piece)
			case <-c.gone:
				return
			}
		}
		c.chunk("")
	})
	h, metrics, _ := observed(t, nil, func(p *plan) { up.servesAs(p, "openai") })
	body := chat.body("", true)
	next <- struct{}{}
	response, err := h.client.Do(h.request(t.Context(), http.MethodPost, chat.path, body, "Authorization", "Bearer "+h.key))
	ok(t, err)
	defer response.Body.Close()
	for i, piece := range pieces {
		if i > 0 {
			next <- struct{}{}
		}
		_, err := io.ReadFull(response.Body, make([]byte, len(piece)))
		ok(t, err)
	}
	_, err = response.Body.Read(make([]byte, 1))
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	h.post(messages.path, messages.body("", false))
	await(t, metrics, series{
		`mneme_requests_total{outcome="complete",provider="anthropic",status="2xx",surface="messages"}`: 1,
		"mneme_capture_lag_seconds": 2,
		`mneme_bytes_total{direction="in",provider="openai",surface="chat"}`:  float64(len(body)),
		`mneme_bytes_total{direction="out",provider="openai",surface="chat"}`: float64(len(strings.Join(pieces, ""))),
		"mneme_store_queue":        0,
		"mneme_stream_gap_seconds": float64(len(pieces) - 1),
	})
}

func TestOpenStreamsAndHeartbeatsAreVisible(t *testing.T) {
	h, metrics, _ := observed(t, nil, func(p *plan) { p.server.Heartbeat = 20 * time.Millisecond })
	ctx, cancel := context.WithCancel(context.Background())
	request := h.request(ctx, http.MethodPost, chat.path, chat.body("delay first=1h", true), "Authorization", "Bearer "+h.key)
	response, err := h.client.Do(request)
	ok(t, err)
	eventually(t, func() error {
		if now := metrics(); now["mneme_streams_open"] != 1 || now["mneme_requests_open"] != 1 || now["mneme_heartbeats_total"] < 1 {
			return fmt.Errorf("open: %v streams, %v requests; %v heartbeats",
				now["mneme_streams_open"], now["mneme_requests_open"], now["mneme_heartbeats_total"])
		}
		return nil
	})
	cancel()
	_ = response.Body.Close()
	eventually(t, func() error {
		if now := metrics(); now[`mneme_requests_total{outcome="client_closed",provider="openai",status="2xx",surface="chat"}`] != 1 {
			return errors.New("a client that left is not counted as one")
		}
		return nil
	})
}

// A client must not be able to grow the metrics: the names it sends are in no label.
func TestClientsCannotAddSeries(t *testing.T) {
	h, metrics, _ := observed(t, nil)
	h.post(chat.path, strings.Replace(chat.body("", false), chat.model, "gpt-first", 1))
	h.post(chat.path, strings.Replace(chat.body("", false), chat.model, "unknown-first", 1))
	await(t, metrics, series{
		`mneme_requests_total{outcome="complete",provider="openai",status="2xx",surface="chat"}`: 1,
		`mneme_requests_total{outcome="refused",provider="none",status="4xx",surface="chat"}`:    1,
	})
	before := len(metrics())
	for i := range 50 { // of names that have no price: a cost would be a series more, of the key
		h.post(chat.path, strings.Replace(chat.body("", false), chat.model, fmt.Sprintf("gpt-invented-%d", i), 1))
		h.post(chat.path, strings.Replace(chat.body("", false), chat.model, fmt.Sprintf("unknown-%d", i), 1))
	}
	await(t, metrics, series{
		`mneme_requests_total{outcome="complete",provider="openai",status="2xx",surface="chat"}`: 51,
		`mneme_requests_total{outcome="refused",provider="none",status="4xx",surface="chat"}`:    51,
	})
	if after := len(metrics()); after != before {
		t.Errorf("%d series became %d", before, after)
	}
}

func TestEveryExchangeIsOneLineOfTheLog(t *testing.T) {
	h, _, log := observed(t, nil)
	answer := h.post(messages.path, messages.body(`text "the answer" ; usage input=100 cached=40 output=7`, true))
	h.post(chat.path, chat.body("", false), "Authorization", "Bearer nonsense") // anybody can send these, in any number
	eventually(t, func() error {
		if log.String() == "" {
			return errors.New("nothing is logged")
		}
		return nil
	})
	ok(t, h.stop())
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Fatalf("%d lines:\n%s", n, log.String())
	}
	var line map[string]any
	ok(t, json.Unmarshal([]byte(log.String()), &line))
	for _, changing := range []string{"time", "first_byte_ms", "duration_ms", "key"} {
		if line[changing] == nil {
			t.Errorf("the line has no %s", changing)
		}
		delete(line, changing)
	}
	want := map[string]any{
		"level": "INFO", "msg": "exchange", "exchange": answer.exchange(), "session": answer.header.Get("X-Service-Session-ID"),
		"account": "acme", "surface": "messages", "provider": "anthropic", "format": "messages", "model": messages.model,
		"stream": true, "status": 200.0, "outcome": "complete", "input_tokens": 100.0, "output_tokens": 7.0,
	}
	if diff := cmp.Diff(want, line); diff != "" {
		t.Error(diff)
	}
}

// receiver is an OTLP receiver that keeps what it is sent.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	stop  func()
	mu    sync.Mutex
	spans []*otlp.Span
}

// Export implements the gRPC service.
func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP is the same over HTTP.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var sent collector.ExportTraceServiceRequest
	if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(body, &sent) != nil {
		http.Error(w, "not a request for traces", http.StatusBadRequest)
		return
	}
	_, _ = r.Export(request.Context(), &sent)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// named returns the only span whose name starts so.
func (r *receiver) named(t *testing.T, name string) *otlp.Span {
	t.Helper()
	found := r.all(func(span *otlp.Span) bool { return strings.HasPrefix(span.GetName(), name) })
	if len(found) != 1 {
		t.Fatalf("%d spans are named %q", len(found), name)
	}
	return found[0]
}

// below returns the spans that hang under another one, in the order of their beginning.
func (r *receiver) below(parent *otlp.Span) []*otlp.Span {
	found := r.all(func(span *otlp.Span) bool { return bytes.Equal(span.GetParentSpanId(), parent.GetSpanId()) })
	sort.Slice(found, func(i, j int) bool { return found[i].GetStartTimeUnixNano() < found[j].GetStartTimeUnixNano() })
	return found
}

func (r *receiver) all(wanted func(*otlp.Span) bool) (found []*otlp.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		if wanted(span) {
			found = append(found, span)
		}
	}
	return found
}

func attributes(span *otlp.Span) map[string]string {
	all := map[string]string{}
	for _, a := range span.GetAttributes() {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_ArrayValue:
			all[a.GetKey()] = v.ArrayValue.GetValues()[0].GetStringValue()
		default:
			all[a.GetKey()] = strings.Trim(fmt.Sprint(a.GetValue()), " ")
		}
	}
	return all
}

// overHTTP and overGRPC start a receiver and name it in the environment.
func overHTTP(t *testing.T) *receiver {
	r := &receiver{}
	s := httptest.NewServer(r)
	r.stop = s.Close
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	return r
}

func overGRPC(t *testing.T) *receiver {
	r := &receiver{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(listener)
	}()
	r.stop = func() {
		s.Stop()
		<-done
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	return r
}

// traced is a harness whose spans reach a receiver; they are there once flush has returned, which ends both.
func traced(t *testing.T, received *receiver, o telemetry.TracingOptions, changes ...func(*plan)) (h *harness, flush func()) {
	tracing, err := telemetry.StartTracing(context.Background(), o)
	ok(t, err)
	if tracing == nil {
		t.Fatal("a receiver is named and nothing is traced")
	}
	h, _, _ = observed(t, tracing, append(changes, func(p *plan) { p.router.TraceParent = o.SendTraceParent })...)
	return h, func() {
		ok(t, h.stop())
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		ok(t, tracing.Shutdown(ctx))
		received.stop()
	}
}

const (
	clientsTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientsSpan  = "00f067aa0ba902b7"
	clientsState = "00-" + clientsTrace + "-" + clientsSpan + "-01"
)

// Who continues a trace decides what is sampled, so it can be left to the callers of single keys.
func TestTracesOfTrustedKeysAreContinued(t *testing.T) {
	received := overHTTP(t)
	h, flush := traced(t, received, telemetry.TracingOptions{})
	h.post(chat.path, chat.body("", false), "Traceparent", clientsState)
	trusted, _, err := h.store.Keys().Create("acme", store.ScopeWrite, "", func(k *store.Key) { k.TrustTrace = true })
	ok(t, err)
	h.post(messages.path, messages.body("", false), "Traceparent", clientsState, "Authorization", "Bearer "+trusted)
	flush()
	for name, continued := range map[string]bool{"POST /v1/chat/completions": false, "POST /v1/messages": true} {
		span := received.named(t, name)
		if got := fmt.Sprintf("%x", span.GetTraceId()) == clientsTrace; got != continued {
			t.Errorf("%s is of the client's trace: %t, want %t", name, got, continued)
		}
		if linked := len(span.GetLinks()) == 1; linked == continued {
			t.Errorf("%s is linked to the client's trace: %t", name, linked)
		}
	}
}

func TestOperationsOnTheMemoryHaveSpans(t *testing.T) {
	received := overHTTP(t)
	h, flush := traced(t, received, telemetry.TracingOptions{TrustTraceParent: true})
	h.key = h.createKey("acme", store.AllScopes)
	h.do(http.MethodPost, "/v1/memory/search", `{"query":"not for spans"}`, "Authorization", "Bearer "+h.key, "Traceparent", clientsState)
	h.do(http.MethodPost, "/v1/memory/erasures", `{"all":true,"dry_run":true}`, "Authorization", "Bearer "+h.key)
	h.do(http.MethodGet, "/v1/memory/sessions", "", "Authorization", "Bearer "+h.key)
	id := h.post(chat.path, chat.body(`text "hi"`, false)).exchange()
	h.do(http.MethodPatch, "/v1/memory/exchanges/"+id, `{"note":"not for spans"}`, "Authorization", "Bearer "+h.key)
	agent, err := h.agent(h.key)
	ok(t, err)
	uses(t, agent, "memory_note", map[string]any{"text": "not for spans"})
	flush()
	if got := attributes(received.named(t, "update_memory")); got["gen_ai.memory.record.id"] != id || got["http.route"] != "/v1/memory/exchanges/{id}" || got["gen_ai.memory.store.id"] != "acme" {
		t.Errorf("update_memory: %v", got)
	}
	if got := attributes(received.named(t, "delete_memory")); got["gen_ai.memory.record.count"] != "int_value:0" {
		t.Errorf("delete_memory: %v", got)
	}
	if got := attributes(received.named(t, "create_memory")); got["http.route"] != "/mcp" {
		t.Errorf("create_memory: %v", got)
	}
	for name, route := range map[string]string{"search_memory": "/v1/memory/search", "delete_memory": "/v1/memory/erasures"} {
		span := received.named(t, name)
		got := attributes(span)
		if got["gen_ai.operation.name"] != name || got["http.route"] != route || got["http.response.status_code"] == "" || got["gen_ai.memory.store.id"] != "acme" {
			t.Errorf("%s: %v", name, got)
		}
		if strings.Contains(span.String(), "not for spans") {
			t.Errorf("%s has content: %s", name, span)
		}
	}
	if got := fmt.Sprintf("%x", received.named(t, "search_memory").GetTraceId()); got != clientsTrace {
		t.Errorf("the search is of trace %s, not of the client's", got)
	}
}

func TestToolsHaveSpansFromTheirCallToTheirResult(t *testing.T) {
	received := overHTTP(t)
	h, flush := traced(t, received, telemetry.TracingOptions{})
	ask := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%s}`, chat.model, quoted(`Mend it. [[sim: call edit {"path":"a.go"} ; call shell {"command":"not for spans"} ; then ; text "Mended."]]`))
	a := h.post(chat.path, ask+"]}", "X-Service-Chat-Key", "k")
	ids := regexp.MustCompile(`call_\w+`).FindAllString(a.body, -1)
	if ids = slices.Compact(ids); len(ids) != 2 {
		t.Fatalf("no two calls: %s", a.body)
	}
	called := time.Now()
	result := `,{"role":"tool","tool_call_id":%q,"content":"not for spans"}`
	calls := fmt.Sprintf(`,{"role":"assistant","tool_calls":[{"id":%q,"type":"function","function":{"name":"edit","arguments":"{}"}},{"id":%q,"type":"function","function":{"name":"shell","arguments":"{}"}}]}`, ids[0], ids[1])
	answered := h.post(chat.path, ask+calls+fmt.Sprintf(result+result, ids[0], ids[1])+"]}", "X-Service-Chat-Key", "k")
	h.post(chat.path, ask+calls+fmt.Sprintf(result+result, ids[0], ids[1])+`,{"role":"assistant","content":"Mended."},{"role":"user","content":"Thanks."}]}`, "X-Service-Chat-Key", "k")
	flush()
	x, err := h.store.Archive().ExchangeInfo("acme", answered.exchange())
	ok(t, err)
	for _, tool := range []string{"edit", "shell"} {
		span := received.named(t, "execute_tool "+tool) // only one
		if got := attributes(span); got["gen_ai.operation.name"] != "execute_tool" || got["gen_ai.tool.name"] != tool {
			t.Errorf("%s: %v", tool, got)
		}
		from, to := time.Unix(0, int64(span.GetStartTimeUnixNano())), time.Unix(0, int64(span.GetEndTimeUnixNano()))
		if from.After(called) || to.Before(called) || x.Started.Sub(to).Abs() > time.Millisecond {
			t.Errorf("%s ran from %v to %v, and was called before %v and answered at %v", tool, from, to, called, x.Started)
		}
		if strings.Contains(span.String(), "not for spans") {
			t.Errorf("content is on a span: %s", span)
		}
	}
}

func TestAnExchangeIsOneTraceFromClientToProvider(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *receiver{"http": overHTTP, "grpc": overGRPC} {
		t.Run(name, func(t *testing.T) {
			received := start(t)
			h, flush := traced(t, received, telemetry.TracingOptions{TrustTraceParent: true, SendTraceParent: true})
			answer := h.post(messages.path, messages.body(`text "not for spans" ; usage input=100 cached=40 written=20 output=7`, true),
				"Traceparent", clientsState, "X-Service-Chat-Key", "thread-1")
			sent := h.upstream().Header.Get("Traceparent")
			flush()

			request, call, capture := received.named(t, "POST /v1/messages"), received.named(t, "chat "+messages.model), received.named(t, "capture")
			for _, span := range []*otlp.Span{request, call, capture} {
				if got := fmt.Sprintf("%x", span.GetTraceId()); got != clientsTrace {
					t.Errorf("%s is of trace %s, not of the client's", span.GetName(), got)
				}
			}
			if got := fmt.Sprintf("%x", request.GetParentSpanId()); got != clientsSpan {
				t.Errorf("the request hangs under %s, not under the client's span", got)
			}
			if !bytes.Equal(call.GetParentSpanId(), request.GetSpanId()) || !bytes.Equal(capture.GetParentSpanId(), request.GetSpanId()) {
				t.Error("the call and the capture do not hang under the request")
			}
			if want := fmt.Sprintf("00-%s-%x-01", clientsTrace, call.GetSpanId()); sent != want {
				t.Errorf("the provider was told %q, want %q", sent, want)
			}
			got := attributes(call)
			for name, want := range map[string]string{
				"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": messages.model,
				"gen_ai.conversation.id": "thread-1", "gen_ai.usage.input_tokens": "int_value:100", "gen_ai.usage.output_tokens": "int_value:7",
				"gen_ai.usage.cache_write.input_tokens": "int_value:20", "gen_ai.usage.cache_creation.input_tokens": "int_value:20",
				"gen_ai.usage.cache_read.input_tokens": "int_value:40", "mneme.exchange.id": answer.exchange(), "server.address": "127.0.0.1",
			} {
				if got[name] != want {
					t.Errorf("%s is %q, want %q", name, got[name], want)
				}
			}
			if got := attributes(request); got["http.route"] != messages.path || got["mneme.outcome"] != "complete" || got["mneme.account"] != "acme" {
				t.Errorf("the request's attributes are %v", got)
			}
			everything := fmt.Sprint(received.spans)
			h.noSecrets("a span", everything)
			if strings.Contains(everything, "not for spans") {
				t.Error("content is on a span")
			}
		})
	}
}

func TestATraceOfAnUntrustedClientIsOnlyLinked(t *testing.T) {
	received := overHTTP(t)
	h, flush := traced(t, received, telemetry.TracingOptions{SendTraceParent: true})
	h.post(chat.path, chat.body("", false), "Traceparent", clientsState, "Tracestate", "vendor=client")
	sent := h.upstream().Header
	flush()

	request := received.named(t, "POST")
	if fmt.Sprintf("%x", request.GetTraceId()) == clientsTrace || len(request.GetParentSpanId()) != 0 {
		t.Error("the client's trace is continued")
	}
	if links := request.GetLinks(); len(links) != 1 || fmt.Sprintf("%x", links[0].GetTraceId()) != clientsTrace {
		t.Errorf("the client's trace is not linked: %v", links)
	}
	if strings.Contains(sent.Get("Traceparent"), clientsTrace) || sent.Get("Tracestate") != "" {
		t.Errorf("the provider is told of the client's trace: %v", sent)
	}
}

func TestFailuresAreMarkedOnlyByTheirClass(t *testing.T) {
	received := overHTTP(t)
	h, flush := traced(t, received, telemetry.TracingOptions{})
	h.post(chat.path, chat.body("error 503", false))
	sent := h.upstream().Header.Get("Traceparent")
	flush()

	call := received.named(t, "chat")
	if got := attributes(call)["error.type"]; got != "overloaded" || call.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || call.GetStatus().GetMessage() != "" {
		t.Errorf("error.type is %q, status %v", got, call.GetStatus())
	}
	if sent != "" {
		t.Errorf("the provider is told of the trace: %s", sent)
	}
}

// expect compares some attributes of a span, "" standing for one that must be absent.
func expect(t *testing.T, span *otlp.Span, want map[string]string) {
	t.Helper()
	got := attributes(span)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, want %q", span.GetName(), name, got[name], value)
		}
	}
}

func TestEveryAttemptUpToTheAnswerIsVisible(t *testing.T) {
	ring := &keyring{}
	up := newUpstream(t, ring.serve)
	received := overHTTP(t)
	h, flush := traced(t, received, telemetry.TracingOptions{}, func(p *plan) {
		up.servesAs(p, "openai")
		openai := p.router.Providers["openai"]
		openai.APIKey, openai.APIKeys = "", []router.APIKey{{Key: serverDefaultKey + "-1"}, {Key: serverDefaultKey + "-2"}}
		p.router.Providers["openai"] = openai
	})
	turn := func() {
		if a := h.post(chat.path, chat.body("", true), "X-Service-Chat-Key", "one session"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	turn() // at once
	limited := ring.last(1)[0]
	ring.limit(limited, true)
	turn() // with the other key
	flush()

	calls := received.all(func(span *otlp.Span) bool { return strings.HasPrefix(span.GetName(), "chat ") })
	if len(calls) != 2 || len(received.below(calls[0])) != 0 {
		t.Fatalf("%d calls, the first of which gave its answer in %d attempts", len(calls), len(received.below(calls[0])))
	}
	attempts := received.below(calls[1])
	if len(attempts) != 2 {
		t.Fatalf("%d attempts", len(attempts))
	}
	number := map[bool]string{true: "int_value:1", false: "int_value:2"}
	_, port, _ := net.SplitHostPort(up.listener.Addr().String())
	expect(t, attempts[0], map[string]string{
		"http.request.method": "POST", "server.address": "127.0.0.1", "server.port": "int_value:" + port,
		"http.response.status_code": "int_value:429", "error.type": "rate_limited", "http.request.resend_count": "",
		"mneme.credential": number[strings.HasSuffix(limited, "-1")],
	})
	expect(t, attempts[1], map[string]string{
		"http.response.status_code": "int_value:200", "error.type": "", "http.request.resend_count": "int_value:1",
		"mneme.credential": number[strings.HasSuffix(limited, "-2")],
	})
	for i, failed := range []bool{true, false} {
		if span := attempts[i]; span.GetKind() != otlp.Span_SPAN_KIND_CLIENT || (span.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR) != failed {
			t.Errorf("attempt %d is a %v with status %v", i, span.GetKind(), span.GetStatus())
		}
	}
	h.noSecrets("a span", fmt.Sprint(received.spans))
}

func TestACallFollowedByAFallbackIsMarkedAsFailed(t *testing.T) {
	received := overHTTP(t)
	up := newUpstream(t, func(c *upstreamCall) { c.write(full(503, "", chat.errorBody("server_error", "no"))) })
	h, flush := traced(t, received, telemetry.TracingOptions{}, func(p *plan) {
		up.servesAs(p, "openai")
		p.router.Fallbacks = []router.Fallback{{Model: chat.model, To: []string{messages.model}}}
	})
	h.post(chat.path, chat.body("", false))
	flush()
	failed, answered := received.named(t, "chat "+chat.model), received.named(t, "chat "+messages.model)
	expect(t, failed, map[string]string{"error.type": "overloaded", "mneme.provider": "openai"})
	expect(t, answered, map[string]string{"error.type": "", "mneme.provider": "anthropic"})
	if attempts := received.below(failed); len(attempts) != 1 || len(received.below(answered)) != 0 {
		t.Errorf("%d attempts at the one, %d at the other", len(attempts), len(received.below(answered)))
	}
}

// A receiver that does not answer must not hold up a client, nor the end of the proxy, and what it costs is said.
func TestADeadReceiverOfTracesIsCountedAndLogged(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", nobody)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "50")
	log := &notes{}
	tracing, err := telemetry.StartTracing(context.Background(), telemetry.TracingOptions{Log: slog.New(slog.NewTextHandler(log, nil))})
	ok(t, err)
	h, metrics, _ := observed(t, tracing)
	for range 3 {
		if answer := h.post(chat.path, chat.body("", false)); answer.status != http.StatusOK {
			t.Errorf("HTTP %d: %s", answer.status, answer.body)
		}
		h.newest("acme")
	}
	eventually(t, func() error {
		if failed := metrics()[`mneme_spans_total{result="failed"}`]; failed != 9 {
			return fmt.Errorf("%v of 9 spans are counted as failed", failed)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = tracing.Shutdown(ctx)
	if n := strings.Count(log.String(), "does not take spans"); n != 1 {
		t.Errorf("the outage is logged %d times:\n%s", n, log.String())
	}
}

func TestNothingIsTracedUnlessAReceiverIsNamed(t *testing.T) {
	for _, off := range []map[string]string{
		{},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
	} {
		for name, value := range off {
			t.Setenv(name, value)
		}
		if tracing, err := telemetry.StartTracing(context.Background(), telemetry.TracingOptions{}); tracing != nil || err != nil {
			t.Errorf("with %v: %v, %v", off, tracing, err)
		}
	}
}
