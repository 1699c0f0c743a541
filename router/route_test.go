package router

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestModelsGoToTheProviderThatOwnsTheirPrefix(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{"mistral": {}, "qwen": {}, "voyage": {}}})
	for model, want := range map[string]string{
		"claude-sonnet-5-5":       "anthropic",
		"claude":                  "anthropic",
		"gpt-5.5":                 "openai",
		"gpt-4o-2024-08-06":       "openai",
		"o1":                      "openai",
		"o4-mini":                 "openai",
		"o9-of-the-future":        "openai",
		"omni-moderation-latest":  "openai",
		"chatgpt-4o-latest":       "openai",
		"codex-mini-latest":       "openai",
		"computer-use-preview":    "openai",
		"text-embedding-3-small":  "openai",
		"text-embedding-ada-002":  "openai",
		"gemini-3.8-flash":        "gemini",
		"gemini-embedding-2":      "gemini",
		"text-embedding-004":      "gemini",
		"deepseek-v4-pro":         "deepseek",
		"mistral-embed":           "mistral",
		"open-mistral-nemo":       "mistral", // longer than openai's "o"
		"text-embedding-v4":       "qwen",
		"qwen3-max":               "qwen",
		"voyage-4-lite":           "voyage",
		"ft:gpt-5.5:acme::abc123": "",
		"grok-4.7":                "", // known, but not configured
		"text-embedding-new":      "",
		"Claude-3":                "",
		"llama3":                  "",
		"ollama/llama3":           "", // never OpenAI's: the prompt may be meant for a host nearby
		"openrouter/auto":         "",
		"olmo/olmo2":              "",
		"gpt/4":                   "",
		"o/1":                     "",
		"deepseek-ai/deepseek-v3": "",
		"claude-code/sonnet":      "",
		"/gpt-5":                  "",
		"openai/":                 "",
		"xai/grok-4":              "",
		"mistral/mistral-large":   "",
	} {
		p, err := r.Place(model)
		switch {
		case want == "" && err == nil:
			t.Errorf("%s went to %s, wanted an error", model, p.Provider.Name())
		case want != "" && err != nil:
			t.Errorf("%s: %v", model, err)
		case want != "" && p.Provider.Name() != want:
			t.Errorf("%s went to %s, wanted %s", model, p.Provider.Name(), want)
		}
	}
}

func TestANameWithAVendorGoesToItsFamilyWithoutIt(t *testing.T) {
	c := compatible("http://127.0.0.1:1/v1")
	c.Routes = []RouteRule{{Prefix: "ollama/", Provider: "host"}, {Prefix: "openai/local-", Provider: "host"}, {Prefix: "or", Provider: "host"}}
	c.Aliases = []Alias{{Model: "best", To: "google/gemini-3-pro"}}
	r := newRouter(t, c)
	for model, want := range map[string][2]string{
		"openai/gpt-5.5":            {"openai", "gpt-5.5"},
		"openai/whatever":           {"openai", "whatever"},
		"anthropic/claude-opus-4-8": {"anthropic", "claude-opus-4-8"},
		"google/gemini-3-pro":       {"gemini", "gemini-3-pro"},
		"gemini/gemini-3-pro":       {"gemini", "gemini-3-pro"},
		"deepseek/deepseek-chat":    {"deepseek", "deepseek-chat"},
		"openai/ft:gpt-5/org":       {"openai", "ft:gpt-5/org"},
		"ollama/llama3":             {"host", "ollama/llama3"}, // a route of one's own sends the name as it is
		"openai/local-20b":          {"host", "openai/local-20b"},
		"orca/mini":                 {"host", "orca/mini"},
		"best":                      {"gemini", "gemini-3-pro"},
		"olmo2":                     {"openai", "olmo2"}, // as the README's rule has it
	} {
		if p := place(t, r, model); p.Provider.Name() != want[0] || p.Model != want[1] || p.Asked != model {
			t.Errorf("%s went to %s as %q, wanted %q", model, p.Provider.Name(), p.Model, want)
		}
	}
	_, err := newRouter(t, Config{}).Place("ollama/llama3")
	if err == nil || err.Kind != codec.KindNotFound || !strings.Contains(err.Message, `routes: [{prefix: "ollama/", provider: NAME}]`) {
		t.Errorf("got %v", err)
	}
}

