package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
)

// plan is what becomes of a request for vectors.
func plan(t *testing.T, r *Router, model, request string) (*embeddings.Plan, error) {
	t.Helper()
	e, refused := r.Embedder(place(t, r, model))
	if refused != nil {
		t.Fatal(refused)
	}
	q, err := embeddings.Decode([]byte(request))
	if err != nil {
		t.Fatal(err)
	}
	return embeddings.NewPlan(q, e.Model, e.Dialect)
}

func TestOnlyLegalSizesOfVectorsAreAskedFor(t *testing.T) {
	r := newRouter(t, Config{
		Providers: map[string]ProviderConfig{"voyage": {}, "mistral": {}, "qwen": {}, "local": {BaseURL: "http://127.0.0.1:1/v1"}},
		Routes:    []RouteRule{{Prefix: "Qwen/", Provider: "local"}, {Prefix: "my-", Provider: "local"}},
	})
	for _, x := range []struct {
		model string
		asked int
		want  string // in the error; "" when legal
	}{
		{"text-embedding-3-small", 1, ""},
		{"text-embedding-3-small", 1536, ""},
		{"text-embedding-3-small", 1537, "1 to 1536"},
		{"text-embedding-3-large", 3072, ""},
		{"text-embedding-ada-002", 512, "1536 only"},
		{"gemini-embedding-001", 768, ""},
		{"gemini-embedding-001", 127, "128 to 3072"},
		{"text-embedding-004", 769, "1 to 768"},
		{"voyage-4-lite", 512, ""},
		{"voyage-4-lite", 768, "256, 512, 1024, 2048"},
		{"voyage-law-2", 512, "1024 only"},
		{"mistral-embed", 512, "1024 only"},
		{"codestral-embed-2505", 3072, ""},
		{"text-embedding-v4", 64, ""},
		{"text-embedding-v4", 65, "64, 128, 256, 512, 768, 1024, 1536, 2048"},
		{"text-embedding-v3", 64, "512, 768, 1024"},
		{"Qwen/Qwen3-Embedding-4B", 2560, ""},
		{"Qwen/Qwen3-Embedding-4B", 2561, "32 to 2560"},
		{"my-embedder", 7, ""}, // unknown: the host says
	} {
		_, err := plan(t, r, x.model, fmt.Sprintf(`{"model":%q,"input":"a","dimensions":%d}`, x.model, x.asked))
		if (x.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s %d: got %v, wanted %q", x.model, x.asked, err, x.want)
		}
	}
}

func TestEveryKnownSizeIsOne(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	c := facts.models
	for i := range c.rows {
		name := strings.ReplaceAll(*c.rows[i].Match, "*", "x")
		m := c.model(name).Embedding
		if m.Max > 0 && (m.Default < m.Min || m.Default > m.Max) || len(m.Sizes) > 0 && !strings.Contains(fmt.Sprint(m.Sizes), fmt.Sprint(m.Default)) {
			t.Errorf("%s: the default %d is not legal", name, m.Default)
		}
		if c.rows[i].Embedding != nil && m.Default == 0 {
			t.Errorf("%s has no default", name)
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

func TestListsOfInputsAreSplitUnderTheLimitsOfHostAndModel(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"voyage": {}, "mistral": {}, "qwen": {}}})
	request := `{"model":"m","input":["a"` + strings.Repeat(`,"a"`, 1999) + `]}`
	for model, want := range map[string]int{
		"text-embedding-3-small": 1, "gemini-embedding-2": 20, "voyage-4": 2, "mistral-embed": 63, "text-embedding-v4": 200, "text-embedding-v2": 80,
	} {
		p, err := plan(t, r, model, request)
		if err != nil || len(p.Batches) != want {
			t.Errorf("%s: %d batches, wanted %d (%v)", model, len(p.Batches), want, err)
		}
	}
}

func TestTokensGoOnlyToModelsThatReadThem(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"voyage": {}}})
	for model, ok := range map[string]bool{"text-embedding-3-small": true, "text-embedding-ada-002": true, "gemini-embedding-2": false, "voyage-4": false} {
		if _, err := plan(t, r, model, `{"model":"m","input":[1212,318]}`); (err == nil) != ok {
			t.Errorf("%s: %v", model, err)
		}
	}
}
