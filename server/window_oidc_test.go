package server_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/store"
)

// identityProvider is a real OpenID provider: that of zitadel/oidc, with its people. Their claims come from its userinfo.
type identityProvider struct {
	url     string
	storage *storage.Storage
	harness *harness
}

// The person who signs in.
const (
	person   = "test-user@localhost"
	password = "verysecure"
	email    = "test-user@zitadel.ch"
)

// introduce starts a provider for a harness, under another name than the harness's: to a browser it is another site.
func introduce(t *testing.T, h *harness) *identityProvider {
	t.Helper()
	var handler http.Handler
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(listener.Close)
	p := &identityProvider{url: strings.Replace(listener.URL, "127.0.0.1", "localhost", 1), harness: h}
	client := storage.WebClient("mneme", "the secret", h.url+openid.CallbackPath)
	p.storage = storage.NewStorageWithClients(storage.NewUserStore(p.url), map[string]*storage.Client{"mneme": client})
	quiet := slog.Default()
	handler = exampleop.SetupServer(p.url, p.storage, slog.New(slog.DiscardHandler), false, op.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { slog.SetDefault(quiet) })
	return p
}

func (p *identityProvider) options(grants ...openid.Grant) openid.Options {
	return openid.Options{
		Issuer: p.url, ClientID: "mneme", ClientSecret: "the secret", Redirect: p.harness.url + openid.CallbackPath, Scopes: []string{"email", "profile"}, Grants: grants,
	}
}

func (p *identityProvider) trust(grants ...openid.Grant) {
	p.harness.proxy.UseOpenID(p.options(grants...))
}

// reader opens the harness's account to the person.
var reader = openid.Grant{Claim: "email", Value: email, Account: "acme", Scopes: store.ScopeRead}

// visitor is a browser without a page: it keeps cookies and follows what it is sent to.
type visitor struct {
	*http.Client
	t *testing.T
	h *harness
}

func newVisitor(t *testing.T, h *harness) *visitor {
	jar, err := cookiejar.New(nil)
	ok(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	return &visitor{&http.Client{Jar: jar, Transport: transport}, t, h}
}

// admitted is somebody who has signed in with an OpenID provider, and may read.
func admitted(t *testing.T, h *harness) (*identityProvider, *visitor) {
	t.Helper()
	p := introduce(t, h)
	p.trust(reader)
	v := newVisitor(t, h)
	v.signIn(p, v.begin("/ui/"))
	return p, v
}

// fetch asks for something of the page, as the page does.
func (v *visitor) fetch(method, path string) (status int, text string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.h.url+path, nil)
	ok(v.t, err)
	r.Header.Set("X-Mneme-UI", "1")
	return v.send(r)
}