func TestAnUnknownModelIsToldWhatIsKnown(t *testing.T) {
	r := newRouter(t, compatible("http://127.0.0.1:1/v1"))
	_, err := r.Place("llama3")
	if err == nil || err.Kind != codec.KindNotFound || err.Code != "model_not_found" || err.Param != "model" {
		t.Fatalf("got %+v", err)
	}
	for _, part := range []string{`"llama3"`, "claude", "deepseek", "gemini", "gpt", "text-embedding-3", " m,", "routes"} {
		if !strings.Contains(err.Message, part) {
			t.Errorf("%q is missing in: %s", part, err.Message)
		}
	}
	if _, err = r.Place("Claude-Opus-4-8"); err == nil || !strings.Contains(err.Message, `did you mean "claude-opus-4-8"?`) {
		t.Errorf("no hint about upper case: %v", err)
	}
}

func TestNamesThatCannotBeModelsAreRefused(t *testing.T) {
	r := newRouter(t, Config{})
	for _, model := range []string{"", "claude\n", "claude\x00", "gpt-\xff", "gpt-" + strings.Repeat("5", 300)} {
		if _, err := r.Place(model); err == nil || err.Kind != codec.KindInvalidRequest || err.Param != "model" {
			t.Errorf("%.20q: %v", model, err)
		}
	}
}

func TestConfiguredRoutesWinOverBuiltInOnesAndLongerOverShorter(t *testing.T) {
	c := compatible("http://127.0.0.1:1/v1")
	c.Routes = []RouteRule{{Prefix: "g", Provider: "host"}, {Prefix: "gpt-5", Provider: "anthropic"}, {Prefix: "gpt-5.5", Provider: "openai"}}
	r := newRouter(t, c)
	for model, want := range map[string]string{
		"gpt-oss-20b":  "host", // the built-in "gpt" is longer than "g", but not configured
		"gemini-3-pro": "host",
		"gpt-5":        "anthropic",
		"gpt-5.5":      "openai",
		"o3":           "openai",
	} {
		if got := place(t, r, model).Provider.Name(); got != want {
			t.Errorf("%s went to %s, wanted %s", model, got, want)
		}
	}
}

func TestAnAliasChangesWhatIsSentAndKeepsWhatWasAsked(t *testing.T) {
	r := newRouter(t, Config{Aliases: []Alias{{Model: "gpt-4", To: "claude-opus-4-8"}, {Model: "claude-opus-4-8", To: "gpt-5.5"}}})
	p := place(t, r, "gpt-4")
	if p.Asked != "gpt-4" || p.Model != "claude-opus-4-8" || !p.Aliased || p.Provider.Name() != "anthropic" {
		t.Errorf("an alias is followed once: %+v", p)
	}
	if p = place(t, r, "gpt-4o"); p.Aliased || p.Model != "gpt-4o" {
		t.Errorf("an alias is for the whole name: %+v", p)
	}
}

func TestMistakesInTheConfigurationNameTheSetting(t *testing.T) {
	at := func(base string) map[string]ProviderConfig { return map[string]ProviderConfig{"x": {BaseURL: base}} }
	for want, c := range map[string]Config{
		"providers.x.base_url is missing":             {Providers: at("")},
		"providers.x.base_url is not a URL":           {Providers: at("http://[::1")},
		"providers.x.base_url has to start with http": {Providers: at("ftp://host/v1")},
		"providers.x.base_url names no host":          {Providers: at("https:///v1")},
		"providers.x.base_url holds a user name":      {Providers: at("https://me:secret@host/v1")},
		"providers.x.base_url ends in a query":        {Providers: at("https://host/v1?key=secret")},
		"providers.deepseek.base_url ends in /anthropic": {Providers: map[string]ProviderConfig{
			"deepseek": {BaseURL: "https://api.deepseek.com/anthropic"},
		}},
		`providers.x.dialect: there is no dialect "klingon" (known: anthropic, openai,`: {Providers: map[string]ProviderConfig{
			"x": {BaseURL: "http://h", Dialect: "klingon"},
		}},
		"providers.x.formats holds an unknown format": {Providers: map[string]ProviderConfig{
			"x": {BaseURL: "http://h", Formats: []codec.Format{codec.FormatUnknown}},
		}},
		"providers.x.api_key holds a line break": {Providers: map[string]ProviderConfig{
			"x": {BaseURL: "http://h", APIKey: "secret\n"},
		}},
		`providers: "a b" is not a name`:                    {Providers: map[string]ProviderConfig{"a b": {BaseURL: "http://h"}}},
		"routes[0].prefix is empty":                         {Routes: []RouteRule{{Provider: "openai"}}},
		`routes[0].provider: there is no provider "nobody"`: {Routes: []RouteRule{{Prefix: "p", Provider: "nobody"}}},
		`routes[1].prefix: "p" has a route already`:         {Routes: []RouteRule{{Prefix: "p", Provider: "openai"}, {Prefix: "p", Provider: "gemini"}}},
		`aliases[0].to: no route leads to model "llama3"`:   {Aliases: []Alias{{Model: "x", To: "llama3"}}},
		"aliases[0]: model and to both need a model name":   {Aliases: []Alias{{Model: "x"}}},
		`aliases[1].model: "x" has an alias already`:        {Aliases: []Alias{{Model: "x", To: "o1"}, {Model: "x", To: "o3"}}},
		"timeouts.idle is -1s":                              {Timeouts: Timeouts{Idle: -1e9}},
		"models_file: open /nowhere/models.yaml":            {ModelsFile: "/nowhere/models.yaml"},
	} {
		r, err := New(c)
		if err == nil {
			r.Close()
			t.Errorf("no error, wanted: %s", want)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwanted %s", err, want)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("a secret shows: %v", err)
		}
	}
}

