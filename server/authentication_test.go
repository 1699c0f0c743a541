package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// errorOf checks the shape of a surface's error body and gives the members that clients look at.
func errorOf(t *testing.T, s surface, a *answer) (kind, message string) {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: an error comes as %q", s.name, got)
	}
	if outer := member(a.body, "type"); (outer == "error") != (s.name == "messages") {
		t.Errorf("%s: not the surface's error body: %s", s.name, a.body)
	}
	kind = "type"
	if s.name == "gemini" {
		kind = "status"
	}
	return member(a.body, "error", kind), errorMessage(a.body)
}

func TestTheServiceKeyIsABearerTokenOrInItsOwnHeader(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		for name, headers := range map[string][]string{
			"bearer":           {"Authorization", "Bearer " + h.key},
			"bearer, any case": {"Authorization", "bearer " + h.key},
			"own header":       {"X-Service-API-Key", h.key},
		} {
			if a := h.do(http.MethodPost, s.path, s.body(`text "hi"`, false), headers...); a.status != 200 {
				t.Errorf("%s, %s: %d %s", s.name, name, a.status, a.body)
			}
		}
	}
}

func TestUnknownCallersAreRefused(t *testing.T) {
	h := build(t)
	revoked, key, err := h.store.Keys().Create("acme", store.ScopeWrite, "to be revoked")
	ok(t, err)
	ok(t, h.store.Keys().Revoke(key.ID))
	unknown := foreignKey(t)
	damaged := h.key[:len(h.key)-1] + "!"

	for _, test := range []struct {
		name    string
		headers []string
		says    string
	}{
		{"no key", nil, "no service key"},
		{"empty", []string{"Authorization", "Bearer "}, "does not hold a service key"},
		{"another scheme", []string{"Authorization", "Basic dXNlcjpwYXNz"}, "does not hold a service key"},
		{"only x-api-key", []string{"X-Api-Key", h.key}, "api-key"},
		{"unknown", []string{"Authorization", "Bearer " + unknown}, ""},
		{"unknown in the own header", []string{"X-Service-API-Key", unknown}, ""},
		{"own header wins over a good bearer", []string{"X-Service-API-Key", unknown, "Authorization", "Bearer " + h.key}, ""},
		{"revoked", []string{"Authorization", "Bearer " + revoked}, "revoked"},
		{"damaged", []string{"Authorization", "Bearer " + damaged}, ""},
		{"an OpenAI key", []string{"Authorization", "Bearer sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"}, "provider"},
		{"an Anthropic key", []string{"Authorization", "Bearer sk-ant-api03-abcdefghijklmnopqrstuvwxyz"}, "provider"},
	} {
		for _, s := range surfaces {
			a := h.do(http.MethodPost, s.path, s.body(`text "hi"`, false), test.headers...)
			if a.status != http.StatusUnauthorized {
				t.Errorf("%s on %s: status %d", test.name, s.name, a.status)
			}
			_, message := errorOf(t, s, a)
			if message == "" || !strings.Contains(message, test.says) {
				t.Errorf("%s on %s: %q, want something about %q", test.name, s.name, message, test.says)
			}
			h.noSecrets(test.name, a.body)
			for i := 1; i < len(test.headers); i += 2 {
				if value := strings.TrimPrefix(test.headers[i], "Bearer "); len(value) > 10 && strings.Contains(a.body, value) {
					t.Errorf("%s: the answer quotes %q", test.name, value)
				}
			}
		}
	}
	if n := len(h.provider.Requests()); n != 0 {
		t.Errorf("%d requests of strangers reached the provider", n)
	}
	if n := len(h.records("")); n != 0 {
		t.Errorf("%d requests of strangers are on record", n)
	}
}

func TestAServiceKeyInXAPIKeyIsRefusedWithAdviceAndLoggedOnce(t *testing.T) {
	h := build(t)
	for range 5 {
		a := h.do(http.MethodPost, messages.path, messages.body(`text "hi"`, false), "X-Api-Key", h.key)
		if a.status != 401 || !strings.Contains(a.body, "ANTHROPIC_AUTH_TOKEN") || a.header.Get("X-Should-Retry") != "false" {
			t.Fatalf("%d %s, x-should-retry %q", a.status, a.body, a.header.Get("X-Should-Retry"))
		}
	}
	a := h.do(http.MethodPost, messages.path, messages.body(`text "hi"`, false))
	if a.status != 401 {
		t.Errorf("without a key: %d", a.status)
	}
	if n := strings.Count(h.log.String(), "a caller was refused"); n != 2 {
		t.Errorf("%d lines for a key and for none:\n%s", n, h.log)
	}
	if len(h.provider.Requests()) != 0 || strings.Contains(h.log.String(), h.key) {
		t.Error("the key went upstream, or into the log")
	}
}

