package server_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/router"
)

func TestTheModelsPrefixDecidesItsProvider(t *testing.T) {
	h := build(t, func(p *plan) {
		p.router.Routes = []router.RouteRule{{Prefix: "gpt-4.1-mini", Provider: "deepseek"}, {Prefix: "gpt-4.1", Provider: "openai"}}
	})
	for _, test := range []struct {
		surface         surface
		model, provider string
		upstream        string
	}{
		{messages, "claude-opus-4-8", "anthropic", "/v1/messages"},
		{messages, "deepseek-v4-pro", "deepseek", "/anthropic/v1/messages"},
		{chat, "gpt-4.1", "openai", "/v1/chat/completions"},
		{chat, "gpt-4.1-mini", "deepseek", "/chat/completions"},
		{chat, "chatgpt-4o-latest", "openai", "/v1/chat/completions"},
		{responses, "o4-mini", "openai", "/v1/responses"},
		{responses, "gpt-4o-search-preview", "openai", "/v1/chat/completions"},
		{messages, "gpt-5-search-api", "openai", "/v1/chat/completions"},
		{chat, "gpt-4o-mini-search-preview", "openai", "/v1/chat/completions"},
		{responses, "codex-mini-latest", "openai", "/v1/responses"},
		{responses, "computer-use-preview", "openai", "/v1/responses"},
		{chat, "deepseek-v4-pro", "deepseek", "/chat/completions"},
		{embeddings, "text-embedding-3-large", "openai", "/v1/embeddings"},
		{embeddings, "text-embedding-ada-002", "openai", "/v1/embeddings"},
	} {
		a := h.post(test.surface.path, strings.Replace(test.surface.body(`text "hi"`, false), test.surface.model, test.model, 1))
		if a.status != 200 {
			t.Errorf("%s: %d %s", test.model, a.status, a.body)
			continue
		}
		if x := h.record(a.exchange()); x.Provider != test.provider {
			t.Errorf("%s goes to %s, not to %s", test.model, x.Provider, test.provider)
		}
		if up := h.upstream(); up.Path != test.upstream {
			t.Errorf("%s is asked for at %s, not at %s", test.model, up.Path, test.upstream)
		}
	}
}

func TestAnUnknownModelIsRefusedWithTheKnownPrefixes(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		a := h.post(s.path, strings.Replace(s.body("", false), s.model, "llama-4", 1))
		_, message := errorOf(t, s, a)
		if a.status != 404 || s.name != "messages" && s.name != "gemini" && member(a.body, "error", "code") != "model_not_found" {
			t.Errorf("%s: %d %s", s.name, a.status, a.body)
		}
		for _, prefix := range []string{"claude", "gpt", "gemini", "deepseek"} {
			if !strings.Contains(message, prefix) {
				t.Errorf("%s: %q does not name %s", s.name, message, prefix)
			}
		}
	}
}

func TestARequestWithTwoModelsIsRefused(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		for _, second := range []string{`"model":"gpt-4.1"`, `"model":"claude-opus-4-8"`, `"\u006dodel":"claude-opus-4-8"`} {
			a := h.post(s.path, with(s.body("", false), second))
			if _, message := errorOf(t, s, a); a.status != 400 || !strings.Contains(message, "model") {
				t.Errorf("%s with %s: %d %s", s.name, second, a.status, a.body)
			}
		}
	}
	if n := len(h.provider.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}
