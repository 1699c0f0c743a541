package router

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestURLsFollowTheSDKs(t *testing.T) {
	r := newRouter(t, Config{Providers: map[string]ProviderConfig{
		"local": {BaseURL: "http://127.0.0.1:8000/v1/", Formats: []codec.Format{codec.Chat, codec.Messages}},
		"bare":  {BaseURL: "http://127.0.0.1:8000"},
		"deep":  {BaseURL: "https://ds.example/v1", Dialect: "deepseek"},
	}})
	for _, x := range []struct {
		provider string
		call     Call
		want     string
	}{
		{"openai", Call{Format: codec.Chat}, "https://api.openai.com/v1/chat/completions"},
		{"openai", Call{Format: codec.Chat, Query: "beta=true"}, "https://api.openai.com/v1/chat/completions"},
		{"openai", Call{Format: codec.Responses, Stream: true}, "https://api.openai.com/v1/responses"},
		{"openai", Call{Format: codec.Embeddings, Operation: Embed}, "https://api.openai.com/v1/embeddings"},
		{"openai", Call{Format: codec.Chat, Operation: ListModels}, "https://api.openai.com/v1/models"},
		{"anthropic", Call{Format: codec.Messages}, "https://api.anthropic.com/v1/messages"},
		{"anthropic", Call{Format: codec.Messages, Query: "x=1&beta=true&key=secret"}, "https://api.anthropic.com/v1/messages?beta=true"},
		{"anthropic", Call{Format: codec.Messages, Query: "beta=false"}, "https://api.anthropic.com/v1/messages"},
		{"anthropic", Call{Format: codec.Messages, Operation: CountTokens}, "https://api.anthropic.com/v1/messages/count_tokens"},
		{"anthropic", Call{Format: codec.Messages, Operation: CountTokens, Query: "beta=true"}, "https://api.anthropic.com/v1/messages/count_tokens?beta=true"},
		{"anthropic", Call{Format: codec.Messages, Operation: ListModels}, "https://api.anthropic.com/v1/models?limit=1000"},
		{"gemini", Call{Format: codec.Gemini, Model: "gemini-3.8-flash"}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:generateContent"},
		{"gemini", Call{Format: codec.Gemini, Model: "gemini-3.8-flash", Stream: true}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"},
		{"gemini", Call{Format: codec.Gemini, Model: "gemini-x", Operation: CountTokens}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:countTokens"},
		{"gemini", Call{Format: codec.Gemini, Model: "gemini-embedding-001", Operation: Embed}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-embedding-001:batchEmbedContents"},
		{"gemini", Call{Format: codec.Gemini, Operation: ListModels}, "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000"},
		{"gemini", Call{Format: codec.Gemini, Model: "gemini-../../x?y#z"}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-..%2F..%2Fx%3Fy%23z:generateContent"},
		{"deepseek", Call{Format: codec.Chat}, "https://api.deepseek.com/chat/completions"},
		{"deepseek", Call{Format: codec.Messages}, "https://api.deepseek.com/anthropic/v1/messages"},
		{"deepseek", Call{Format: codec.Chat, Operation: ListModels}, "https://api.deepseek.com/models"},
		{"deep", Call{Format: codec.Chat}, "https://ds.example/v1/chat/completions"},
		{"deep", Call{Format: codec.Messages}, "https://ds.example/anthropic/v1/messages"},
		{"local", Call{Format: codec.Chat}, "http://127.0.0.1:8000/v1/chat/completions"},
		{"local", Call{Format: codec.Messages}, "http://127.0.0.1:8000/v1/messages"},
		{"bare", Call{Format: codec.Chat}, "http://127.0.0.1:8000/chat/completions"},
	} {
		got := r.Provider(x.provider).endpoints[0].urls.of(&x.call)
		if got == nil || got.String() != x.want {
			t.Errorf("%s %v %v: got %v, wanted %s", x.provider, x.call.Format, x.call.Operation, got, x.want)
		}
	}
}

func TestAnOperationThatAFormatLacksIsAnErrorAndNoCall(t *testing.T) {
	p := newRouter(t, Config{}).Provider("openai")
	for _, c := range []Call{
		{Format: codec.Chat, Operation: CountTokens},
		{Format: codec.Chat, Operation: Embed},
		{Format: codec.Embeddings, Operation: Generate},
		{Format: codec.FormatUnknown},
		{Format: codec.Gemini, Operation: Operation(9)},
	} {
		if _, err := p.Do(t.Context(), &c); err == nil || err.Kind != codec.KindInternal {
			t.Errorf("%v %v: %v", c.Format, c.Operation, err)
		}
	}
}

func TestTheSimulatedProviderStandsWhereTheSDKsLook(t *testing.T) {
	for name, want := range map[string]string{
		"anthropic": "http://127.0.0.1:9/v1/messages",
		"openai":    "http://127.0.0.1:9/v1/chat/completions",
		"gemini":    "http://127.0.0.1:9/v1beta/models/m:generateContent",
		"deepseek":  "http://127.0.0.1:9/chat/completions",
	} {
		r := newRouter(t, Config{Providers: map[string]ProviderConfig{name: ProviderConfig{}.WithSimulated(name, "http://127.0.0.1:9")}})
		p := r.Provider(name)
		if got := p.endpoints[0].urls.of(&Call{Format: p.Formats()[0], Model: "m"}); got.String() != want {
			t.Errorf("%s: got %v, wanted %s", name, got, want)
		}
		if !p.Simulated() || !p.HasKey() {
			t.Errorf("%s is not marked as simulated", name)
		}
	}
}
