package grid

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
)

// A harness is a running proxy with one strict simulated provider in place of all its providers.
type harness struct {
	url, key string
	provider *provider.Server
}

// upstream is one column of the grid: a provider's format, and a model that is reached in it.
type upstream struct {
	name  string
	model string
	speak codec.Format
}

var upstreams = []upstream{
	{"chat", "gpt-4.1", codec.Chat},
	{"responses", "gpt-5.5", codec.Responses},
	{"messages", "claude-opus-4-8", codec.Messages},
	{"gemini", "gemini-3.8-flash", codec.Gemini},
	{"deepseek", "deepseek-v4-pro", codec.Chat},
}

func upstreamOf(name string) upstream {
	for _, u := range upstreams {
		if u.name == name {
			return u
		}
	}
	panic("no upstream " + name)
}

// build starts the harness. OpenAI's older models are reached in Chat, its newer ones in Responses, as operators
// configure with providers.<name>.formats.
func build(t testing.TB) *harness {
	return buildOn(t, func(testing.TB, *provider.Server) map[string]router.ProviderConfig { return nil })
}

// buildOn starts the harness with additional providers.
func buildOn(t testing.TB, more func(testing.TB, *provider.Server) map[string]router.ProviderConfig) *harness {
	t.Helper()
	sim, err := provider.Start(provider.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	st, err := engine.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Accounts().Create("default"); err != nil {
		t.Fatal(err)
	}
	key, _, err := st.Keys().Create("default", store.AllScopes, "grid")
	if err != nil {
		t.Fatal(err)
	}
	simulated := func(name, dialect string, formats ...codec.Format) router.ProviderConfig {
		c := router.ProviderConfig{Dialect: dialect, Formats: formats}.WithSimulated(name, sim.URL())
		c.Simulated = false
		return c
	}
	providers := map[string]router.ProviderConfig{
		"openai":    simulated("openai", "", codec.Responses),
		"openai-4":  simulated("openai-4", "openai", codec.Chat),
		"anthropic": simulated("anthropic", ""),
		"gemini":    simulated("gemini", ""),
		"deepseek":  simulated("deepseek", "", codec.Chat),
	}
	maps.Copy(providers, more(t, sim))
	routes, err := router.New(router.Config{
		Breakpoints: true,
		Providers:   providers,
		Routes:      []router.RouteRule{{Prefix: "gpt-4", Provider: "openai-4"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(routes.Close)
	proxy, err := server.New(server.Options{Listen: []string{"127.0.0.1:0"}, Engine: server.Over(st), Router: routes})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- proxy.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return &harness{url: "http://" + proxy.Addr().String(), key: key, provider: sim}
}

// upstreamBody returns the newest request that reached the provider.
func (h *harness) upstreamBody() string {
	all := h.provider.Requests()
	if len(all) == 0 {
		return ""
	}
	last := all[len(all)-1]
	return last.Path + "\n" + strings.TrimSpace(string(last.Body))
}
