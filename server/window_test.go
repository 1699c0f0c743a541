package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/mnemeproxy/mneme/store"
)

// window asks for a path of the page as a browser would.
func (h *house) window(method, path, body string, headers ...string) (*http.Response, string) {
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

// signIn gives the cookie of a key.
func (h *house) signIn(key string) string {
	h.t.Helper()
	response, text := h.window("POST", "/ui/session", `{"key":"`+key+`"}`, "X-Mneme-UI", "1")
	cookie := response.Header.Get("Set-Cookie")
	if response.StatusCode != http.StatusOK || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || !strings.Contains(cookie, "Path=/ui") || strings.Contains(cookie+text, key) {
		h.t.Fatalf("signing in: %d %s %s", response.StatusCode, text, cookie)
	}
	value, _, _ := strings.Cut(cookie, ";")
	return value
}

func TestACookieOfTheWindowIsWorthWhatItsKeyIs(t *testing.T) {
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

func TestAPageOfTheWindowLetsNothingElseIn(t *testing.T) {
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

// browser is a real one that looks at the page.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
	hosts  []string
}

func startBrowser(t *testing.T) *browser {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no Chromium is installed")
	}
	b := &browser{t: t}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(program))
	limit, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(stop)
	allocator, free := chromedp.NewExecAllocator(limit, options...)
	t.Cleanup(free)
	ctx, closed := chromedp.NewContext(allocator, chromedp.WithListener(b.note))
	t.Cleanup(closed)
	b.ctx = ctx
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
		return err
	}))
	return b
}

// note takes in what the browser complains of, and whom it asks.
func (b *browser) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.faults = append(b.faults, fmt.Sprintf("console.%s", e.Type))
	case *runtime.EventExceptionThrown:
		b.faults = append(b.faults, "exception "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if !strings.Contains(e.Entry.Text, "status of 40") { // a 401 before the sign-in, a 404 of another account's link
			b.faults = append(b.faults, e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		b.hosts = append(b.hosts, e.Request.URL)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ok(b.t, chromedp.Do(b.ctx, steps...))
}

// visit goes to a view of the page, as its own links do.
func (b *browser) visit(path string) {
	b.t.Helper()
	script := fmt.Sprintf(`history.pushState(null, '', %q), dispatchEvent(new PopStateEvent('popstate'))`, path)
	_, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script))
	ok(b.t, err)
}

// shows waits until the page has the text.
func (b *browser) shows(text string) {
	b.t.Helper()
	script := fmt.Sprintf(`document.body.innerText.includes(%q)`, text)
	eventually(b.t, func() error {
		there, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script))
		if err == nil && !there {
			err = fmt.Errorf("the page does not show %q", text)
		}
		return err
	})
}

func TestABrowserShowsWhatIsRemembered(t *testing.T) {
	h := remembering(t)
	b := startBrowser(t) // and so ended before the server
	said := h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Why does the retry fail?", "It holds the **lock**. <script>window.broken=1</script>")), "X-Service-Chat-Key", "k")
	session := said.header.Get("X-Service-Session-ID")
	h.turns(session)
	theirs, _, err := h.store.Keys().Create("acme", store.AllScopes, "whole")
	ok(t, err)
	writer, _, err := h.store.Keys().Create("acme", store.ScopeWrite, "writer")
	ok(t, err)
	origin := "http://" + h.proxy.Addr().String()

	signIn := func(key string) {
		b.do(chromedp.Navigate(origin + "/ui/"))
		b.shows("Service key")
		b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(() => { const f = document.querySelector('#key'); f.value = %q; f.form.requestSubmit(); return true; })()`, key)))
			return err
		}))
	}
	signIn(writer)
	b.shows("This needs a key of scope read") // a key without the scope sees a sentence
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`fetch('/ui/session', {method: 'DELETE', headers: {'X-Mneme-UI': '1'}}).then(() => true)`, chromedp.EvalAwaitPromise))
		return err
	}))
	signIn(theirs)
	b.shows("Why does the retry fail?")
	for _, view := range []struct{ path, text string }{
		{"/ui/sessions/" + session, "It holds the lock"},
		{"/ui/sessions/" + session + "?tab=context", "What fills this request"},
		{"/ui/sessions/" + session + "?tab=raw", "characters"},
		{"/ui/sessions/" + session + "?tab=attempts", "tokens a second"},
		{"/ui/sessions/sess_00000000000000000000000000", "Not found"},
		{"/ui/usage", "caches saved"},
		{"/ui/live", "Live"},
		{"/ui/search?q=retry", "Search"},
		{"/ui/keys", "Keys of acme"},
		{"/ui/health", "Providers"},
	} {
		b.visit(view.path)
		b.shows(view.text)
		for _, width := range []int64{390, 1440} {
			b.do(chromedp.EmulateViewport(width, 900))
			wide, err := chromedp.Run(b.ctx, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			if ok(t, err); wide > width {
				t.Errorf("%s is %d wide on a screen of %d", view.path, wide, width)
			}
		}
	}
	broken, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`window.broken === 1`))
	if ok(t, err); broken {
		t.Error("what a model said was run")
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
		return err
	}))
	if dark, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`getComputedStyle(document.body).backgroundColor`)); err != nil || dark == "rgb(255, 255, 255)" {
		t.Errorf("in the dark the page is %s (%v)", dark, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) > 0 {
		t.Errorf("the browser complains: %q", b.faults)
	}
	if i := slices.IndexFunc(b.hosts, func(url string) bool { return !strings.HasPrefix(url, origin+"/ui") && url != origin+"/favicon.ico" }); i >= 0 {
		t.Errorf("the page asked %s", b.hosts[i])
	}
}