func TestAKeyNeedsTheScopeWrite(t *testing.T) {
	h := build(t)
	reader := h.createKey("acme", store.ScopeRead|store.ScopeErase|store.ScopeAdmin)
	for _, s := range surfaces {
		a := h.do(http.MethodPost, s.path, s.body(`text "hi"`, false), "Authorization", "Bearer "+reader)
		if kind, message := errorOf(t, s, a); a.status != http.StatusForbidden || !strings.Contains(message, "mneme key create") {
			t.Errorf("%s: %d %s %q", s.name, a.status, kind, message)
		}
	}
	if n := len(h.provider.Requests()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
	if got := h.records("acme"); len(got) != len(surfaces) || got[0].Outcome != record.OutcomeRefused {
		t.Errorf("the refusals of a caller that is known are on record as %+v", got)
	}
}

func TestARevokedKeyIsRefusedAtOnce(t *testing.T) {
	h := build(t)
	secret, key, err := h.store.Keys().Create("acme", store.ScopeWrite, "")
	ok(t, err)
	ask := func() int {
		return h.do(http.MethodPost, chat.path, chat.body(`text "hi"`, false), "Authorization", "Bearer "+secret).status
	}
	if status := ask(); status != 200 {
		t.Fatal(status)
	}
	ok(t, h.store.Keys().Revoke(key.ID))
	if status := ask(); status != http.StatusUnauthorized {
		t.Errorf("status %d behind the revocation", status)
	}
}

// credentials are the credential headers of a request as the provider received it.
func credentials(header http.Header) string {
	var found []string
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		for _, value := range header.Values(name) {
			found = append(found, name+": "+value)
		}
	}
	return strings.Join(found, "; ")
}

func TestTheProviderGetsTheNearestCredential(t *testing.T) {
	h := build(t)
	h.account("own")
	ownKey := h.createKey("own", store.ScopeWrite)
	ok(t, h.store.Credentials().Set("own", "openai", accountsOwnKey))
	ok(t, h.store.Credentials().Set("own", "anthropic", accountsOwnKey))
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }

	for _, test := range []struct {
		name    string
		surface surface
		headers []string
		want    string
	}{
		{"server default", chat, bearer(h.key), "Authorization: Bearer " + serverDefaultKey},
		{"server default", messages, bearer(h.key), "X-Api-Key: " + serverDefaultKey},
		{"the account's own", responses, bearer(ownKey), "Authorization: Bearer " + accountsOwnKey},
		{"the account's own", embeddings, bearer(ownKey), "Authorization: Bearer " + accountsOwnKey},
		{"the account's own", messages, bearer(ownKey), "X-Api-Key: " + accountsOwnKey},
		{"the caller's x-api-key", messages, append(bearer(ownKey), "X-Api-Key", callersOwnKey), "X-Api-Key: " + callersOwnKey},
		{"x-api-key where the provider does not use it", chat, append(bearer(ownKey), "X-Api-Key", callersOwnKey), "Authorization: Bearer " + accountsOwnKey},
		{"a free Authorization", chat, []string{"X-Service-API-Key", ownKey, "Authorization", "Bearer " + callersOwnKey}, "Authorization: Bearer " + callersOwnKey},
		{"a free Authorization", messages, []string{"X-Service-API-Key", ownKey, "Authorization", "Bearer " + callersOwnKey}, "Authorization: Bearer " + callersOwnKey},
		{"the service key in every header", messages, []string{"X-Service-API-Key", h.key, "Authorization", "Bearer " + h.key, "X-Api-Key", h.key}, "X-Api-Key: " + serverDefaultKey},
		{"another service key beside it", chat, []string{"X-Service-API-Key", h.key, "Authorization", "Bearer " + ownKey}, "Authorization: Bearer " + serverDefaultKey},
	} {
		a := h.do(http.MethodPost, test.surface.path, test.surface.body(`text "hi"`, false), test.headers...)
		if a.status != 200 {
			t.Errorf("%s on %s: %d %s", test.name, test.surface.name, a.status, a.body)
			continue
		}
		up := h.upstream()
		if got := credentials(up.Header); got != test.want {
			t.Errorf("%s on %s: the provider sees %q, want %q", test.name, test.surface.name, got, test.want)
		}
		for name := range up.Header {
			if strings.HasPrefix(name, "X-Service-") {
				t.Errorf("%s: the provider sees %s", test.name, name)
			}
		}
	}
	for _, info := range h.records("") {
		x, err := h.store.Archive().Exchange("", info.ID)
		ok(t, err)
		h.noSecrets("a record", string(x.RawRequest)+string(x.RawResponse)+strings.Join(headerLines(x), "\n"))
	}
	h.noSecrets("the log", h.log.String())
}

