package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// window asks for a path of the page as a browser would.
func (h *harness) window(method, path, body string, headers ...string) (*http.Response, string) {
	h.t.Helper()
	r := h.request(context.Background(), method, path, body, headers...)
	r.Header.Del("Authorization")
	response, err := h.client.Do(r)
	ok(h.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	ok(h.t, err)
	return response, string(text)
}

// signIn returns the cookie of a key.
func (h *harness) signIn(key string) string {
	h.t.Helper()
	response, text := h.window("POST", "/ui/session", `{"key":"`+key+`"}`, "X-Mneme-UI", "1")
	cookie := response.Header.Get("Set-Cookie")
	if response.StatusCode != http.StatusOK || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || !strings.Contains(cookie, "Path=/ui") || strings.Contains(cookie+text, key) {
		h.t.Fatalf("signing in: %d %s %s", response.StatusCode, text, cookie)
	}
	value, _, _ := strings.Cut(cookie, ";")
	return value
}

func TestACookieOfTheWindowAllowsWhatItsKeyAllows(t *testing.T) {
	h := remembering(t)
	h.post(chat.path, chat.body(`text "hi"`, false))
	secret, key, err := h.store.Keys().Create("acme", store.ScopeRead, "reader")
	ok(t, err)
	cookie := h.signIn(secret)
	for _, story := range []struct {
		what, method, path string
		status             int
		headers            []string
	}{
		{"reads", "GET", "/ui/v1/memory/sessions", 200, []string{"X-Mneme-UI", "1"}},
		{"lacks a scope", "DELETE", "/ui/v1/memory/exchanges/exch_00000000000000000000000000", 403, []string{"X-Mneme-UI", "1"}},
		{"comes without our header, as from a form", "GET", "/ui/v1/memory/sessions", 403, nil},
		{"shows a picture on another site", "GET", "/ui/v1/memory/exchanges/exch_1/messages/0/parts/0", 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{"comes from another site", "GET", "/ui/v1/memory/sessions", 403, []string{"X-Mneme-UI", "1", "Sec-Fetch-Site", "cross-site"}},
		{"comes by another site's name", "GET", "/ui/v1/memory/sessions", 403, []string{"X-Mneme-UI", "1", "Origin", "https://evil.example"}},
		{"is shown to the memory itself", "GET", "/v1/memory/sessions", 401, []string{"X-Mneme-UI", "1"}},
		{"is shown to a surface", "POST", chat.path, 401, []string{"X-Mneme-UI", "1"}},
	} {
		response, text := h.window(story.method, story.path, "", append([]string{"Cookie", cookie}, story.headers...)...)
		if response.StatusCode != story.status {
			t.Errorf("a request that %s: %d, want %d\n%s", story.what, response.StatusCode, story.status, text)
		}
	}
	ok(t, h.store.Keys().Revoke(key.ID))
	if response, text := h.window("GET", "/ui/v1/memory/sessions", "", "Cookie", cookie, "X-Mneme-UI", "1"); response.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "signed_out") {
		t.Errorf("with a revoked key: %d %s", response.StatusCode, text)
	}
}

func TestThePageLoadsNothingFromElsewhere(t *testing.T) {
	h := build(t)
	response, text := h.window("GET", "/ui/sessions/sess_x", "")
	policy := response.Header.Get("Content-Security-Policy")
	if response.StatusCode != http.StatusOK || !strings.Contains(text, `<div id="app">`) || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%d, policy %q\n%s", response.StatusCode, policy, text)
	}
	if response, _ := h.window("GET", "/ui/assets/none/page/main.js", ""); response.StatusCode != http.StatusNotFound {
		t.Errorf("a part of another version: %d", response.StatusCode)
	}
}

// own are the keys that were made for browsers by mneme ui and are good.
func (h *harness) own() []store.Key { return h.labeled("window in a browser") }

// labeled are the keys of a label that are good.
func (h *harness) labeled(label string) (keys []store.Key) {
	for _, k := range h.store.Keys().List("acme") {
		if k.Label == label && k.Revoked.IsZero() {
			keys = append(keys, k)
		}
	}
	return keys
}

