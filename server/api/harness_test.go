package api_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/search"
)

// harness is a server with a memory, before a simulated provider.
type harness struct {
	t         *testing.T
	described *description
	origin    string
	key       string // with all scopes of its account
	operator  string // a key of scope operator
	client    *http.Client
}

func build(t *testing.T) *harness {
	t.Helper()
	dir := t.TempDir()
	memory, err := engine.Open(
		store.Options{Dir: dir, MinFreeDisk: -1, Digest: digest.Exchange, Stream: digest.Stream},
		&search.Options{Dir: filepath.Join(dir, "index")},
	)
	ok(t, err)
	t.Cleanup(func() { ok(t, memory.Close()) })
	ok(t, admin.EnsureAccount(memory.Accounts()))
	key, _, err := memory.Keys().Create(admin.DefaultAccount, store.AllScopes, "of the account")
	ok(t, err)
	operator, _, err := memory.Keys().Create(admin.DefaultAccount, store.ScopeOperator, "of the operator")
	ok(t, err)
	models, err := provider.Start(provider.Options{})
	ok(t, err)
	t.Cleanup(func() { ok(t, models.Close()) })
	routes, err := router.New(router.Config{Providers: map[string]router.ProviderConfig{
		"openai": router.ProviderConfig{}.WithSimulated("openai", models.URL()), "anthropic": router.ProviderConfig{}.WithSimulated("anthropic", models.URL()),
	}})
	ok(t, err)
	t.Cleanup(routes.Close)
	quiet := slog.New(slog.DiscardHandler)
	proxy, err := server.New(server.Options{
		Listen: []string{"127.0.0.1:0"}, Engine: server.Over(memory), Router: routes,
		Management: admin.WithLiveForOperators(admin.AccountHandler(admin.Over(memory), quiet, 1<<20), admin.Over(memory), running{}, quiet),
	})
	ok(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- proxy.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		ok(t, <-served)
	})
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	h := &harness{t: t, described: readDescription(t), origin: "http://" + proxy.Addr().String(), key: key, operator: operator}
	h.client = &http.Client{Transport: h.described.over(transport)}
	return h
}

// running stands for a running server.
type running struct{}

func (running) Cluster() admin.Cluster {
	return admin.Cluster{
		Edge:   &cluster.Shipping{Connected: true, Waiting: 1, Oldest: time.Now(), Confirmed: time.Now(), Problem: "a problem"},
		Centre: &cluster.Arriving{Refused: map[string]int64{"account": 1}, Problem: "a problem"},
	}
}

func (running) Origins() []string { return []string{"http://127.0.0.1:7788"} }
func (running) Providers() []api.Provider {
	return []api.Provider{{Name: "openai", Simulated: true}}
}
func (running) WriteOff(context.Context, uint16) error { return nil }
func (running) Invite(string, bool) (string, error)    { return "code", nil }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send sends a request with a key, as described or not at all.
func (h *harness) send(key, method, path, body string, headers ...string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.origin+path, strings.NewReader(body))
	ok(h.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := h.client.Do(r)
	ok(h.t, err)
	return answer
}

// ask sends a request that has to be done, and gives the body of the answer.
func (h *harness) ask(key, method, path, body string, headers ...string) string {
	h.t.Helper()
	answer := h.send(key, method, path, body, headers...)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ok(h.t, err)
	if answer.StatusCode >= http.StatusMultipleChoices {
		h.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, text)
	}
	return string(text)
}

// converse has an exchange recorded and searchable, and gives the ids of it and of its session.
func (h *harness) converse(model, chatKey, question, reply string) (exchange, session string) {
	h.t.Helper()
	return h.record(chatKey, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, model, fmt.Sprintf("%s [[sim: text %q]]", question, reply)))
}

// show has an exchange recorded whose question has a picture behind its words, and gives its id.
func (h *harness) show() (exchange string) {
	h.t.Helper()
	exchange, _ = h.record("pictures", `{"model":"gpt-4.1","messages":[{"role":"user","content":[{"type":"text","text":"what is this"},
		{"type":"image_url","image_url":{"url":"data:image/png;base64,`+h.picture()+`"}}]}]}`)
	return exchange
}

// draw imports an exchange whose answer has a picture, and gives its id.
func (h *harness) draw() (exchange string) {
	h.t.Helper()
	const id = "exch_06h06sjyd0j3y6f45mqddn10ym"
	response := `{"id":"resp_1","object":"response","status":"completed","model":"gpt-5.5","output":[{"id":"ig_1","type":"image_generation_call","status":"completed","result":"` + h.picture() + `"}]}`
	h.ask(h.key, "POST", "/v1/memory/imports", fmt.Sprintf(`{"object":"memory.export","version":1}
{"object":"memory.exchange","id":%q,"session":"sess_06h06sjyd2k5bw1h2p87rrfs60","outcome":"complete","status":200,"started":%q,"surface":"responses","response_content_type":"application/json","raw_request":%q,"raw_response":%q}`,
		id, time.Now().UTC().Format(time.RFC3339), `{"model":"gpt-5.5","input":"draw it"}`, response), "Content-Type", "application/x-ndjson")
	return id
}

// picture is one in base64.
func (h *harness) picture() string {
	h.t.Helper()
	var drawn bytes.Buffer
	ok(h.t, png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 8, 8))))
	return base64.StdEncoding.EncodeToString(drawn.Bytes())
}

func (h *harness) record(chatKey, body string) (exchange, session string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.origin+"/v1/chat/completions", strings.NewReader(body))
	ok(h.t, err)
	r.Header.Set("Authorization", "Bearer "+h.key)
	r.Header.Set("X-Service-Chat-Key", chatKey)
	answer, err := http.DefaultClient.Do(r)
	ok(h.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ok(h.t, err)
	if answer.StatusCode != http.StatusOK {
		h.t.Fatalf("%d %s", answer.StatusCode, text)
	}
	return answer.Header.Get("X-Service-Exchange-ID"), answer.Header.Get("X-Service-Session-ID")
}
