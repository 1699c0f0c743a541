package embedding_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/store/search"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a provider of vectors with the router that leads to it.
type host struct {
	t    *testing.T
	up   *provider.Server
	own  map[string]string // credentials of accounts
	base router.Config
}

func newHost(t *testing.T) *host {
	t.Helper()
	up, err := provider.Start(provider.Options{Keep: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := up.Close(); err != nil {
			t.Error(err)
		}
	})
	return &host{t: t, up: up, own: map[string]string{}, base: router.Config{
		Providers: map[string]router.ProviderConfig{
			"openai": {BaseURL: up.URL() + "/v1", APIKey: "servers"},
			"local":  {BaseURL: up.URL() + "/v1", APIKey: "none-needed", Formats: []codec.Format{codec.Embeddings}},
		},
		Routes:  []router.RouteRule{{Prefix: "my-", Provider: "local"}},
		Aliases: []router.Alias{{Model: "embedder", To: "text-embedding-3-small"}},
	}}
}

func (h *host) router(c router.Config) *router.Router {
	h.t.Helper()
	r, err := router.New(c)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(r.Close)
	return r
}

func (h *host) embedder(s embedding.Settings) *embedding.Embedder {
	h.t.Helper()
	e, err := embedding.New(with(s), h.router(h.base), func(account, _ string) (string, bool, error) {
		secret, found := h.own[account]
		return secret, found, nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// with fills in what a test does not care for.
func with(s embedding.Settings) embedding.Settings {
	if s.Model == "" {
		s.Model = "text-embedding-3-small"
	}
	for _, number := range []*int{&s.TextBytes, &s.BatchTexts, &s.Calls} {
		if *number == 0 {
			*number = 1000
		}
	}
	return s
}

// sent is what the provider was asked, oldest first.
type sent struct {
	key        string
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Dimensions int      `json:"dimensions"`
}

func (h *host) sent() (all []sent) {
	h.t.Helper()
	for _, r := range h.up.Requests() {
		one := sent{key: r.Header.Get("Authorization")}
		if err := json.Unmarshal(r.Body, &one); err != nil {
			h.t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

func embed(t *testing.T, e *embedding.Embedder, use search.Use, texts ...string) [][]float32 {
	t.Helper()
	vectors, err := e.Embed(t.Context(), "acme", use, texts)
	if err != nil {
		t.Fatal(err)
	}
	return vectors
}

func TestVectorsComeInTheOrderOfTheirTextsHoweverTheyAreCutIntoCalls(t *testing.T) {
	h := newHost(t)
	texts := make([]string, 23)
	for i := range texts {
		texts[i] = fmt.Sprintf("text number %d", i)
	}
	alone := h.embedder(embedding.Settings{Dimensions: 64})
	together := h.embedder(embedding.Settings{Dimensions: 64, BatchTexts: 5, Calls: 3})
	vectors := embed(t, together, search.ForDocument, texts...)
	for i, text := range texts {
		if want := embed(t, alone, search.ForDocument, text)[0]; fmt.Sprint(vectors[i]) != fmt.Sprint(want) {
			t.Errorf("%q has the vector of another text", text)
		}
	}
	for _, s := range h.sent() {
		if len(s.Input) > 5 || s.Dimensions != 64 {
			t.Errorf("asked for %d texts at once with %d dimensions, want 5 and 64", len(s.Input), s.Dimensions)
		}
	}
	if u := together.Usage(); u.Calls != 5 || u.Failures != 0 || u.Tokens == 0 {
		t.Errorf("usage is %+v, want 5 calls", u)
	}
}

func TestTextsAreCutAtACharacterAndGetThePrefixOfTheirUse(t *testing.T) {
	h := newHost(t)
	e := h.embedder(embedding.Settings{TextBytes: 8, DocumentPrefix: "document: ", QueryPrefix: "query: "})
	embed(t, e, search.ForDocument, "naïveté and more", "\"quoted\"\n")
	embed(t, e, search.ForQuery, "检索系统")
	got := h.sent()
	if want := []string{"document: naïvet", `document: "quoted"`}; strings.Join(got[0].Input, "|") != strings.Join(want, "|") {
		t.Errorf("documents were sent as %q, want %q", got[0].Input, want)
	}
	if want := "query: 检索"; got[1].Input[0] != want {
		t.Errorf("the query was sent as %q, want %q", got[1].Input[0], want)
	}
}

func TestTheAccountsOwnCredentialIsUsedBeforeTheServers(t *testing.T) {
	h := newHost(t)
	h.own["acme"] = "accounts-own"
	e := h.embedder(embedding.Settings{})
	for _, account := range []string{"acme", "globex"} {
		if _, err := e.Embed(t.Context(), account, search.ForDocument, []string{"x"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.sent(); got[0].key != "Bearer accounts-own" || got[1].key != "Bearer servers" {
		t.Errorf("opened with %q and %q", got[0].key, got[1].key)
	}
}

// A model of which nothing is known is not asked for a size, since many hosts refuse to be; what comes has to be the
// size that was configured.
func TestAnUnknownModelIsHeldToTheSizeThatIsConfigured(t *testing.T) {
	h := newHost(t)
	if v := embed(t, h.embedder(embedding.Settings{Model: "my-model", Dimensions: 1024}), search.ForDocument, "x"); len(v[0]) != 1024 {
		t.Errorf("got %d dimensions", len(v[0]))
	}
	if got := h.sent()[0]; got.Dimensions != 0 {
		t.Errorf("the host was asked for %d dimensions", got.Dimensions)
	}
	_, err := h.embedder(embedding.Settings{Model: "my-model", Dimensions: 768}).Embed(t.Context(), "acme", search.ForDocument, []string{"x"})
	expect(t, err, codec.KindUpstream, "1024 dimensions, and search.embedder.dimensions says 768")
}

func TestSettingsThatCannotEmbedAreRefused(t *testing.T) {
	h := newHost(t)
	r := h.router(h.base)
	for says, s := range map[string]embedding.Settings{
		"No provider is known":                 {Model: "unheard-of"},
		"no embeddings":                        {Model: "claude-opus-4-8"},
		"no vectors of 4000 dimensions":        {Dimensions: 4000},
		"say it in search.embedder.dimensions": {Model: "my-model"},
	} {
		expect(t, settings(s).Check(r), 0, says)
	}
}

func settings(s embedding.Settings) *embedding.Settings {
	s = with(s)
	return &s
}

func TestTheIdentityIsWhateverChangesVectors(t *testing.T) {
	h := newHost(t)
	simulated := h.base
	simulated.Providers = map[string]router.ProviderConfig{"openai": router.ProviderConfig{}.WithSimulated("openai", h.up.URL())}
	simulated.Routes = nil
	for want, of := range map[string]struct {
		settings embedding.Settings
		base     router.Config
	}{
		"openai/text-embedding-3-small/1536":           {embedding.Settings{}, h.base},
		"openai/text-embedding-3-small/256":            {embedding.Settings{Model: "embedder", Dimensions: 256}, h.base}, // by its alias
		"local/my-org/model/7?query_prefix=q%3A+":      {embedding.Settings{Model: "my-org/model", Dimensions: 7, QueryPrefix: "q: "}, h.base},
		"simulated/openai/text-embedding-3-small/1536": {embedding.Settings{}, simulated},
	} {
		e, err := embedding.New(with(of.settings), h.router(of.base), nil)
		if err != nil {
			t.Fatal(err)
		}
		if e.Identity() != want {
			t.Errorf("identity %q, want %q", e.Identity(), want)
		}
		if former := embedding.Former(want, with(embedding.Settings{Dimensions: 1000}), h.router(of.base), nil); former == nil || former.Identity() != want || former.Dimensions() != e.Dimensions() {
			t.Errorf("%s cannot be had again: %v", want, former)
		}
	}
	if former := embedding.Former("local-hash-v1/512", with(embedding.Settings{}), h.router(h.base), nil); former == nil || former.Identity() != "local-hash-v1/512" {
		t.Errorf("the built-in one cannot be had again: %v", former)
	}
	for _, gone := range []string{"", "local-hash-v1/7", "mistral/mistral-embed/1024", "openai/text-embedding-3-small/x", "openai/text-embedding-3-small/9999"} {
		if former := embedding.Former(gone, with(embedding.Settings{}), h.router(h.base), nil); former != nil {
			t.Errorf("%q is had as %s", gone, former.Identity())
		}
	}
}

func TestVectorsOfTwoModelsNeverMeetAfterAReload(t *testing.T) {
	h := newHost(t)
	e := h.embedder(embedding.Settings{Model: "embedder"})
	moved := h.base
	moved.Aliases = []router.Alias{{Model: "embedder", To: "text-embedding-3-large"}}
	expect(t, e.Reroute(h.router(moved)), codec.KindConflict, "mneme reindex")
	_, err := e.Embed(t.Context(), "acme", search.ForQuery, []string{"x"})
	expect(t, err, codec.KindConflict, "mneme reindex")
	if len(h.sent()) > 0 {
		t.Error("a vector of another model was asked for")
	}
	if err := e.Reroute(h.router(h.base)); err != nil {
		t.Errorf("the way back is refused: %v", err)
	}
	embed(t, e, search.ForQuery, "x")
}

func TestATextThatIsRefusedIsToldFromAHostThatTakesNone(t *testing.T) {
	h := newHost(t)
	e := h.embedder(embedding.Settings{})
	_, err := e.Embed(t.Context(), "acme", search.ForDocument, []string{`[[sim: error context]]`})
	expect(t, err, codec.KindTooLarge, "does not take such a text")

	always := h.base
	always.Aliases = []router.Alias{{Model: "embedder", To: "text-embedding-3-small [[sim: error invalid]]"}}
	broken, err := embedding.New(with(embedding.Settings{Model: "embedder", Dimensions: 1536}), h.router(always), func(string, string) (string, bool, error) { return "", false, nil })
	if err != nil {
		t.Fatal(err)
	}
	_, err = broken.Embed(t.Context(), "acme", search.ForDocument, []string{"an honest text"})
	expect(t, err, codec.KindUpstream, "takes no text")
}

func TestAProviderThatFailsIsAnErrorToTryAgainWithoutItsSecrets(t *testing.T) {
	h := newHost(t)
	e := h.embedder(embedding.Settings{})
	for script, want := range map[string]codec.Kind{
		"error overloaded": codec.KindOverloaded, "error rate-limit": codec.KindRateLimited, "garbage": codec.KindUpstream,
		"error authentication": codec.KindUpstreamAuth, "reset": codec.KindUpstream,
	} {
		_, err := e.Embed(t.Context(), "acme", search.ForDocument, []string{"[[sim: " + script + "]]"})
		expect(t, err, want, "")
		if err != nil && strings.Contains(err.Error(), "servers") {
			t.Errorf("%s: the error names the credential: %v", script, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, "acme", search.ForDocument, []string{"x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, it says %v", err)
	}
}

func TestVectorsHaveLengthOne(t *testing.T) {
	h := newHost(t)
	for _, v := range embed(t, h.embedder(embedding.Settings{Dimensions: 100}), search.ForDocument, "one", "two words") {
		sum := 0.0
		for _, n := range v {
			sum += float64(n) * float64(n)
		}
		if math.Abs(sum-1) > 1e-3 {
			t.Errorf("length %v", math.Sqrt(sum))
		}
	}
}

// expect wants an error of a kind, whatever kind for 0, that says so.
func expect(t *testing.T, err error, kind codec.Kind, says string) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) || kind != 0 && e.Kind != kind || !strings.Contains(e.Message, says) {
		t.Errorf("got %v, want %v that says %q", err, kind, says)
	}
}
