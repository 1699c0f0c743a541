package forward_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/forward"
	"github.com/mnemeproxy/mneme/server/mcp"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// key is the only valid key.
const key = "mnm_key"

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func identify(r *http.Request) error {
	if r.Header.Get("Authorization") != "Bearer "+key {
		return codec.Errorf(codec.KindAuthentication, "no key")
	}
	return nil
}

func fail(w http.ResponseWriter, _ *http.Request, err error) {
	e := codec.AsError(err, "")
	statuses := map[codec.Kind]int{codec.KindAuthentication: http.StatusUnauthorized, codec.KindNotFound: http.StatusNotFound, codec.KindStorage: http.StatusServiceUnavailable}
	w.WriteHeader(cmp.Or(statuses[e.Kind], http.StatusBadRequest))
	_, _ = io.WriteString(w, e.Message)
}

// node is a memory, and what serves it.
type node struct {
	*engine.Engine
	http.Handler
	asked atomic.Int64
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.asked.Add(1)
	n.Handler.ServeHTTP(w, r)
}

func newNode(t *testing.T, lacks string) *node {
	t.Helper()
	e, err := engine.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange}, nil)
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	e.Follow(search.Options{Dir: t.TempDir()})
	_, err = e.Accounts().Create("acme")
	check(t, err)
	recaller := recall.New(recall.Over(e), recall.Options{})
	mux := http.NewServeMux()
	mux.Handle("/v1/memory/", memory.Handler(memory.Options{
		Archive: e.Archive(), Searcher: e.Index(), Lacks: lacks, Recaller: recaller, Fail: fail,
		Identify: func(r *http.Request, _ store.Scopes) (string, error) { return "acme", identify(r) },
		Actor:    func(*http.Request) (string, error) { return "key", nil },
	}))
	mux.Handle("/mcp", mcp.Handler(mcp.Options{
		Archive: e.Archive(), Searcher: e.Index(), Recorder: e, Recaller: recaller, Log: slog.New(slog.DiscardHandler), Fail: fail,
		Identify: func(r *http.Request, _ store.Scopes) (store.Identity, error) {
			return store.Identity{Account: "acme", KeyID: "key"}, identify(r)
		},
	}))
	return &node{Engine: e, Handler: mux}
}

// says puts a conversation on record, and returns its exchange and its session.
func (n *node) says(t *testing.T, what string) (exchange, session string) {
	t.Helper()
	r, err := n.Begin(t.Context(), &record.Opening{
		Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: what, ContentType: "application/json",
		Body: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, what),
	})
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}))
	check(t, n.Index().Wait(t.Context(), "acme"))
	info, err := n.Archive().ExchangeInfo("acme", r.ID())
	check(t, err)
	return info.ID, info.Session
}

// serve serves a memory in front of which a centre is asked.
func serve(t *testing.T, own http.Handler, centre string) (origin string) {
	t.Helper()
	at, err := url.Parse(centre)
	check(t, err)
	s := httptest.NewServer(forward.To(at, slog.New(slog.DiscardHandler)).Handler(forward.Handling{Own: own, Identify: identify, Fail: fail}))
	t.Cleanup(s.Close)
	return s.URL
}

func request(t *testing.T, method, address, body, secret string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := http.DefaultClient.Do(r)
	check(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func ask(t *testing.T, method, address, body string) (status int, text string) {
	t.Helper()
	answer := request(t, method, address, body, key)
	said, err := io.ReadAll(answer.Body)
	check(t, err)
	return answer.StatusCode, string(said)
}

func call(tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
}

func TestAnEdgeAnswersWithTheMemoryOfTheCentre(t *testing.T) {
	centre, own := newNode(t, ""), newNode(t, "centre")
	far, session := centre.says(t, "sailing to the island")
	near, _ := own.says(t, "what has just been said here")
	at := httptest.NewServer(centre)
	t.Cleanup(at.Close)
	edge := serve(t, own, at.URL)

	for name, of := range map[string]struct{ method, path, body, want string }{
		"search":      {http.MethodPost, "/v1/memory/search", `{"query":"sailing"}`, far},
		"exchanges":   {http.MethodGet, "/v1/memory/exchanges?limit=5", "", far},
		"exchange":    {http.MethodGet, "/v1/memory/exchanges/" + far, "", session},
		"not shipped": {http.MethodGet, "/v1/memory/exchanges/" + near, "", near},
		"sessions":    {http.MethodGet, "/v1/memory/sessions", "", session},
		"timeline":    {http.MethodGet, "/v1/memory/sessions/" + session + "/timeline", "", "sailing"},
		"description": {http.MethodPatch, "/v1/memory/sessions/" + session, `{"title":"Sails"}`, "Sails"},
		"export":      {http.MethodGet, "/v1/memory/export.jsonl", "", far},
		"statistics":  {http.MethodGet, "/v1/memory/stats", "", `"exchanges":1`},
		"tool":        {http.MethodPost, "/mcp", call("memory_search", `{"query":"sailing"}`), far},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := ask(t, of.method, edge+of.path, of.body)
			if status != http.StatusOK || !strings.Contains(text, of.want) {
				t.Errorf("%d %s, want %s in it", status, text, of.want)
			}
			if name != "not shipped" && strings.Contains(text, "degraded") {
				t.Errorf("it is said to lack something: %s", text)
			}
		})
	}
	if status, text := ask(t, http.MethodPost, edge+"/mcp", call("memory_note", `{"text":"the rudder is new"}`)); status != http.StatusOK {
		t.Errorf("a note: %d %s", status, text)
	}
	if page, err := own.Archive().Exchanges("acme", record.ExchangeQuery{Limit: 5}); err != nil || len(page.Data) != 2 {
		t.Errorf("the edge has %d exchanges after a note (%v), want 2", len(page.Data), err)
	}
	before := centre.asked.Load()
	if answer := request(t, http.MethodGet, edge+"/v1/memory/sessions", "", "another"); answer.StatusCode != http.StatusUnauthorized || centre.asked.Load() != before {
		t.Errorf("a caller without a key gets %d, and the centre is asked %d times", answer.StatusCode, centre.asked.Load()-before)
	}
	status, text := ask(t, http.MethodDelete, edge+"/v1/memory/sessions/"+session, "")
	var receipt struct{ ID string }
	if err := json.Unmarshal([]byte(text), &receipt); err != nil || status != http.StatusAccepted {
		t.Fatalf("an erasure: %d %s", status, text)
	}
	if _, err := centre.Archive().Erasure("acme", receipt.ID); err != nil {
		t.Errorf("the centre knows nothing of the erasure: %v", err)
	}
}

