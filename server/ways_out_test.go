package server_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
)

const webhookSecret = "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh"

// waysOut has the parts of a server through which what it knows of requests reaches others than the client and the
// provider, and how the test below reads each. The others are given what they need by the operator alone, or, as the centre
// of a cluster, are what the request is for.
var waysOut = map[string]string{
	"Log": "log", "Telemetry": "log, metrics and traces", "Webhooks": "webhooks", "Engine": "files and memory", "Management": "memory",
	"Memory": "memory", "Recaller": "memory", "Home": "", "Examine": "", "Centre": "",
	"Inherited": "", "Router": "", "OpenID": "", "Recall": "", "Limiter": "", "Leases": "", "KeyLimits": "", "Clock": "", "TLS": "", "PublicNames": "",
}

// A new part that could tell of requests has to be entered in waysOut, and read below if it does.
func TestEveryWayOutIsKnown(t *testing.T) {
	options := reflect.TypeFor[server.Options]()
	for i := range options.NumField() {
		f := options.Field(i)
		switch f.Type.Kind() {
		case reflect.Pointer, reflect.Interface, reflect.Func, reflect.Struct, reflect.Chan, reflect.Map:
			if _, known := waysOut[f.Name]; !known && f.IsExported() {
				t.Errorf("server.Options.%s is not in waysOut: what it is told of requests has to be masked, and read in TestNoWayOutShowsACredential", f.Name)
			}
		}
	}
}

// Clients write credentials where nobody expects them, and providers repeat them. Of all of that only masked text goes
// to anybody else.
func TestNoWayOutShowsACredential(t *testing.T) {
	dir := t.TempDir()
	told := make(chan string, 100)
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- fmt.Sprint(r.Header, string(body))
	}))
	defer listener.Close()
	deaf := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer deaf.Close()
	log := &notes{}
	hooks, err := webhook.Start(webhook.Options{
		Hooks: []webhook.Hook{{URL: listener.URL, Secret: webhookSecret}, {URL: deaf.URL, Secret: webhookSecret}}, Dir: filepath.Join(dir, "webhooks"), Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	ok(t, err)
	received := overHTTP(t)
	tracing, err := telemetry.StartTracing(t.Context(), telemetry.TracingOptions{})
	ok(t, err)
	observer := telemetry.New(telemetry.Options{Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Version: "test", Tracing: tracing})
	h := build(t, func(p *plan) {
		p.store.Dir, p.store.Digest, p.server.Webhooks, p.server.Telemetry = dir, digest.Exchange, hooks, observer
	})
	h.key = h.createKey("acme", store.AllScopes)
	failures := 0
	for _, s := range generating {
		for _, model := range []string{s.model, "gpt-5-" + aKey, "claude-" + aKey, "no-such-" + aKey} {
			for _, script := range []string{`text "hi"`, `error overloaded message="not ` + aKey + `"`, `error 400 message="not ` + aKey + `"`} {
				to := s
				to.model = model
				a := h.post(to.path, to.body(script, strings.HasPrefix(script, "text")), "User-Agent", "client "+aKey, "X-Service-Chat-Key", "chat "+aKey,
					"X-Service-External-Session-ID", "session "+aKey, "X-Service-Project", "/home/"+aKey, "X-Request-Id", aKey, "Tracestate", "a="+aKey,
					"X-Service-Recall", "tokens="+aKey)
				if strings.HasPrefix(script, "error overloaded") && a.status >= 500 {
					failures++
				}
				for name, values := range a.header {
					if strings.HasPrefix(name, "X-Service-") && leaks(strings.Join(values, " ")) {
						t.Errorf("%s %s: the header %s: %s", model, script, name, values)
					}
				}
			}
		}
	}
	if failures == 0 {
		t.Fatal("no provider failed, so no webhook was sent")
	}
	ways := map[string]string{}
	for range failures {
		ways["webhook"] += <-told
	}
	for _, path := range []string{"/v1/memory/sessions", "/v1/memory/exchanges", "/v1/memory/export.jsonl", "/v1/memory/stats", "/v1/memory/usage?by=model"} {
		ways[path] = h.do(http.MethodGet, path, "", "Authorization", "Bearer "+h.key).body
	}
	ways["metrics"] = fmt.Sprint(scrape(t, observer.Metrics()))
	ok(t, h.stop())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ok(t, tracing.Shutdown(ctx))
	received.stop()
	hooks.Close()
	ways["traces"] = fmt.Sprint(received.all(func(*otlp.Span) bool { return true }))
	ways["log"] = log.String() + h.log.String()
	for name, text := range ways {
		if text == "" || leaks(text) {
			t.Errorf("%s shows the credential, or nothing: %.3000s", name, text)
		}
	}
	pending := 0
	ok(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.Contains(path, "webhooks") {
			pending++
		}
		text, err := os.ReadFile(path)
		if leaks(string(text)) {
			t.Errorf("%s shows the credential", path)
		}
		return err
	}))
	if pending == 0 {
		t.Error("no event waits on disk")
	}
}
