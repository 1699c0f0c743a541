package router

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/codec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newRouter builds a router that is closed with the test.
func newRouter(t testing.TB, c Config) *Router {
	t.Helper()
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// place finds the provider of a model that has one.
func place(t testing.TB, r *Router, model string) Placement {
	t.Helper()
	p, err := r.Place(model)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// compatible is the configuration of one provider "host" at base that speaks Chat and owns the models "m…".
func compatible(base string) Config {
	return Config{
		Providers: map[string]ProviderConfig{"host": {BaseURL: base, APIKey: "key-1", Formats: []codec.Format{codec.Chat, codec.Embeddings}}},
		Routes:    []RouteRule{{Prefix: "m", Provider: "host"}},
	}
}
