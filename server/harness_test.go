package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/listen/listentest"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
)

// timeout is how long a test waits for something that is to happen at once; only a failure takes that long.
const timeout = time.Minute

// pollers live as long as the process: of libraries that start one when they are loaded.
var pollers = []goleak.Option{
	goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait"),
	goleak.IgnoreAnyFunction("github.com/cloudwego/hertz/pkg/protocol.UpdateServerDate.func1"),
	goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
}

// The keys that the harness's providers are opened with. None of them may come to light.
const (
	serverDefaultKey = "server-default-secret"
	accountsOwnKey   = "accounts-own-secret"
	callersOwnKey    = "callers-own-secret"
)

// surface is an API of the proxy with a model whose provider speaks that very format.
type surface struct {
	name, path, model string
	format            codec.Format
	upstream          string // path at the simulated provider
}

var (
	chat       = surface{"chat", "/v1/chat/completions", "gpt-4.1", codec.Chat, "/v1/chat/completions"}
	responses  = surface{"responses", "/v1/responses", "gpt-5.5", codec.Responses, "/v1/responses"}
	messages   = surface{"messages", "/v1/messages", "claude-opus-4-8", codec.Messages, "/v1/messages"}
	gemini     = surface{"gemini", "/v1beta/models/", "gemini-3.8-flash", codec.Gemini, "/v1beta/models/"}
	embeddings = surface{"embeddings", "/v1/embeddings", "text-embedding-3-small", codec.Embeddings, "/v1/embeddings"}

	generating = []surface{chat, responses, messages, gemini}
	surfaces   = []surface{chat, responses, messages, gemini, embeddings}
)

// body is a request that plays a script of the simulated provider (package bench/provider).
func (s surface) body(script string, stream bool) string {
	prompt := quoted("Hello. [[sim: " + script + "]]")
	switch s.name {
	case "chat":
		return fmt.Sprintf(`{"model":"%s","stream":%t,"messages":[{"role":"user","content":%s}]}`, s.model, stream, prompt)
	case "responses":
		return fmt.Sprintf(`{"model":"%s","stream":%t,"input":[{"type":"message","role":"user","content":%s}]}`, s.model, stream, prompt)
	case "messages":
		return fmt.Sprintf(`{"model":"%s","stream":%t,"max_tokens":4096,"messages":[{"role":"user","content":%s}]}`, s.model, stream, prompt)
	case "gemini":
		return fmt.Sprintf(`{"model":"%s","contents":[{"role":"user","parts":[{"text":%s}]}]}`, s.model, prompt) + map[bool]string{true: streamed}[stream]
	default:
		return fmt.Sprintf(`{"model":"%s","input":%s}`, s.model, prompt)
	}
}

// streamed ends the body of a request of Google's clients for a stream.
const streamed = "\n"

// at returns where a body goes. The path of Google's clients says which model they ask, and whether they want a stream.
func at(path, body string) string {
	if path != gemini.path {
		return path
	}
	var asked struct{ Model string }
	if err := json.Unmarshal([]byte(body), &asked); err != nil || asked.Model == "" {
		asked.Model = gemini.model
	}
	if strings.HasSuffix(body, "}"+streamed) {
		return path + asked.Model + ":streamGenerateContent?alt=sse"
	}
	return path + asked.Model + ":generateContent"
}

var modelInBody = regexp.MustCompile(`("model"|"\\u006dodel") *: *"[^"]*",`)

// sent is what of a body goes to the surface's own provider.
func (s surface) sent(body string) string {
	if s.name == "gemini" {
		return modelInBody.ReplaceAllString(body, "")
	}
	return body
}

// with is a body with one more member in front.
func with(body, member string) string { return "{" + member + "," + strings.TrimPrefix(body, "{") }

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// harness is a running proxy on a store of its own, with one simulated provider behind all of its providers.
type harness struct {
	t        testing.TB
	url, key string
	store    *engine.Engine
	provider *provider.Server
	proxy    *server.Server
	client   *http.Client
	tls      *tls.Config // of clients; nil without TLS
	log      *notes

	stop func() error // tells the proxy to stop and waits; may be called more than once
}

