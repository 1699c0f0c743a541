package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// Operators see who is refused and why, with the key's id and label and without any credential.
func TestRefusedCallersLeaveALine(t *testing.T) {
	h := build(t)
	create := func(scopes store.Scopes, label string, set func(*store.Key)) (secret, id string) {
		t.Helper()
		secret, key, err := h.store.Keys().Create("acme", scopes, label, set)
		ok(t, err)
		return secret, key.ID
	}
	ask := func(path, secret string) {
		t.Helper()
		body := chat.body("", false)
		if path != chat.path {
			body = `{"query":"x"}`
		}
		if a := h.do(http.MethodPost, path, body, "Authorization", "Bearer "+secret); a.status < 400 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
	}
	none := func(*store.Key) {}
	revoked, revokedID := create(store.ScopeWrite, "old laptop", none)
	ok(t, h.store.Keys().Revoke(revokedID))
	reader, readerID := create(store.ScopeRead, "dashboard", none)
	writer, writerID := create(store.ScopeWrite, "agent", none)
	poor, poorID := create(store.ScopeWrite, "intern", func(k *store.Key) { k.Limits.Budget.Day = 1 })
	narrow, narrowID := create(store.ScopeWrite, "narrow", func(k *store.Key) { k.Models = store.Models{"claude-*"} })
	ask(chat.path, revoked)
	ask(chat.path, reader)
	ask("/v1/memory/search", writer)
	h.do(http.MethodPost, chat.path, chat.body("", false), "Authorization", "Bearer "+poor)
	ask(chat.path, poor)
	ask(chat.path, narrow)
	swapped, swappedID := create(store.ScopeWrite, "swapped", none)
	h.do(http.MethodPost, messages.path, messages.body("", false), "X-Api-Key", swapped)
	for _, want := range []struct{ id, label, reason string }{
		{revokedID, "old laptop", "revoked"},
		{readerID, "dashboard", "scope"},
		{writerID, "agent", "scope"},
		{poorID, "intern", "budget"},
		{narrowID, "narrow", "may not ask"},
		{swappedID, "swapped", "x-api-key"},
	} {
		found := 0
		for line := range strings.Lines(h.log.String()) {
			if strings.Contains(line, "a caller was refused") && strings.Contains(line, want.id) {
				found++
				if !strings.Contains(line, want.label) || !strings.Contains(line, want.reason) || !strings.Contains(line, "client=127.0.0.1") || !strings.Contains(line, "account=acme") {
					t.Errorf("want %+v in %s", want, line)
				}
			}
		}
		if found != 1 {
			t.Errorf("%d lines about %s:\n%s", found, want.label, h.log)
		}
	}
	for _, secret := range []string{revoked, reader, writer, poor, narrow, swapped} {
		if strings.Contains(h.log.String(), secret) {
			t.Error("a credential is in the log")
		}
	}
}
