package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// A key with a list of models is held to it on every surface, before anybody is asked, and its lists show no others.
func TestAKeyMayUseOnlyItsModels(t *testing.T) {
	h := build(t)
	secret, key, err := h.store.Keys().Create("acme", store.ScopeWrite, "narrow", func(k *store.Key) { k.Models = store.Models{"gpt-4.1", "claude-*"} })
	ok(t, err)
	narrow := []string{"Authorization", "Bearer " + secret}
	narrowAnthropic := append([]string{"Anthropic-Version", "2023-06-01"}, narrow...)

	if a := h.do(http.MethodPost, chat.path, chat.body(`text "hi"`, false), narrow...); a.status != 200 {
		t.Errorf("an allowed model: %d %s", a.status, a.body)
	}
	if a := h.do(http.MethodPost, messages.path, messages.body(`text "hi"`, false), narrowAnthropic...); a.status != 200 {
		t.Errorf("a model with an allowed beginning: %d %s", a.status, a.body)
	}

	asked := len(h.provider.Requests())
	for _, s := range surfaces {
		body := strings.Replace(s.body(`text "hi"`, true), s.model, "gpt-4.1-nano", 1)
		a := h.do(http.MethodPost, s.path, body, narrow...)
		kind, message := errorOf(t, s, a)
		if a.status != 403 || !strings.Contains(message, `may not ask for the model "gpt-4.1-nano"`) || !strings.Contains(message, key.ID) {
			t.Errorf("%s: %d %s %q", s.name, a.status, kind, message)
		}
	}
	count := strings.Replace(messages.body(`text "hi"`, false), messages.model, "gemini-2.5-pro", 1)
	if a := h.do(http.MethodPost, "/v1/messages/count_tokens", count, narrowAnthropic...); a.status != 403 {
		t.Errorf("counting for another model: %d %s", a.status, a.body)
	}
	if now := len(h.provider.Requests()); now != asked {
		t.Errorf("a provider was asked %d times for models that the key may not ask for", now-asked)
	}

	// Some hosts take more models beside the one that is asked, and ask them when that fails.
	// Those beside the one that is asked come in many forms.
	for _, form := range []struct {
		surface
		more    string
		allowed bool
	}{
		{chat, `"models":["gpt-4.1","gemini-2.5-pro"]`, false},
		{chat, `"route":"fallback"`, false},
		{chat, `"preset":"the-dear-one"`, false},
		{chat, `"context_window_fallbacks":[{"gpt-4.1":["gemini-2.5-pro"]}]`, false},
		{chat, `"providerOptions":{"gateway":{"models":["gemini-2.5-pro"]}}`, false},
		{chat, `"providerOptions":{"gateway":{"order":["azure"]},"gateway":{"models":null,"models":["gemini-2.5-pro"]}}`, false},
		{chat, `"providerOptions":{"gateway":{"order":["azure"]}}`, true},
		{chat, `"tools":[{"type":"host:advisor","parameters":{"model":"gemini-2.5-pro"}}]`, false},
		{chat, `"tools":[{"type":"host:advisor","parameters":{"model":"claude-opus-4-8","model":"gemini-2.5-pro"}}]`, false},
		{chat, `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}]`, true},
		{messages, `"fallbacks":[{"model":"gemini-2.5-pro"}]`, false},
		{messages, `"fallbacks":"default"`, false},
		{messages, `"fallbacks":null`, true},
		{messages, `"tools":[{"type":"advisor_20260301","name":"advisor","model":"gemini-2.5-pro"}]`, false},
		{messages, `"tools":[{"type":"advisor_20260301","name":"advisor","model":"claude-opus-4-8","mod\u0065l":"gemini-2.5-pro"}]`, false},
		{messages, `"tools":[{"type":"advisor_20260301","name":"advisor","model":"claude-opus-4-8"}]`, true},
	} {
		body := strings.Replace(form.body(`text "hi"`, false), `{`, `{`+form.more+`,`, 1)
		a := h.do(http.MethodPost, form.path, body, narrowAnthropic...)
		if refused := a.status == 403 && strings.Contains(a.body, "This service key"); refused == form.allowed {
			t.Errorf("%s: %d %s", form.more, a.status, a.body)
		}
	}
	more := strings.Replace(chat.body(`text "hi"`, false), `{`, `{"models":["gpt-4.1","gemini-2.5-pro"],`, 1)
	if a := h.do(http.MethodPost, chat.path, more, "Authorization", "Bearer "+h.key); a.status == 403 {
		t.Errorf("a key for all models: %d %s", a.status, a.body)
	}

	for _, headers := range [][]string{narrow, narrowAnthropic} {
		a := h.do(http.MethodGet, "/v1/models", "", headers...)
		if a.status != 200 || !strings.Contains(a.body, `"claude-`) || strings.Contains(a.body, "gemini") {
			t.Errorf("the list of models: %d %s", a.status, a.body)
		}
	}
	if a := h.do(http.MethodGet, "/v1/models/gpt-4.1", "", narrow...); a.status != 200 {
		t.Errorf("an allowed model is not shown: %d %s", a.status, a.body)
	}
	if a := h.do(http.MethodGet, "/v1/models/gemini-2.5-pro", "", narrow...); a.status != 403 || member(a.body, "error", "code") != "model_not_allowed" {
		t.Errorf("another model is shown: %d %s", a.status, a.body)
	}

	// Nobody else is held to the list, and it ends with the next request after it was taken away.
	if a := h.do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+h.key); !strings.Contains(a.body, "gemini") {
		t.Errorf("another key's list: %s", a.body)
	}
	rotated, _, err := h.store.Keys().Rotate(key.ID, 0)
	ok(t, err)
	if a := h.do(http.MethodGet, "/v1/models/gemini-2.5-pro", "", "Authorization", "Bearer "+rotated); a.status != 403 {
		t.Errorf("the successor of a key: %d %s", a.status, a.body)
	}
}
