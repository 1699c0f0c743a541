package server_test

import "testing"

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
			for name, want := range tt.want {
				if got := a.header.Get(name); got != want {
					t.Errorf("%s asks %s, stream %t: %s is %q, want %q", asked.name, tt.model, stream, name, got, want)
				}
			}
		}
	}
}