func TestAnEdgeWithoutItsCentreSaysThatItsAnswersAreAPart(t *testing.T) {
	for name, centre := range map[string]http.HandlerFunc{
		"nothing listens":              nil,
		"its database cannot be asked": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"a gateway without it":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			own := newNode(t, "centre")
			near, session := own.says(t, "sailing to the island")
			var asked atomic.Int64
			at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); centre(w, r) }))
			t.Cleanup(at.Close)
			if centre == nil {
				at.Close()
			}
			edge := serve(t, own, at.URL)
			for _, path := range []string{"/v1/memory/exchanges", "/v1/memory/sessions", "/v1/memory/sessions/" + session + "/timeline"} {
				if status, text := ask(t, http.MethodGet, edge+path, ""); status != http.StatusOK || !strings.Contains(text, near) && !strings.Contains(text, session) || !strings.Contains(text, `"degraded":["centre"]`) {
					t.Errorf("%s: %d %s", path, status, text)
				}
			}
			if answer := request(t, http.MethodGet, edge+"/v1/memory/export.jsonl", "", key); answer.Header.Get("X-Service-Memory-Degraded") != "centre" {
				t.Errorf("an export has the header %v", answer.Header)
			}
			for _, change := range [][3]string{
				{http.MethodDelete, "/v1/memory/sessions/" + session, ""},
				{http.MethodPost, "/v1/memory/erasures", `{"sessions":["` + session + `"]}`},
				{http.MethodPatch, "/v1/memory/sessions/" + session, `{"title":"Sails"}`},
				{http.MethodPost, "/mcp", call("memory_forget", `{"session":"`+session+`"}`)},
			} {
				if status, text := ask(t, change[0], edge+change[1], change[2]); status != http.StatusServiceUnavailable || !strings.Contains(text, "centre") {
					t.Errorf("%s %s: %d %s", change[0], change[1], status, text)
				}
			}
			if s, err := own.Archive().Session("acme", session); err != nil || s.Title != "" {
				t.Errorf("the edge has changed its part: %+v (%v)", s, err)
			}
			if n := asked.Load(); n > 1 {
				t.Errorf("the centre is asked %d times at once, though it cannot answer", n)
			}
		})
	}
}

// A key that the centre does not have is that of an account of the edge's own.
func TestAnAccountOfTheEdgesOwnIsAnsweredThere(t *testing.T) {
	own := newNode(t, "centre")
	near, _ := own.says(t, "sailing to the island")
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	t.Cleanup(at.Close)
	if status, text := ask(t, http.MethodPost, serve(t, own, at.URL)+"/v1/memory/search", `{"query":"sailing"}`); status != http.StatusOK || !strings.Contains(text, near) {
		t.Errorf("%d %s", status, text)
	}
}

func TestAnAnswerOfTheCentreThatEndsEarlyDoesNotLookWhole(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("{\"half\": true}\n", 10_000))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(at.Close)
	answer := request(t, http.MethodGet, serve(t, newNode(t, "centre"), at.URL)+"/v1/memory/export.jsonl", "", key)
	if text, err := io.ReadAll(answer.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the export has %d bytes (%v)", len(text), err)
	}
}

func TestEventsOfTheCentreArriveOneByOne(t *testing.T) {
	next := make(chan struct{})
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 2 {
			fmt.Fprintf(w, "data: %d\n", n)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(at.Close)
	answer := request(t, http.MethodGet, serve(t, newNode(t, "centre"), at.URL)+"/v1/memory/events", "", key)
	lines := bufio.NewScanner(answer.Body)
	for n := range 2 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", n) {
			t.Fatalf("event %d is %q (%v)", n, lines.Text(), lines.Err())
		}
		next <- struct{}{}
	}
}
