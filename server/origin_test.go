package server_test

import (
	"net/http"
	"testing"
)

// A page of a configured origin may call the surfaces; those of others get no permission from their browser, and none may
// read the memory.
func TestPagesOfConfiguredOriginsMayCallTheSurfaces(t *testing.T) {
	const page, other = "https://app.example.com", "https://evil.example.com"
	h := build(t, func(p *plan) { p.server.Origins = []string{page} })
	for _, origin := range []string{page, other} {
		want := map[string]string{page: page}[origin]
		asked := h.do(http.MethodOptions, "/v1/responses", "", "Origin", origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type")
		if asked.status != http.StatusNoContent || asked.header.Get("Access-Control-Allow-Origin") != want || (asked.header.Get("Access-Control-Allow-Headers") != "") != (want != "") {
			t.Errorf("%s asks: %d %v", origin, asked.status, asked.header)
		}
		for _, path := range []string{"/v1/responses", "/v1/chat/completions"} {
			if a := h.post(path, "{}", "Origin", origin); a.header.Get("Access-Control-Allow-Origin") != want || a.header.Get("Vary") != "Origin" {
				t.Errorf("%s posts to %s: %v", origin, path, a.header)
			}
		}
		if a := h.do(http.MethodGet, "/v1/memory/sessions", "", "Origin", origin, "Authorization", "Bearer "+h.key); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may read the memory: %v", origin, a.header)
		}
	}
}

func TestOptionsAreTheMethodsOfAPath(t *testing.T) {
	h := build(t)
	a := h.do(http.MethodOptions, "/v1/responses/resp_1", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "GET")
	if a.status != http.StatusNoContent || a.header.Get("Allow") != "DELETE, GET, HEAD" || a.header.Get("Access-Control-Allow-Origin") != "" || a.body != "" {
		t.Errorf("%d %q %v", a.status, a.body, a.header)
	}
}