func TestASecondEndpointOfAFamilyGetsModelsByRoutesOnly(t *testing.T) {
	r := newRouter(t, Config{
		Providers: map[string]ProviderConfig{"claude-eu": {BaseURL: "https://eu.example", Dialect: "anthropic"}},
		Routes:    []RouteRule{{Prefix: "claude-haiku", Provider: "claude-eu"}},
	})
	if got := place(t, r, "claude-opus-5").Provider.Name(); got != "anthropic" {
		t.Errorf("claude-opus-5 went to %s", got)
	}
	p := place(t, r, "claude-haiku-5-5")
	if p.Provider.Name() != "claude-eu" || p.Provider.Family() != codec.FamilyAnthropic || !p.Provider.Speaks(codec.Messages) {
		t.Errorf("claude-haiku-5-5 went to %s of family %v", p.Provider.Name(), p.Provider.Family())
	}
}

func TestABuiltInNameAtAHostOfOnesOwnKeepsItsModels(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{
		"openai": {BaseURL: "http://127.0.0.1:8000/v1", Dialect: "compatible"},
	}})
	p := place(t, r, "gpt-oss-20b").Provider
	if p.Name() != "openai" || p.Dialect().Name != "compatible" || p.Speaks(codec.Responses) {
		t.Errorf("got %s, dialect %s, formats %v", p.Name(), p.Dialect().Name, p.Formats())
	}
}

func TestTheFormatIsTheClientsOwnWhereTheProviderSpeaksIt(t *testing.T) {
	formats := func(f ...codec.Format) map[string]ProviderConfig {
		return map[string]ProviderConfig{"openai": {Formats: f}}
	}
	type row struct {
		surface codec.Format
		model   string
		want    codec.Format
	}
	check := func(c Config, rows []row) {
		t.Helper()
		r := newRouter(t, c)
		for _, x := range rows {
			if got := place(t, r, x.model).Provider.FormatFor(x.surface, x.model); got != x.want {
				t.Errorf("%v to %s is written as %v, wanted %v", x.surface, x.model, got, x.want)
			}
		}
	}
	check(Config{Providers: map[string]ProviderConfig{"mistral": {}, "voyage": {}}}, []row{
		{codec.Chat, "gpt-5.5", codec.Chat},
		{codec.Responses, "gpt-4o", codec.Responses},
		{codec.Messages, "gpt-5.5", codec.Responses}, // a reasoning model
		{codec.Messages, "o3", codec.Responses},
		{codec.Messages, "gpt-5-search-api", codec.Chat}, // has no other
		{codec.Responses, "gpt-4o-search-preview", codec.Chat},
		{codec.Messages, "gpt-4o", codec.Chat}, // an older one
		{codec.Chat, "gpt-5.1-codex-max", codec.Responses},
		{codec.Chat, "o1-pro", codec.Responses}, // has no Chat endpoint
		{codec.Messages, "claude-opus-5", codec.Messages},
		{codec.Chat, "claude-opus-5", codec.Messages},
		{codec.Responses, "claude-opus-5", codec.Messages},
		{codec.Chat, "gemini-3.8-flash", codec.Gemini},
		{codec.Responses, "gemini-3.8-flash", codec.Gemini},
		{codec.Messages, "gemini-3.8-flash", codec.Gemini},
		{codec.Chat, "deepseek-v4-pro", codec.Chat},
		{codec.Messages, "deepseek-v4-pro", codec.Messages},
		{codec.Responses, "deepseek-v4-pro", codec.Chat},
		{codec.Messages, "mistral-small-latest", codec.Chat},
		{codec.Chat, "voyage-4", codec.FormatUnknown},
		{codec.Embeddings, "voyage-4", codec.Embeddings},
		{codec.Embeddings, "text-embedding-3-small", codec.Embeddings},
		{codec.Embeddings, "gemini-embedding-001", codec.Gemini},
		{codec.Embeddings, "claude-opus-5", codec.FormatUnknown},
		{codec.Embeddings, "deepseek-v4-pro", codec.FormatUnknown},
	})
	check(Config{Providers: formats(codec.Responses, codec.Embeddings)}, []row{
		{codec.Chat, "gpt-4o", codec.Responses},
		{codec.Messages, "gpt-4o", codec.Responses},
	})
	check(Config{Providers: formats(codec.Chat)}, []row{
		{codec.Responses, "gpt-5.5", codec.Chat},
		{codec.Messages, "gpt-5.5", codec.Chat},
		{codec.Chat, "o1-pro", codec.Chat}, // the operator knows
		{codec.Embeddings, "text-embedding-3-small", codec.FormatUnknown},
	})
}