// plan is what a test may change about its harness.
type plan struct {
	server   server.Options
	router   router.Config
	provider provider.Options
	store    store.Options
	index    *search.Options      // nil: there is none
	engine   func(*server.Engine) // changes the harness's; may be nil
	prepare  func(*server.Server) // before it is run; may be nil
	client   *tls.Config          // of clients, for a proxy with TLS
}

// transportPlan lets a harness be reached in one of the ways that a proxy can be.
type transportPlan = func(*plan)

// onEveryTransport tells the same story over each of them.
func onEveryTransport(t *testing.T, story func(*testing.T, transportPlan)) {
	t.Run("plain", func(t *testing.T) { story(t, func(*plan) {}) })
	t.Run("TLS", func(t *testing.T) { story(t, overTLS(t)) })
	t.Run("unix", func(t *testing.T) { story(t, overUnix(t)) })
}

// Linux reports a client's departure; elsewhere the proxy reads to notice it, and must not lose what it reads.
func TestWhereTheSystemReportsNoDeparturesTheSameHolds(t *testing.T) {
	for name, story := range map[string]func(*testing.T, transportPlan){
		"a client that leaves":           aClientThatLeavesStopsTheProvider,
		"a half-closed client":           aHalfClosedClientCountsAsGone,
		"a flood behind a request":       aFloodAfterARequestEndsTheConnection,
		"connections are used again":     connectionsAreUsedAgain,
		"a slow reader slows a provider": aSlowReaderSlowsItsProviderAndNothingIsBuffered,
	} {
		t.Run(name, func(t *testing.T) { story(t, func(p *plan) { p.server.NoticeDeparturesByReading() }) })
	}
}

func overTLS(t testing.TB) transportPlan {
	authority, dir := listentest.NewAuthority(t, "authority"), t.TempDir()
	return func(p *plan) {
		p.server.Listen, p.server.TLS = []string{"tls:127.0.0.1:0"}, authority.Issue(dir, "proxy", time.Now().Add(time.Hour))
		p.client = authority.Client()
	}
}

func overUnix(t testing.TB) transportPlan {
	dir, err := os.MkdirTemp("", "mneme") // short enough for a socket
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return func(p *plan) { p.server.Listen = []string{"unix:" + filepath.Join(dir, "mneme.sock")} }
}

// build starts a harness; it ends with the test and leaves nothing behind.
func build(t testing.TB, changes ...func(*plan)) *harness {
	t.Helper()
	before, others := openFiles(t), append([]goleak.Option{goleak.IgnoreCurrent()}, pollers...)
	t.Cleanup(func() {
		eventually(t, func() error { return goleak.Find(others...) })
		eventually(t, func() error {
			if after := openFiles(t); after > before {
				return fmt.Errorf("%d files and sockets are open, %d were before the test", after, before)
			}
			return nil
		})
	})
	h := &harness{t: t, log: &notes{}}
	p := plan{store: store.Options{Dir: t.TempDir(), MinFreeDisk: -1}, server: server.Options{Listen: []string{"127.0.0.1:0"}}}
	redactor, err := redact.New(redact.Options{Builtin: true})
	ok(t, err)
	p.store.Redact, p.store.Stream = redactor, digest.Stream
	p.server.Log = slog.New(slog.NewTextHandler(h.log, nil))
	// However slow the machine is, answers hold what the provider sent alone, and a drain lets them end.
	p.server.Heartbeat, p.server.DrainTimeout = time.Hour, timeout
	p.server.Recall.Deadline = timeout
	p.router.Providers = map[string]router.ProviderConfig{}
	for _, change := range changes {
		change(&p)
	}
	h.provider, err = provider.Start(p.provider)
	ok(t, err)
	t.Cleanup(func() { ok(t, h.provider.Close()) })
	if p.store.MinFreeDisk >= 0 { // the store may take nothing from the start
		open := p.store
		open.MinFreeDisk = -1
		h.store, err = engine.Open(open, nil)
		ok(t, err)
		h.furnish()
		ok(t, h.store.Close())
	}
	h.store, err = engine.Open(p.store, p.index)
	ok(t, err)
	t.Cleanup(func() { ok(t, h.store.Close()) })
	if h.key == "" {
		h.furnish()
	}
	for _, name := range []string{"openai", "anthropic", "gemini", "deepseek"} {
		if _, set := p.router.Providers[name]; !set {
			c := router.ProviderConfig{APIKey: serverDefaultKey}.WithSimulated(name, h.provider.URL())
			c.Simulated, c.APIKey = false, serverDefaultKey
			p.router.Providers[name] = c
		}
	}
	routes, err := router.New(p.router)
	ok(t, err)
	t.Cleanup(routes.Close)
	p.server.Engine, p.server.Router = server.Over(h.store), routes
	if p.engine != nil {
		p.engine(&p.server.Engine)
	}
	h.proxy, err = server.New(p.server)
	ok(t, err)
	h.tls = p.client
	h.url = h.proxy.Addresses()[0].Origin()
	if h.url == "" {
		h.url = "http://on-a-socket"
	}
	if p.prepare != nil {
		p.prepare(h.proxy)
	}
	h.run()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, TLSClientConfig: h.tls, DialContext: h.reach}
	h.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return h
}