// enter opens a link of mneme ui in a browser that may have a cookie, and gives its cookie.
func (h *harness) enter(cookie string) string {
	h.t.Helper()
	code, err := h.proxy.Invite("acme", false)
	ok(h.t, err)
	body := `{"code":"` + code + `"}`
	response, text := h.window("POST", "/ui/session", body, "X-Mneme-UI", "1", "Cookie", cookie)
	if response.StatusCode != http.StatusOK {
		h.t.Fatalf("with a code: %d %s", response.StatusCode, text)
	}
	if again, _ := h.window("POST", "/ui/session", body, "X-Mneme-UI", "1"); again.StatusCode != http.StatusUnauthorized {
		h.t.Errorf("with a code that was used: %d", again.StatusCode)
	}
	value, _, _ := strings.Cut(response.Header.Get("Set-Cookie"), ";")
	return value
}

func TestOnlyAnOperatorLooksAtAnotherAccount(t *testing.T) {
	h := remembering(t)
	h.account("globex")
	look := func(cookie, account string) (status int, next string) {
		response, _ := h.window("POST", "/ui/session", `{"account":"`+account+`"}`, "X-Mneme-UI", "1", "Cookie", cookie)
		next, _, _ = strings.Cut(response.Header.Get("Set-Cookie"), ";")
		return response.StatusCode, next
	}
	for _, cookie := range []string{h.signIn(h.createKey("acme", store.AllScopes)), h.enter("")} {
		if status, next := look(cookie, "globex"); status != http.StatusForbidden || next != "" {
			t.Errorf("a key with every scope of its account: %d %s", status, next)
		}
	}
	if status, _ := look("", "globex"); status != http.StatusUnauthorized {
		t.Errorf("without a cookie: %d", status)
	}
	h.post(chat.path, chat.body(`text "hi"`, false))
	operator := h.signIn(h.createKey("globex", store.ScopeOperator))
	if status, _ := look(operator, "nowhere"); status != http.StatusNotFound {
		t.Errorf("an account that does not exist: %d", status)
	}
	status, there := look(operator, "acme")
	if status != http.StatusOK {
		t.Fatalf("an operator: %d", status)
	}
	for cookie, want := range map[string]int{there: 1, operator: 0} {
		_, text := h.window("GET", "/ui/v1/memory/sessions", "", "X-Mneme-UI", "1", "Cookie", cookie)
		if got := strings.Count(text, `"id":"sess_`); got != want {
			t.Errorf("%d sessions instead of %d: %s", got, want, text)
		}
	}
	h.window("DELETE", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", there)
	if status, _ := look(operator, "acme"); status != http.StatusUnauthorized {
		t.Errorf("the cookie from before the other account, after signing out: %d", status)
	}
}

func TestABrowserKeepsOneKeyUntilItSignsOut(t *testing.T) {
	h := build(t)
	if _, err := h.proxy.Invite("unknown", false); err == nil {
		t.Error("an account that does not exist invites")
	}
	if _, err := h.proxy.Invite("acme", false); err != nil || len(h.own()) != 0 {
		t.Errorf("a link that nobody opened leaves %d keys (%v)", len(h.own()), err)
	}
	cookie := h.enter("")
	for range 3 {
		cookie = h.enter(cookie)
	}
	if keys := h.own(); len(keys) != 1 || keys[0].Expires.IsZero() {
		t.Errorf("four links left %+v", keys)
	}
	h.enter("") // another browser
	if len(h.own()) != 2 {
		t.Errorf("two browsers have %d keys", len(h.own()))
	}
	if response, _ := h.window("DELETE", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie); response.StatusCode != http.StatusNoContent {
		t.Errorf("signing out: %d", response.StatusCode)
	}
	if response, _ := h.window("GET", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie); response.StatusCode != http.StatusUnauthorized || len(h.own()) != 1 {
		t.Errorf("after it the cookie gives %d, and %d keys are left", response.StatusCode, len(h.own()))
	}
}

func TestSigningOutEndsTheCookieButNotTheEnteredKey(t *testing.T) {
	h := build(t)
	secret := h.createKey("acme", store.ScopeRead)
	cookie := h.signIn(secret)
	h.window("DELETE", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie)
	if response, _ := h.window("GET", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("the cookie gives %d", response.StatusCode)
	}
	if _, err := h.store.Keys().Authenticate(secret); err != nil {
		t.Errorf("the key that was given ended too: %v", err)
	}
}

// However many sign out after it, with the same key or with others, and however the cookie is spelled.
func TestACookieThatWasSignedOutStaysSignedOut(t *testing.T) {
	h := build(t)
	secret, other := h.createKey("acme", store.ScopeRead), h.createKey("acme", store.ScopeRead)
	cookie, stays := h.signIn(secret), h.signIn(other)
	h.window("DELETE", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie)
	for range 150 {
		h.window("DELETE", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", h.signIn(secret))
	}
	newest := h.signIn(secret)
	last := cookie[len(cookie)-1]
	for _, spelled := range []string{cookie, cookie[:len(cookie)-1] + string(last+1), cookie[:len(cookie)-1] + string(last-1)} { // the last bits may encode nothing
		if response, _ := h.window("GET", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", spelled); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("the cookie gives %d", response.StatusCode)
		}
	}
	for _, cookie := range []string{stays, newest} {
		if response, _ := h.window("GET", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie); response.StatusCode != http.StatusOK {
			t.Errorf("a cookie that was not signed out gives %d", response.StatusCode)
		}
	}
}

func TestTheWindowIsNotReachedByAnotherSitesName(t *testing.T) {
	h := build(t)
	r := h.request(t.Context(), http.MethodGet, "/ui/", "")
	r.Host = "rebound.example"
	response, err := h.client.Do(r)
	ok(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("by a name that leads here: %d", response.StatusCode)
	}
}

// A listener on an open network may have the port of one that only this machine can reach.
func TestTheWindowIsNotShownOverAnOpenNetwork(t *testing.T) {
	addresses, err := net.InterfaceAddrs()
	ok(t, err)
	at := slices.IndexFunc(addresses, func(a net.Addr) bool { n, is := a.(*net.IPNet); return is && n.IP.IsGlobalUnicast() })
	if at < 0 {
		t.Skip("this machine is in no network")
	}
	outside := addresses[at].(*net.IPNet).IP.String()
	free, err := net.Listen("tcp", net.JoinHostPort(outside, "0"))
	ok(t, err)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	ok(t, free.Close())
	h := build(t, func(p *plan) {
		p.server.Listen = []string{"127.0.0.1:" + port, net.JoinHostPort(outside, port)}
	})
	reader := h.createKey("acme", store.ScopeRead)
	ask := func(method, host, path, body string) int {
		r := h.request(t.Context(), method, path, body, "X-Mneme-UI", "1", "Authorization", "Bearer "+reader)
		r.URL.Host, r.Host = net.JoinHostPort(host, port), "localhost"
		response, err := h.client.Do(r)
		ok(t, err)
		ok(t, response.Body.Close())
		return response.StatusCode
	}
	for host, want := range map[string]int{"127.0.0.1": http.StatusOK, outside: http.StatusForbidden} {
		if got := ask("POST", host, "/ui/session", `{"key":"`+reader+`"}`); got != want {
			t.Errorf("signing in over %s: %d, want %d", host, got, want)
		}
		if got := ask("GET", host, "/v1/memory/sessions", ""); got != http.StatusOK {
			t.Errorf("a program that reads over %s: %d", host, got)
		}
	}
}

func TestTheCookieOfATLSWindowIsSentOnlyOverTLS(t *testing.T) {
	h := build(t, overTLS(t))
	response, text := h.window("POST", "/ui/session", `{"key":"`+h.key+`"}`, "X-Mneme-UI", "1")
	if cookie := response.Header.Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("%d %s: cookie %q", response.StatusCode, text, cookie)
	}
}