func (v *visitor) send(r *http.Request) (status int, text string) {
	v.t.Helper()
	response, err := v.Do(r)
	ok(v.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ok(v.t, err)
	return response.StatusCode, string(body)
}

// begin goes to the provider and gives the id of its request.
func (v *visitor) begin(place string) (id string) {
	v.t.Helper()
	status, form := v.fetch("GET", "/ui/oidc/start?to="+url.QueryEscape(place))
	found := regexp.MustCompile(`name="id" value="([^"]+)"`).FindStringSubmatch(form)
	if status != http.StatusOK || found == nil {
		v.t.Fatalf("the provider asks nobody: %d %s", status, form)
	}
	return found[1]
}

// signIn gives the password to the provider, follows it back, and gives where that ends.
func (v *visitor) signIn(p *identityProvider, id string) *url.URL {
	v.t.Helper()
	response, err := v.PostForm(p.url+"/login/username", url.Values{"id": {id}, "username": {person}, "password": {password}})
	ok(v.t, err)
	defer response.Body.Close()
	return response.Request.URL
}

// refusal is the sentence that the page shows after a sign-in that failed.
func (v *visitor) refusal(at *url.URL) string {
	v.t.Helper()
	code, refused := strings.CutPrefix(at.Fragment, "problem=")
	if !refused {
		v.t.Fatalf("nobody is refused: %s", at)
	}
	_, text := v.fetch("GET", "/ui/oidc?problem="+code)
	if status, _ := v.fetch("GET", "/ui/session"); status != http.StatusUnauthorized {
		v.t.Errorf("who was refused is signed in: %d", status)
	}
	return text
}

func TestAPersonSignsInWithAnOpenIDProvider(t *testing.T) {
	h := windowed(t)
	p := introduce(t, h)
	p.trust(openid.Grant{Claim: "groups", Value: "other", Account: "acme", Scopes: store.AllScopes}, reader)
	v := newVisitor(t, h)
	if _, text := v.fetch("GET", "/ui/oidc"); !strings.Contains(text, strings.TrimPrefix(p.url, "http://")) {
		t.Errorf("the page is not told of the provider: %s", text)
	}
	if at := v.signIn(p, v.begin("/ui/usage?since=7d")); at.String() != h.url+"/ui/usage?since=7d" {
		t.Errorf("the sign-in ends at %s", at)
	}
	status, text := v.fetch("GET", "/ui/session")
	if status != http.StatusOK || !strings.Contains(text, `"account":"acme"`) || !strings.Contains(text, `"scopes":["read"]`) {
		t.Errorf("signed in is %d %s", status, text)
	}
	if status, text := v.fetch("GET", "/ui/v1/memory/sessions"); status != http.StatusOK {
		t.Errorf("reading: %d %s", status, text)
	}
	if status, text := v.fetch("DELETE", "/ui/v1/memory/exchanges/exch_00000000000000000000000000"); status != http.StatusForbidden {
		t.Errorf("erasing: %d %s", status, text)
	}
	keys := h.labeled(email + " in a browser")
	if len(keys) != 1 || keys[0].Expires.IsZero() {
		t.Fatalf("the browser has the keys %+v", keys)
	}
	if status, _ := v.fetch("DELETE", "/ui/session"); status != http.StatusNoContent {
		t.Errorf("signing out: %d", status)
	}
	if status, _ := v.fetch("GET", "/ui/session"); status != http.StatusUnauthorized || len(h.labeled(email+" in a browser")) != 0 {
		t.Errorf("after it: %d, with %d keys", status, len(h.labeled(email+" in a browser")))
	}
}

func TestASignInEndsWithItsGrant(t *testing.T) {
	h := windowed(t)
	p, v := admitted(t, h)
	p.trust(openid.Grant{Claim: "sub", Value: "id2", Account: "acme", Scopes: store.AllScopes}, reader)
	if status, text := v.fetch("GET", "/ui/session"); status != http.StatusOK {
		t.Errorf("another grant ends it: %d %s", status, text)
	}
	for name, grants := range map[string][]openid.Grant{
		"taken out": {{Claim: "email", Value: "another@zitadel.ch", Account: "acme", Scopes: store.ScopeRead}},
		"changed":   {{Claim: "email", Value: email, Account: "acme", Scopes: store.ScopeWrite}},
	} {
		p.trust(grants...)
		if status, text := v.fetch("GET", "/ui/v1/memory/sessions"); status != http.StatusUnauthorized {
			t.Errorf("with the grant %s: %d %s", name, status, text)
		}
	}
	h.proxy.UseOpenID(openid.Options{})
	if status, text := v.fetch("GET", "/ui/session"); status != http.StatusUnauthorized {
		t.Errorf("without a provider: %d %s", status, text)
	}
}

func TestTheFirstMatchingGrantAppliesWhereverItsClaimIs(t *testing.T) {
	h := windowed(t)
	p := introduce(t, h)
	// The subject is in the ID token, the address only in the userinfo.
	p.trust(reader, openid.Grant{Claim: "sub", Value: "id1", Account: "acme", Scopes: store.AllScopes})
	v := newVisitor(t, h)
	v.signIn(p, v.begin("/ui/"))
	if status, text := v.fetch("GET", "/ui/session"); status != http.StatusOK || !strings.Contains(text, `"scopes":["read"]`) {
		t.Errorf("signed in is %d %s", status, text)
	}
}

func TestACodeAllowsMoreThanAGrant(t *testing.T) {
	h := windowed(t)
	_, v := admitted(t, h)
	code, err := h.proxy.Invite("acme", false)
	ok(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/ui/session", strings.NewReader(`{"code":"`+code+`"}`))
	ok(t, err)
	r.Header.Set("X-Mneme-UI", "1")
	if status, text := v.send(r); status != http.StatusOK || !strings.Contains(text, `"admin"`) {
		t.Errorf("with a code: %d %s", status, text)
	}
}

func TestSigningOutRevokesTheKeyOfARemovedGrant(t *testing.T) {
	h := windowed(t)
	_, v := admitted(t, h)
	h.proxy.UseOpenID(openid.Options{})
	if status, _ := v.fetch("DELETE", "/ui/session"); status != http.StatusNoContent {
		t.Errorf("signing out: %d", status)
	}
	if keys := h.labeled(email + " in a browser"); len(keys) != 0 {
		t.Errorf("it leaves the keys %+v", keys)
	}
}

func TestAnInvalidSignInIsRefusedWithAReason(t *testing.T) {
	h := windowed(t)
	p := introduce(t, h)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for _, story := range []struct {
		name, sentence string
		tell           func(v *visitor) *url.URL
	}{
		{"nothing is open to the person", "knows you as " + email, func(v *visitor) *url.URL {
			p.trust(openid.Grant{Claim: "email", Value: "another@zitadel.ch", Account: "acme", Scopes: store.ScopeRead})
			return v.signIn(p, v.begin("/ui/"))
		}},
		{"the account does not exist", "Account nowhere cannot be opened", func(v *visitor) *url.URL {
			p.trust(openid.Grant{Claim: "email", Value: email, Account: "nowhere", Scopes: store.ScopeRead})
			return v.signIn(p, v.begin("/ui/"))
		}},
		{"another browser started it", "started in another browser", func(v *visitor) *url.URL {
			p.trust(reader)
			id := newVisitor(t, h).begin("/ui/")
			return v.signIn(p, id)
		}},
		{"a token from another sign-in", "cannot be trusted", func(v *visitor) *url.URL {
			p.trust(reader)
			id := v.begin("/ui/")
			replayed, err := p.storage.AuthRequestByID(t.Context(), id)
			ok(t, err)
			replayed.(*storage.AuthRequest).Nonce = "of another sign-in"
			return v.signIn(p, id)
		}},
		{"another verifier", "does not confirm", func(v *visitor) *url.URL {
			p.trust(reader)
			id := v.begin("/ui/")
			stolen, err := p.storage.AuthRequestByID(t.Context(), id)
			ok(t, err)
			stolen.(*storage.AuthRequest).CodeChallenge.Challenge = fmt.Sprintf("%x", sha256.Sum256([]byte("another")))
			return v.signIn(p, id)
		}},
		{"the provider refuses", "did not sign you in", func(v *visitor) *url.URL {
			p.trust(reader)
			id := v.begin("/ui/")
			request, err := p.storage.AuthRequestByID(t.Context(), id)
			ok(t, err)
			response, err := v.Get(h.url + openid.CallbackPath + "?error=access_denied&state=" + request.GetState())
			ok(t, err)
			defer response.Body.Close()
			return response.Request.URL
		}},
		{"the provider is away", "does not answer as it should", func(v *visitor) *url.URL {
			options := p.options(reader)
			options.Issuer = away.URL
			h.proxy.UseOpenID(options)
			response, err := v.Get(h.url + "/ui/oidc/start?to=/ui/live")
			ok(t, err)
			defer response.Body.Close()
			return response.Request.URL
		}},
	} {
		v := newVisitor(t, h)
		if sentence := v.refusal(story.tell(v)); !strings.Contains(sentence, story.sentence) {
			t.Errorf("%s: the page says %s", story.name, sentence)
		}
	}
	if keys := h.labeled(email + " in a browser"); len(keys) > 0 {
		t.Errorf("refusals left keys: %+v", keys)
	}
}

func TestASignInReturnsOnlyToThePage(t *testing.T) {
	h := windowed(t)
	p := introduce(t, h)
	p.trust(reader)
	for _, to := range []string{"https://evil.example/ui/", "//evil.example/ui/", "/v1/memory/sessions", "/ui/oidc/start", `/\evil.example/ui/`, "%"} {
		if at := newVisitor(t, h).signIn(p, newVisitor(t, h).begin(to)); !strings.HasPrefix(at.String(), h.url+"/ui/#problem=") { // started in another browser
			t.Errorf("%q ends at %s", to, at)
		}
		v := newVisitor(t, h)
		if at := v.signIn(p, v.begin(to)); at.String() != h.url+"/ui/" {
			t.Errorf("%q ends at %s", to, at)
		}
	}
	response, _ := h.window("GET", "/ui/oidc/start", "", "Sec-Fetch-Site", "cross-site")
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("a link elsewhere begins a sign-in: %d", response.StatusCode)
	}
}

func TestABrowserSignsInWithAnOpenIDProviderAndKeepsItsPlace(t *testing.T) {
	b := startBrowser(t)
	b.story("at the provider and back", func(t *testing.T) {
		h := windowed(t)
		p := introduce(t, h)
		p.trust(reader)
		b.elsewhere = p.url
		b.open(h, "/ui/usage?since=7d")
		b.press("Sign in with " + strings.TrimPrefix(p.url, "http://"))
		b.shows("Username:")
		b.write("username", person)
		b.write("password", password)
		b.press("Login")
		b.shows("Nothing was used")
		if at := evaluate[string](b, `location.pathname + location.search`); at != "/ui/usage?since=7d" {
			t.Errorf("the page is at %s", at)
		}
		p.trust(openid.Grant{Claim: "groups", Value: "staff", Account: "acme", Scopes: store.ScopeRead})
		b.open(h, "/ui/usage?since=7d")
		b.press("Sign in with " + strings.TrimPrefix(p.url, "http://"))
		b.shows("Username:")
		b.write("username", person)
		b.write("password", password)
		b.press("Login")
		b.shows("knows you as " + email)
	})
}
