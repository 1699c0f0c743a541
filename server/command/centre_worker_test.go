package command

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

// A worker is there before its centre, takes what an edge ships once the centre is gone, and then loses the brokers.
func TestAWorkerTellsWhatItTakesAndWhetherItIsReady(t *testing.T) {
	broker := startBroker(t)
	file := filepath.Join(t.TempDir(), "mneme.yaml")
	model, err := provider.Start(provider.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, model.Close()) })
	text := "cluster: {nats: [\"" + broker.ClientURL() + "\"], node: 1}\ncentre: {postgres: \"" + postgrestest.Start(t, false).Database(t) + "\"}\n" +
		"providers: {openai: {base_url: \"" + model.URL() + "/v1\", api_key: key}}\nsearch: {embedder: {model: local-hash-v1, dimensions: 256}, summaries: {model: gpt-4.1, quiet: 10ms}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(config.EnvClusterKey, strings.Repeat("01", 32))
	t.Setenv(config.EnvMasterKey, strings.Repeat("02", 32))
	worker := startWorker(t, file)
	if status, _ := worker.get("/healthz"); status != http.StatusOK {
		t.Errorf("it lives: %d", status)
	}
	if status, said := worker.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(said, "starting") {
		t.Errorf("without a centre it answers %d %s", status, said)
	}
	if err := worker.probed(); err == nil || !strings.Contains(err.Error(), "503: starting") {
		t.Errorf("the health check of its container says %v", err)
	}
	if status, said := worker.get("/keys"); status != http.StatusNotFound {
		t.Errorf("it manages: %d %s", status, said)
	}

	cfg, err := config.Load(config.Sources{File: file, Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	accounts, edge := openNode(t, 0), openNode(t, 2, "acme", "elsewhere")
	centre, err := joinAsCentre(t.Context(), &cfg, accounts, nil, "", telemetry.New(telemetry.Options{}), log)
	if err != nil {
		t.Fatal(err)
	}
	_, err = accounts.Accounts().Create("acme")
	check(t, err)
	worker.eventually("it is ready", func() bool {
		status, said := worker.get("/readyz")
		return status == http.StatusOK && said == "ready\n"
	})
	check(t, worker.probed())
	cfg.Search.Embedder.Dimensions = 512
	embedder, err := cfg.Search.Embedder.Local()
	check(t, err)
	check(t, centre.embed(t.Context(), embedder))
	worker.eventually("it is ready, and says that it embeds nothing beside the embedder of the centre", func() bool {
		status, said := worker.get("/readyz")
		return status == http.StatusOK && strings.HasPrefix(said, "ready\nno turns are embedded here")
	})
	centre.Close()

	for _, x := range []struct{ account, said string }{
		{"acme", strings.Repeat("worth a summary ", 50)}, {"acme", "hello"}, {"elsewhere", "hello"},
	} {
		r, err := edge.Begin(t.Context(), &record.Opening{
			Account: x.account, Surface: codec.Chat, Format: codec.Chat, Body: []byte(`{"model":"m","messages":[{"role":"user","content":"` + x.said + `"}]}`),
		})
		if err == nil {
			err = r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o, err := clusterOptions(&cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	shipping, err := cluster.Ship(t.Context(), edge.Shipping(), 2, o)
	if err != nil {
		t.Fatal(err)
	}
	defer shipping.Close()
	worker.eventually("its metrics tell of all that", func() bool {
		_, said := worker.get("/metrics")
		for _, line := range []string{
			"mneme_cluster_connected 1", "mneme_cluster_arrived_total 3", "mneme_cluster_taken_frames_total 1", "mneme_cluster_take_seconds_count 1",
			`mneme_cluster_refused_total{reason="account"} 1`, "mneme_cluster_aside_exchanges 1",
			"mneme_cluster_stream_waiting_messages 0", "mneme_cluster_undigested_exchanges 0",
			`mneme_summary_calls_total{result="answered"} 1`, "mneme_cluster_unsummarized_sessions 0",
		} {
			if !strings.Contains(said, "\n"+line+"\n") {
				worker.missing = line
				return false
			}
		}
		return true
	})

	broker.Shutdown()
	worker.eventually("it is not ready any more", func() bool { status, _ := worker.get("/readyz"); return status == http.StatusServiceUnavailable })
	if status, _ := worker.get("/healthz"); status != http.StatusOK {
		t.Errorf("it is to be killed, which helps nobody: %d", status)
	}
}

func openNode(t *testing.T, node uint16, accounts ...string) *engine.Engine {
	t.Helper()
	m, err := engine.Open(store.Options{Dir: t.TempDir(), Node: node, MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{2}, 32)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	for _, account := range accounts {
		if _, err := m.Accounts().Create(account); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// supervised is a worker whose probes are asked.
type supervised struct {
	t       *testing.T
	url     string
	missing string // what was last looked for in vain
}

// startWorker runs "mneme centre --worker --listen 127.0.0.1:0", which ends with the test.
func startWorker(t *testing.T, file string) *supervised {
	t.Helper()
	out, said := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		serve := CentreServe{StoreFlags: StoreFlags{Config: file}, Listen: "127.0.0.1:0", Worker: true}
		ended <- serve.Run(ctx, &Env{Out: said, Err: io.Discard})
		_ = said.Close()
	}()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("the worker ends: %v", <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &supervised{t: t, url: strings.TrimSpace(strings.TrimPrefix(line, "metrics and probes on "))}
}

// probed runs the health check of a container.
func (w *supervised) probed() error {
	return (&Status{Ready: w.url}).Run(w.t.Context(), &Env{Out: io.Discard})
}

func (w *supervised) get(path string) (status int, text string) {
	w.t.Helper()
	answer, err := http.Get(w.url + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func (w *supervised) eventually(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("it does not come about that %s: %s", what, w.missing)
		}
	}
}
