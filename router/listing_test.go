package router

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

// lister serves the lists of models of three vendors and counts how often each is asked for.
type lister struct {
	*httptest.Server
	openai, anthropic, gemini atomic.Int32
	hold                      chan struct{} // when not nil, answers wait for it to be closed
}

func newLister(t *testing.T) *lister {
	l := &lister{}
	mux := http.NewServeMux()
	serve := func(pattern string, count *atomic.Int32, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			count.Add(1)
			if l.hold != nil {
				select {
				case <-l.hold:
				case <-r.Context().Done():
				}
			}
			_, _ = w.Write([]byte(body))
		})
	}
	serve("GET /v1/models", &l.openai, `{"object":"list","data":[{"id":"gpt-5.5","object":"model","created":1795000000,"owned_by":"openai"},{"object":"model"}]}`)
	serve("GET /a/v1/models", &l.anthropic, `{"data":[{"type":"model","id":"claude-opus-5","display_name":"Claude Opus 5","created_at":"2026-06-01T00:00:00Z","max_input_tokens":200000,"max_tokens":128000}],"has_more":false}`)
	serve("GET /v1beta/models", &l.gemini, `{"models":[{"name":"models/gemini-3.8-flash","displayName":"Flash","inputTokenLimit":1000,"outputTokenLimit":100,"supportedGenerationMethods":["generateContent"]},
		{"name":"models/gemini-embedding-2","supportedGenerationMethods":["embedContent"]},{"name":"models/imagen","supportedGenerationMethods":["predict"]}]}`)
	l.Server = httptest.NewServer(mux)
	t.Cleanup(l.Close)
	return l
}

func (l *lister) config() Config {
	return Config{Providers: map[string]ProviderConfig{
		"openai":    {BaseURL: l.URL + "/v1", APIKey: "k"},
		"anthropic": {BaseURL: l.URL + "/a", APIKey: "k"},
		"gemini":    {BaseURL: l.URL + "/v1beta", APIKey: "k"},
	}}
}

// listing builds a router that asks for lists however long they take.
func listing(t *testing.T, c Config) *Router {
	r := newRouter(t, c)
	r.lists.deadline = timeout
	return r
}

func defaults(p *Provider, f codec.Format) Credential { return p.DefaultCredential(f) }

func TestTheListOfModelsIsTheUnionOfTheProvidersLists(t *testing.T) {
	l := newLister(t)
	c := l.config()
	c.Aliases = []Alias{{Model: "fast", To: "gemini-3.8-flash"}}
	want := []ListedModel{
		{ID: "fast", Provider: "gemini"},
		{ID: "claude-opus-5", Provider: "anthropic", DisplayName: "Claude Opus 5", Created: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), MaxInput: 200000, MaxOutput: 128000},
		{ID: "gemini-3.8-flash", Provider: "gemini", DisplayName: "Flash", MaxInput: 1000, MaxOutput: 100},
		{ID: "gemini-embedding-2", Provider: "gemini"},
		{ID: "gpt-5.5", Provider: "openai", OwnedBy: "openai", Created: time.Unix(1795000000, 0).UTC()},
	}
	if diff := cmp.Diff(want, listing(t, c).Models(t.Context(), defaults)); diff != "" {
		t.Error(diff)
	}
}

func TestANameThatSeveralProvidersListIsListedOnceWithTheOneItLeadsTo(t *testing.T) {
	l := newLister(t)
	c := l.config()
	for _, name := range []string{"a-second", "z-second"} {
		c.Providers[name] = ProviderConfig{BaseURL: l.URL + "/v1", APIKey: "k"}
	}
	c.Aliases = []Alias{{Model: "gemini-3.8-flash", To: "gpt-5.5"}}
	got := map[string]string{}
	for _, m := range listing(t, c).Models(t.Context(), defaults) {
		if got[m.ID] != "" {
			t.Errorf("%s is listed twice", m.ID)
		}
		got[m.ID] = m.Provider
	}
	if got["gpt-5.5"] != "openai" || got["gemini-3.8-flash"] != "openai" {
		t.Errorf("%v", got)
	}
}

func TestProvidersThatFailOrHaveNoCredentialAreLeftOut(t *testing.T) {
	l := newLister(t)
	c := l.config()
	c.Providers["anthropic"] = ProviderConfig{BaseURL: l.URL + "/nowhere", APIKey: "k"}
	c.Providers["gemini"] = ProviderConfig{BaseURL: l.URL + "/v1beta"}
	got := listing(t, c).Models(t.Context(), defaults)
	if len(got) != 1 || got[0].ID != "gpt-5.5" {
		t.Errorf("%+v", got)
	}
	if n := l.gemini.Load(); n != 0 {
		t.Errorf("gemini was asked %d times without a credential", n)
	}
}

func TestAListThatCannotBeReadIsLeftOut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer s.Close()
	if got := listing(t, compatible(s.URL)).Models(t.Context(), defaults); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestListsAreAskedForOnceHoweverManyWait(t *testing.T) {
	l := newLister(t)
	l.hold = make(chan struct{})
	r := listing(t, l.config())
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if got := r.Models(t.Context(), defaults); len(got) != 4 {
				t.Errorf("%+v", got)
			}
		})
	}
	close(l.hold)
	wait.Wait()
	r.Models(t.Context(), defaults)
	if a, o, g := l.anthropic.Load(), l.openai.Load(), l.gemini.Load(); a != 1 || o != 1 || g != 1 {
		t.Errorf("asked %d, %d and %d times", a, o, g)
	}
}

func TestListsAreKeptApartByCredential(t *testing.T) {
	l := newLister(t)
	r := listing(t, l.config())
	for _, key := range []string{"account-1", "account-2", "account-1"} {
		r.Models(t.Context(), func(p *Provider, f codec.Format) Credential { return p.Credential(f, key) })
	}
	if n := l.openai.Load(); n != 2 {
		t.Errorf("asked %d times for two credentials", n)
	}
}

func TestOneWhoLeavesDoesNotSpoilTheListForOthers(t *testing.T) {
	l := newLister(t)
	l.hold = make(chan struct{})
	r := listing(t, l.config())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := r.Models(ctx, defaults); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	close(l.hold)
	if got := r.Models(t.Context(), defaults); len(got) != 4 {
		t.Errorf("%+v", got)
	}
	if n := l.openai.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestClosingTheRouterEndsListsUnderWay(t *testing.T) {
	l := newLister(t)
	l.hold = make(chan struct{})
	defer close(l.hold)
	r, err := New(l.config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Models(ctx, defaults)
	r.Close() // waits for them; goleak would find them
}

func TestTheCacheOfListsIsBounded(t *testing.T) {
	lists := newModelLists()
	for i := range 3 * maxCachedList {
		key := listKey{provider: "p"}
		key.credential[0], key.credential[1] = byte(i), byte(i>>8)
		lists.find(key, func(m *modelList) { m.until = time.Now().Add(time.Hour); close(m.done) })
		if len(lists.entries) > maxCachedList {
			t.Fatalf("%d lists are kept", len(lists.entries))
		}
	}
}