// furnish makes the harness's account and key.
func (h *harness) furnish() {
	h.t.Helper()
	h.account("acme")
	h.key = h.createKey("acme", store.ScopeWrite)
}

func (h *harness) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var ended error
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended = h.proxy.Run(ctx)
	}()
	h.stop = func() error {
		cancel()
		<-done
		return ended
	}
	h.t.Cleanup(func() { // a test that expects more has asked already
		if err := h.stop(); err != nil && !errors.Is(err, server.ErrAborted) {
			h.t.Errorf("the server ended with: %v", err)
		}
	})
}

// notes collects what is logged.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text = bytes.Buffer{}
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (h *harness) account(name string) {
	h.t.Helper()
	_, err := h.store.Accounts().Create(name)
	ok(h.t, err)
}

func (h *harness) createKey(account string, scopes store.Scopes) string {
	h.t.Helper()
	secret, _, err := h.store.Keys().Create(account, scopes, "test")
	ok(h.t, err)
	return secret
}

// foreignKey is a key of another installation: well made, and unknown here.
func foreignKey(t *testing.T) string {
	t.Helper()
	st, err := store.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1})
	ok(t, err)
	defer func() { ok(t, st.Close()) }()
	_, err = st.Accounts().Create("acme")
	ok(t, err)
	secret, _, err := st.Keys().Create("acme", store.AllScopes, "")
	ok(t, err)
	return secret
}

// answer is what a client received.
type answer struct {
	status int
	header http.Header
	body   string
	cut    error // why the body has no clean end; nil when it has
}

func (a *answer) exchange() string { return a.header.Get("X-Service-Exchange-ID") }

// post sends a body with the harness's key. headers are name, value, name, value …; a name with an empty value is left out.
func (h *harness) post(path, body string, headers ...string) *answer {
	h.t.Helper()
	return h.do(http.MethodPost, path, body, append([]string{"Authorization", "Bearer " + h.key}, headers...)...)
}

func (h *harness) do(method, path, body string, headers ...string) *answer {
	h.t.Helper()
	a, err := h.attempt(method, path, body, headers...)
	ok(h.t, err)
	return a
}

// outcome is post for a goroutine beside the test's own, which cannot end the test. An answer that does not come is one
// that is cut.
func (h *harness) outcome(path, body string) *answer {
	a, err := h.attempt(http.MethodPost, path, body, "Authorization", "Bearer "+h.key)
	if err != nil {
		return &answer{cut: err}
	}
	return a
}

// attempt is do for requests that may find no server.
func (h *harness) attempt(method, path, body string, headers ...string) (*answer, error) {
	response, err := h.client.Do(h.request(context.Background(), method, path, body, headers...))
	if err != nil {
		return nil, err
	}
	return read(response), nil
}