func TestAPresetBringsItsHostAndTheNamesThatLeadThere(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{
		"ollama": {}, "workstation": {Preset: "ollama", BaseURL: "http://10.0.0.7:11434/v1"}, "openrouter": {APIKey: "k"},
		"azure":  {BaseURL: "https://r.openai.azure.com", APIKey: "k"},
		"vertex": {Project: "p"}, "vertex-claude": {Project: "p", Region: "europe-west4"}, "bedrock": {Region: "us-east-1"},
	}})
	for asked, want := range map[string][3]string{
		"ollama/llama3":               {"ollama", "llama3", "127.0.0.1:11434"},
		"workstation/hf.co/a/b":       {"workstation", "hf.co/a/b", "10.0.0.7:11434"},
		"openrouter/openai/gpt-5":     {"openrouter", "openai/gpt-5", "openrouter.ai:443"},
		"azure/my-deployment":         {"azure", "my-deployment", "r.openai.azure.com:443"},
		"vertex/gemini-3-pro":         {"vertex", "gemini-3-pro", "aiplatform.googleapis.com:443"},
		"vertex-claude/claude-opus@1": {"vertex-claude", "claude-opus@1", "europe-west4-aiplatform.googleapis.com:443"},
		"bedrock/us.anthropic.c-v1:0": {"bedrock", "us.anthropic.c-v1:0", "bedrock-runtime.us-east-1.amazonaws.com:443"},
		"openai/gpt-5":                {"openai", "gpt-5", "api.openai.com:443"},
	} {
		p, err := r.Place(asked)
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		if got := [3]string{p.Provider.Name(), p.Model, p.Provider.Address()}; got != want {
			t.Errorf("%s went to %q, wanted %q", asked, got, want)
		}
	}
	if _, err := r.Place("ollama/"); err == nil {
		t.Error("a name without a model leads somewhere")
	}
}

func TestARouteMayChangeTheNameThatIsSent(t *testing.T) {
	r := newRouter(t, Config{
		Providers: map[string]ProviderConfig{"local": {BaseURL: "http://127.0.0.1:1/v1"}},
		Routes:    []RouteRule{{Prefix: "local/", Provider: "local", Strip: true}, {Prefix: "assistant", Provider: "local", To: "qwen3"}},
	})
	for asked, want := range map[string]string{"local/llama3": "llama3", "local/a/b": "a/b", "assistant": "qwen3", "assistant-2": "qwen3"} {
		if p, err := r.Place(asked); err != nil || p.Model != want || p.Asked != asked {
			t.Errorf("%s is sent as %q: %v", asked, p.Model, err)
		}
	}
}

func TestAnAliasMayStandForAllNamesThatBeginSo(t *testing.T) {
	r := newRouter(t, Config{
		Providers: map[string]ProviderConfig{"ollama": {}},
		Aliases: []Alias{
			{Model: "claude-*", To: "gpt-5-mini"},
			{Model: "claude-opus-*", To: "gpt-5.5"},
			{Model: "claude-opus-4-8", To: "gemini-3-pro"},
			{Model: "house/*", To: "ollama/*"},
		},
	})
	for asked, want := range map[string]string{
		"claude-haiku-4-5": "gpt-5-mini", "claude-opus-4-7": "gpt-5.5", "claude-opus-4-8": "gemini-3-pro", "house/llama3": "llama3",
	} {
		if p, err := r.Place(asked); err != nil || p.Model != want || !p.Aliased {
			t.Errorf("%s is sent as %q: %v", asked, p.Model, err)
		}
	}
	if _, err := New(Config{Aliases: []Alias{{Model: "fast", To: "gpt-*"}}}); err == nil {
		t.Error("a star without what stands for it is accepted")
	}
}
