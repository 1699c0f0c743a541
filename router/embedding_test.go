package router

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func embedder(t *testing.T, r *Router, model string) Embedder {
	t.Helper()
	e, err := r.Embedder(place(t, r, model))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestOnlyLegalSizesOfVectorsAreAskedFor(t *testing.T) {
	r := newRouter(t, Config{
		Providers: map[string]ProviderConfig{"voyage": {}, "mistral": {}, "qwen": {}, "local": {BaseURL: "http://127.0.0.1:1/v1"}},
		Routes:    []RouteRule{{Prefix: "Qwen/", Provider: "local"}, {Prefix: "my-", Provider: "local"}},
	})
	for _, x := range []struct {
		model string
		asked int64
		want  string // in the error; "" when legal
	}{
		{"text-embedding-3-small", 1, ""},
		{"text-embedding-3-small", 1536, ""},
		{"text-embedding-3-small", 1537, "all sizes from 1 to 1536; the default is 1536"},
		{"text-embedding-3-large", 3072, ""},
		{"text-embedding-ada-002", 1536, "leave dimensions out"},
		{"gemini-embedding-001", 768, ""},
		{"gemini-embedding-001", 127, "all sizes from 128 to 3072"},
		{"text-embedding-004", 769, "all sizes from 1 to 768"},
		{"voyage-4-lite", 512, ""},
		{"voyage-4-lite", 768, "256, 512, 1024, 2048; the default is 1024"},
		{"voyage-law-2", 1024, "leave dimensions out"},
		{"mistral-embed", 512, "leave dimensions out"},
		{"codestral-embed-2505", 3072, ""},
		{"text-embedding-v4", 64, ""},
		{"text-embedding-v4", 65, "64, 128, 256, 512, 768, 1024, 1536, 2048"},
		{"Qwen/Qwen3-Embedding-4B", 2560, ""},
		{"Qwen/Qwen3-Embedding-4B", 2561, "all sizes from 32 to 2560"},
		{"my-embedder", 7, ""}, // unknown: the host says
		{"my-embedder", 0, "1 or more"},
		{"text-embedding-3-small", -1, "1 or more"},
	} {
		e := embedder(t, r, x.model)
		err := e.CheckDimensions(x.asked)
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s %d: %v", x.model, x.asked, err)
		case x.want != "" && (err == nil || err.Kind != codec.KindInvalidRequest || err.Param != "dimensions" || !strings.Contains(err.Message, x.want)):
			t.Errorf("%s %d: got %v, wanted %s", x.model, x.asked, err, x.want)
		}
	}
}

func TestAFamilyWithoutEmbeddingsNamesThoseThatHaveThem(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"voyage": {}}})
	for _, model := range []string{"claude-opus-5", "deepseek-v4-pro"} {
		_, err := r.Embedder(place(t, r, model))
		if err == nil || err.Kind != codec.KindInvalidRequest || err.Param != "model" || !strings.Contains(err.Message, "gemini, openai, voyage") {
			t.Errorf("%s: %v", model, err)
		}
	}
}

func TestListsOfInputsAreSplitByTheHostsLimitOrTheModelsOwn(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"voyage": {}, "mistral": {}, "qwen": {}}})
	for model, want := range map[string]int{
		"text-embedding-3-small": 2048, "gemini-embedding-2": 100, "voyage-4": 1000, "mistral-embed": 32, "text-embedding-v4": 10, "text-embedding-v2": 25,
	} {
		if got := embedder(t, r, model).MaxInputs; got != want {
			t.Errorf("%s: %d, wanted %d", model, got, want)
		}
	}
	if e := embedder(t, r, "gemini-embedding-2"); e.Format != codec.Gemini || e.Dialect.DimensionsMember != "outputDimensionality" || e.Model.Normalized {
		t.Errorf("%+v", e)
	}
}

func TestTheDefaultSizeIsALegalOne(t *testing.T) {
	c, err := loadCatalogue("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.rows {
		m := c.model(strings.ReplaceAll(*c.rows[i].Match, "*", "x")).Embedding
		if c.rows[i].Embedding != nil && (m.Default == 0 || !m.fixed() && !m.takes(int64(m.Default))) {
			t.Errorf("%s: %+v", *c.rows[i].Match, m)
		}
	}
}