func (h *harness) request(ctx context.Context, method, path, body string, headers ...string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, h.url+at(path, body), strings.NewReader(body))
	ok(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

func read(response *http.Response) *answer {
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &answer{status: response.StatusCode, header: response.Header, body: string(body), cut: err}
}

// direct asks the simulated provider itself. It answers the same request with the same bytes.
func (h *harness) direct(s surface, body string) *answer {
	h.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, h.provider.URL()+at(s.upstream, body), strings.NewReader(s.sent(body)))
	ok(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := h.client.Do(r)
	ok(h.t, err)
	return read(response)
}

// upstream is the newest request that reached the provider.
func (h *harness) upstream() provider.Recorded {
	h.t.Helper()
	all := h.provider.Requests()
	if len(all) == 0 {
		h.t.Fatal("no request has reached the provider")
	}
	return all[len(all)-1]
}

// record is what the store holds of an exchange at this very moment.
func (h *harness) record(id string) *record.Exchange {
	h.t.Helper()
	x, err := h.store.Archive().Exchange("acme", id)
	ok(h.t, err)
	return x
}

// settled is the record of an exchange once it has ended.
func (h *harness) settled(id string) *record.Exchange {
	h.t.Helper()
	var x *record.Exchange
	eventually(h.t, func() error {
		var err error
		if x, err = h.store.Archive().Exchange("acme", id); err == nil && x.Outcome == record.OutcomeOpen {
			err = errors.New("the exchange is still open")
		}
		return err
	})
	return x
}

// newest returns the newest exchange of an account once there is one and it has ended.
func (h *harness) newest(account string) *record.Exchange {
	h.t.Helper()
	var list []record.ExchangeInfo
	eventually(h.t, func() error {
		if list = h.records(account); len(list) == 0 {
			return errors.New("nothing is on record")
		}
		return nil
	})
	return h.settled(list[0].ID)
}

// records are all exchanges of an account, newest first; "" for all accounts.
func (h *harness) records(account string) []record.ExchangeInfo {
	h.t.Helper()
	page, err := h.store.Archive().Exchanges(account, record.ExchangeQuery{Limit: 1000})
	ok(h.t, err)
	return page.Data
}

// reach opens a socket to the proxy, or to what stands at another address.
func (h *harness) reach(ctx context.Context, network, address string) (net.Conn, error) {
	if to := h.proxy.Addr(); to.Network() == "unix" && strings.HasPrefix(address, "on-a-socket:") {
		network, address = "unix", to.String()
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// connect opens a connection to the proxy over its transport.
func (h *harness) connect(ctx context.Context) (net.Conn, error) {
	to := h.proxy.Addr()
	conn, err := h.reach(ctx, to.Network(), to.String())
	if err != nil || h.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, h.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// dial opens a raw connection to the proxy.
func (h *harness) dial() net.Conn {
	h.t.Helper()
	conn, err := h.attemptDial()
	ok(h.t, err)
	return conn
}

// attemptDial is dial for connections that may be closed while they open.
func (h *harness) attemptDial() (net.Conn, error) {
	conn, err := h.connect(context.Background())
	if err != nil {
		return nil, err
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn, conn.SetDeadline(time.Now().Add(timeout))
}

// raw is a request as it stands on the wire.
func (h *harness) raw(s surface, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		at(s.path, body), h.key, len(body), strings.Join(append(headers, ""), "\r\n"), body)
}

// noSecrets fails when one of the providers' keys or a service key has come to light.
func (h *harness) noSecrets(where, text string) {
	h.t.Helper()
	for _, secret := range []string{serverDefaultKey, accountsOwnKey, callersOwnKey, h.key} {
		if strings.Contains(text, secret) {
			h.t.Errorf("%s shows the secret %q:\n%s", where, secret, text)
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check gives nil.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(timeout)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) { // a check may take the time of what it waits for
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(pause)
	}
}

// closed waits for a channel that is to be closed at once.
func closed(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(timeout):
		t.Fatalf("%s does not happen", what)
	}
}

// openFiles counts the sockets and files of this process, without those that the runtime polls with.
func openFiles(t testing.TB) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	ok(t, err)
	count := 0
	for _, link := range links {
		target, err := os.Readlink(link)
		if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/dev/") && !strings.HasPrefix(target, "/proc/") {
			count++
		}
	}
	return count
}

// member is the value at a path of names and indexes in a JSON text, as text; "" when there is none.
func member(body string, path ...string) string {
	var value any
	if json.Unmarshal([]byte(body), &value) != nil {
		return ""
	}
	for _, name := range path {
		object, isObject := value.(map[string]any)
		if !isObject {
			return ""
		}
		value = object[name]
	}
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// errorMessage is the message of an error body, whichever surface it comes from.
func errorMessage(body string) string { return member(body, "error", "message") }
