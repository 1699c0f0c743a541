package server_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

func TestAnExchangeStaysOffTheRecordIfTheAccountAllowsIt(t *testing.T) {
	h := build(t, func(p *plan) { p.server.OptOut = []string{"private"} })
	h.account("private")
	keys := map[string]string{"acme": h.key, "private": h.createKey("private", store.ScopeWrite)}
	plain := responses.body(`text "hi"`, false)
	for _, tt := range []struct {
		account, body, asked, told string
		recorded                   bool
	}{
		{"acme", plain, "off", "on", true},
		{"acme", with(plain, `"store":false`), "", "", true},
		{"private", plain, "", "", true},
		{"private", plain, "on", "", true},
		{"private", plain, "off", "off", false},
		{"private", with(plain, `"store":false`), "", "off", false},
		{"private", with(plain, `"store":true`), "", "", true},
	} {
		h.key = keys[tt.account]
		before := len(h.records(tt.account))
		a := h.post(responses.path, tt.body, "X-Service-Capture", tt.asked)
		if a.status != 200 || a.header.Get("X-Service-Capture") != tt.told {
			t.Errorf("%+v: %d, told %q", tt, a.status, a.header.Get("X-Service-Capture"))
		}
		if recorded := len(h.records(tt.account)) > before; recorded != tt.recorded {
			t.Errorf("%+v: recorded %t", tt, recorded)
		}
		if up := h.upstream().Header.Get("X-Service-Capture"); up != "" {
			t.Errorf("the provider is told %q", up)
		}
	}
	if s := h.store.Stats(); s.Off != 2 || s.Captured != 5 {
		t.Errorf("%+v", s)
	}
}
