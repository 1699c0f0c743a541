package server_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/router"
)

// Clients pace themselves by the limits of a provider's, in headers that their own provider would send.
func TestClientsReadTheLimitsOfAProviderOfAnotherFormat(t *testing.T) {
	h, _ := timed(t) // it is 2026-11-20T12:00:00Z
	const openAI = `text "hi"; header X-Ratelimit-Limit-Requests "500"; header X-Ratelimit-Remaining-Requests "7"; ` +
		`header X-Ratelimit-Reset-Requests "1m0.12s"; header X-Ratelimit-Remaining-Tokens "90"; header X-Ratelimit-Reset-Tokens "soon"`
	const anthropic = `text "hi"; header Anthropic-Ratelimit-Requests-Limit "500"; header Anthropic-Ratelimit-Requests-Remaining "7"; ` +
		`header Anthropic-Ratelimit-Requests-Reset "2026-11-20T12:01:01Z"; header Anthropic-Ratelimit-Tokens-Reset "2026-11-20T11:00:00Z"; ` +
		`header Anthropic-Ratelimit-Input-Tokens-Remaining "3"`
	ofOpenAI := map[string]string{
		"X-Ratelimit-Limit-Requests": "500", "X-Ratelimit-Remaining-Requests": "7", "X-Ratelimit-Reset-Requests": "1m0.12s",
		"X-Ratelimit-Remaining-Tokens": "90", "X-Ratelimit-Reset-Tokens": "soon", "Anthropic-Ratelimit-Requests-Limit": "",
	}
	ofAnthropic := map[string]string{
		"Anthropic-Ratelimit-Requests-Limit": "500", "Anthropic-Ratelimit-Requests-Remaining": "7",
		"Anthropic-Ratelimit-Requests-Reset": "2026-11-20T12:01:01Z", "Anthropic-Ratelimit-Input-Tokens-Remaining": "3", "X-Ratelimit-Limit-Requests": "",
	}
	toAnthropic := map[string]string{
		"Anthropic-Ratelimit-Requests-Limit": "500", "Anthropic-Ratelimit-Requests-Remaining": "7",
		"Anthropic-Ratelimit-Requests-Reset": "2026-11-20T12:01:01Z", "Anthropic-Ratelimit-Tokens-Remaining": "90",
		"X-Ratelimit-Reset-Tokens": "soon", "Anthropic-Ratelimit-Tokens-Reset": "", "X-Ratelimit-Limit-Requests": "",
	}
	toOpenAI := map[string]string{
		"X-Ratelimit-Limit-Requests": "500", "X-Ratelimit-Remaining-Requests": "7", "X-Ratelimit-Reset-Requests": "1m1s",
		"X-Ratelimit-Reset-Tokens": "0s", "Anthropic-Ratelimit-Input-Tokens-Remaining": "3", "Anthropic-Ratelimit-Requests-Limit": "",
	}
	const limited = `; error 429; header Retry-After "9"; header Request-Id "req_of_the_provider"`
	for _, tt := range []struct {
		surface surface
		model   string
		script  string
		want    map[string]string
	}{
		{chat, chat.model, openAI, ofOpenAI},
		{messages, messages.model, anthropic, ofAnthropic},
		{messages, chat.model, openAI, toAnthropic},
		{chat, messages.model, anthropic, toOpenAI},
		{responses, messages.model, anthropic, toOpenAI},
	} {
		for _, stream := range []bool{false, true} {
			asked := tt.surface
			asked.model = tt.model
			a := h.post(asked.path, asked.body(tt.script, stream))
			if a.status != 200 {
				t.Fatalf("%s asks %s: %d %s", asked.name, tt.model, a.status, a.body)
			}
			wantHeaders(t, a, tt.want)
			a = h.post(asked.path, asked.body(tt.script+limited, stream))
			if a.status != 429 || a.header.Get("Retry-After") != "9" || a.header.Get("Request-Id") != "req_of_the_provider" ||
				a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s asks %s, stream %t: %d %v", asked.name, tt.model, stream, a.status, a.header)
			}
			wantHeaders(t, a, tt.want)
		}
	}
}

func wantHeaders(t *testing.T, a *answer, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := a.header.Values(name); strings.Join(got, " and ") != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// The error that a client gets when no stand-in could answer either is that of the model it asked for, and so are the limits.
func TestTheLimitsInAnErrorAreThoseOfTheRequestedModel(t *testing.T) {
	h, _ := ill(t, chat, func(c *upstreamCall) {
		c.write(full(429, "X-Ratelimit-Remaining-Requests: 0\r\n", chat.errorBody("rate_limit_error", "slow down")))
	}, func(p *plan) {
		p.router.Fallbacks = []router.Fallback{{Model: chat.model, To: []string{messages.model}}}
	})
	a := h.post(chat.path, chat.body(`error 429; header Anthropic-Ratelimit-Requests-Remaining "7"`, false))
	if a.status != 429 || errorMessage(a.body) != "slow down" {
		t.Errorf("%d %s", a.status, a.body)
	}
	wantHeaders(t, a, map[string]string{"X-Ratelimit-Remaining-Requests": "0", "Anthropic-Ratelimit-Requests-Remaining": ""})
}
