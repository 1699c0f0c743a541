package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
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
)

// browser is a real one that looks at the page.
type browser struct {
	t    *testing.T
	ctx  context.Context
	axe  string   // the program that looks for what keeps people out
	home string   // where the page is now
	left []string // where it was; what it asked there may be told of late

	mu      sync.Mutex
	faults  []string
	hosts   []string
	forgive []string // of what the browser complains of

	elsewhere string // where a story leads besides the page
	lastEvent bool   // the tail has said which event it had last
}

// startBrowser skips the test where no Chromium is installed.
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
	b := &browser{t: t, axe: readAxe(t)}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(program))
	limit, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(stop)
	allocator, free := chromedp.NewExecAllocator(limit, options...)
	t.Cleanup(free)
	b.ctx = b.newTab(allocator)
	return b
}

// newTab opens a tab, which is closed at the end of the test or the story.
func (b *browser) newTab(in context.Context) context.Context {
	b.t.Helper()
	ctx, closed := chromedp.NewContext(in, chromedp.WithListener(b.note))
	b.t.Cleanup(closed)
	ok(b.t, chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
		return err
	})))
	return ctx
}

// in does something in another tab.
func (b *browser) in(tab context.Context, act func()) {
	first := b.ctx
	defer func() { b.ctx = first }()
	b.ctx = tab
	act()
}

// readAxe unpacks axe-core, which is as its makers published it but for gzip.
func readAxe(t *testing.T) string {
	t.Helper()
	const published = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
	packed, err := os.Open("testdata/axe-core-4.14.1/axe.min.js.gz")
	ok(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	ok(t, err)
	var program bytes.Buffer
	_, err = io.Copy(&program, unpacked)
	ok(t, err)
	if sum := sha256.Sum256(program.Bytes()); hex.EncodeToString(sum[:]) != published {
		t.Fatalf("axe-core has the hash %x", sum)
	}
	return program.String()
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
		if strings.Contains(e.Entry.Text, "status of 40") { // a 401 before the sign-in, a 404 of another account's link
			return
		}
		for _, expected := range b.forgive {
			if strings.Contains(e.Entry.Text, expected) {
				return
			}
		}
		b.faults = append(b.faults, e.Entry.Text+" "+e.Entry.URL)
	case *network.EventRequestWillBeSentExtraInfo:
		for name := range e.Headers {
			b.lastEvent = b.lastEvent || strings.EqualFold(name, "Last-Event-ID")
		}
	case *network.EventRequestWillBeSent:
		b.lastEvent = b.lastEvent || strings.Contains(e.Request.URL, "/events?after=")
		b.hosts = append(b.hosts, e.Request.URL)
	}
}

// resumed reports whether the page's tail went on after the last event that it had.
func (b *browser) resumed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lastEvent
}

// clean holds a story to what the browser saw of it: no complaint, and no other host.
func (b *browser) clean(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) > 0 {
		t.Errorf("the browser complains: %q", b.faults)
	}
	for _, url := range b.hosts {
		own := slices.ContainsFunc(append(b.left, b.home), func(home string) bool {
			return strings.HasPrefix(url, home+"/ui") || strings.HasPrefix(url, home+"/v1") || url == home+"/favicon.ico" || strings.HasPrefix(url, "blob:"+home)
		})
		there := b.elsewhere != "" && strings.HasPrefix(url, b.elsewhere)
		if !own && !there && url != "about:blank" {
			t.Errorf("the page asked %s", url)
		}
	}
	b.faults, b.hosts, b.forgive, b.elsewhere, b.lastEvent = nil, nil, nil, "", false
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ok(b.t, chromedp.Do(b.ctx, steps...))
}

// story tells one, and holds it to what the browser saw.
func (b *browser) story(name string, tell func(t *testing.T)) {
	outer := b.t
	outer.Run(name, func(t *testing.T) {
		b.t = t
		defer func() {
			b.clean(t)
			b.t = outer
		}()
		tell(t)
	})
}

// open goes to an address of a harness.
func (b *browser) open(h *harness, path string) {
	b.t.Helper()
	b.openAt(h.url, path)
}

// openAt goes to an address of a server. The page is left, with its connections, before the server closes.
func (b *browser) openAt(home, path string) {
	b.t.Helper()
	if b.home != home {
		if b.home != "" {
			b.left = append(b.left, b.home)
		}
		b.home = home
		b.t.Cleanup(func() { _ = chromedp.Do(b.ctx, chromedp.Navigate("about:blank")) })
	}
	b.do(chromedp.Navigate(home + path))
}

// evaluate runs a script in the page, and waits for it.
func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	ok(b.t, err)
	return v
}

// visit goes to a view of the page, as its own links do.
func (b *browser) visit(path string) {
	b.t.Helper()
	evaluate[bool](b, fmt.Sprintf(`history.pushState(null, '', %q), dispatchEvent(new PopStateEvent('popstate'))`, path))
}

// shows waits until the page has the text.
func (b *browser) shows(text string) {
	b.t.Helper()
	b.finds(fmt.Sprintf(`document.body.innerText.includes(%q)`, text), text)
}

// hides waits until the page does not have it.
func (b *browser) hides(text string) {
	b.t.Helper()
	b.finds(fmt.Sprintf(`!document.body.innerText.includes(%q)`, text), "no "+text)
}

// finds waits until a condition holds in the page.
func (b *browser) finds(condition, what string) {
	b.t.Helper()
	eventually(b.t, func() error {
		there, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](condition))
		if err == nil && !there {
			seen, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.pathname + location.search + ' ' + document.body.innerText.slice(0, 600)`))
			err = fmt.Errorf("the page does not show %s, but\n%s", what, seen)
		}
		return err
	})
}

// press clicks the button, link or heading of a detail that has the label.
func (b *browser) press(label string) {
	b.t.Helper()
	b.finds(fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll('dialog[open] button, button, a, summary')].filter((e) => e.innerText.trim() === %q);
		const one = all.find((e) => e.closest('dialog')) || all[0];
		if (one) one.click();
		return Boolean(one);
	})()`, label), "something to press: "+label)
}

// write types into the field of a name.
func (b *browser) write(name, text string) {
	b.t.Helper()
	b.finds(fmt.Sprintf(`(() => {
		const field = [...document.querySelectorAll('[name=%[1]s], #%[1]s')].pop();
		if (!field) return false;
		field.value = %[2]q;
		field.dispatchEvent(new Event('input', {bubbles: true}));
		return true;
	})()`, name, text), "a field "+name)
}

// signIn gives a key on the page that asks for one.
func (b *browser) signIn(key string) {
	b.t.Helper()
	b.shows("Service key")
	b.write("key", key)
	b.press("Sign in")
}

// dark sets what the system prefers.
func (b *browser) dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// barriers are what axe-core finds serious or critical about the page as it is.
func (b *browser) barriers() []string {
	b.t.Helper()
	if !evaluate[bool](b, `typeof axe === 'object'`) {
		evaluate[bool](b, b.axe+`;typeof axe === 'object'`)
	}
	found := evaluate[string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations
		.filter((v) => v.impact === 'serious' || v.impact === 'critical')
		.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.html.slice(0, 200) + ' ' + (n.any[0] || n.all[0] || n.none[0] || {}).message))))`)
	var barriers []string
	ok(b.t, json.Unmarshal([]byte(found), &barriers))
	return barriers
}