func headerLines(x *record.Exchange) (lines []string) {
	for _, field := range x.Header {
		lines = append(lines, field.Name+": "+field.Value)
	}
	return lines
}

func TestAMissingCredentialIsNamedWithAdvice(t *testing.T) {
	h := build(t, func(p *plan) {
		for _, name := range []string{"openai", "anthropic"} {
			p.router.Providers[name] = router.ProviderConfig{BaseURL: "http://127.0.0.1:9"}
		}
	})
	for s, name := range map[surface]string{chat: "openai", responses: "openai", embeddings: "openai", messages: "anthropic"} {
		a := h.post(s.path, s.body(`text "hi"`, false))
		_, message := errorOf(t, s, a)
		if a.status < 400 || !strings.Contains(message, name) || !strings.Contains(message, "mneme account credential set") {
			t.Errorf("%s: %d %q", s.name, a.status, message)
		}
		if x := h.record(a.exchange()); x.Outcome == record.OutcomeComplete || x.Error == nil {
			t.Errorf("%s: on record as %v", s.name, x.Outcome)
		}
	}
}

func TestARefusalOfTheCallersCredentialPassesAndOfOursDoesNot(t *testing.T) {
	h := build(t)
	for _, s := range generating {
		for _, status := range []string{"401", "403"} {
			body := s.body(`error `+status+` message="the key `+serverDefaultKey+` is refused"`, true)
			own := h.do(http.MethodPost, s.path, body, "X-Service-API-Key", h.key, "Authorization", "Bearer "+callersOwnKey)
			want := h.direct(s, body)
			said := strings.ReplaceAll(want.body, serverDefaultKey, strings.Repeat("*", len(serverDefaultKey)))
			if own.body != said || own.status != want.status {
				t.Errorf("%s: the caller's own credential refused: %d %s\nthe provider says: %d %s", s.name, own.status, own.body, want.status, want.body)
			}
			ours := h.post(s.path, body)
			_, message := errorOf(t, s, ours)
			if ours.status != http.StatusBadGateway || !strings.Contains(message, "mneme account credential set acme") {
				t.Errorf("%s: our credential refused: %d %q", s.name, ours.status, message)
			}
			h.noSecrets("the answer", ours.body)
			x := h.record(ours.exchange())
			if x.Outcome != record.OutcomeUpstreamError || x.Status != ours.status || string(x.RawResponse) != ours.body {
				t.Errorf("%s: on record as %v %d %s", s.name, x.Outcome, x.Status, x.RawResponse)
			}
			h.noSecrets("the record", string(x.RawResponse)+x.Error.Message)
		}
	}
}

func TestAccountsSeeNothingOfEachOther(t *testing.T) {
	h := build(t)
	h.account("other")
	other := h.createKey("other", store.AllScopes)
	body := chat.body(`text "mine"`, false)
	mine := h.post(chat.path, body)
	theirs := h.do(http.MethodPost, chat.path, body, "Authorization", "Bearer "+other)
	if _, err := h.store.Archive().Exchange("other", mine.exchange()); err == nil {
		t.Error("an account reads another's exchange")
	}
	if got := h.records("other"); len(got) != 1 || got[0].ID != theirs.exchange() {
		t.Errorf("the other account has %+v", got)
	}
	if got := h.records("acme"); len(got) != 1 || got[0].ID != mine.exchange() {
		t.Errorf("the account has %+v", got)
	}
}
