package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	device "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/mnemeproxy/mneme/store"
)

// withAgent is a harness on a machine where a program is installed that says a version, and nothing else.
func withAgent(t *testing.T, program, version string) (h *harness, home string) {
	t.Helper()
	for _, variable := range []string{"CLAUDE_CONFIG_DIR", "CODEX_HOME"} {
		t.Setenv(variable, "")
	}
	programs := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(programs, program), []byte("#!/bin/sh\necho '"+version+"'\n"), 0o700))
	t.Setenv("PATH", programs+string(os.PathListSeparator)+"/bin"+string(os.PathListSeparator)+"/usr/bin")
	home = t.TempDir()
	return windowed(t, func(p *plan) { p.server.Home = home }), home
}

// allows lets the page write to the clipboard, and puts its downloads into a directory.
func (b *browser) allows(downloads string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for _, name := range []string{"clipboard-read", "clipboard-write"} {
			set := device.SetPermissionParams{Permission: &device.PermissionDescriptor{Name: name}, Setting: device.PermissionSettingGranted}
			if _, err := chromedp.Call(ctx, device.SetPermission, set); err != nil {
				return err
			}
		}
		_, err := chromedp.Call(ctx, device.SetDownloadBehavior, device.SetDownloadBehaviorParams{Behavior: device.SetDownloadBehaviorBehaviorAllow, DownloadPath: downloads})
		return err
	}))
}

// types presses a button with the keyboard, as browsers require of what writes to the clipboard.
func (b *browser) types(label string) {
	b.t.Helper()
	b.finds(fmt.Sprintf(`(() => {
		const one = [...document.querySelectorAll('dialog[open] button, button')].find((e) => e.innerText === %q);
		if (one) one.focus();
		return document.activeElement === one;
	})()`, label), "a button "+label)
	b.do(chromedp.KeyEvent(kb.Enter))
}

// downloaded waits for the only file in a directory.
func downloaded(t *testing.T, dir string) (path string) {
	t.Helper()
	eventually(t, func() error {
		found, _ := filepath.Glob(filepath.Join(dir, "*.html")) // fails only for a bad pattern
		if len(found) != 1 {
			return fmt.Errorf("%d files are downloaded", len(found))
		}
		path = found[0]
		return nil
	})
	return path
}

func TestABrowserTakesASessionElsewhere(t *testing.T) {
	b := startBrowser(t)
	b.story("a button writes it into another agent's history, with the keyboard alone", func(t *testing.T) {
		h, home := withAgent(t, "codex", "codex-cli 0.171.0")
		session := h.working()
		b.allows(t.TempDir())
		b.open(h, h.invite())
		b.shows("Mend the lock.")
		b.visit("/ui/sessions/" + session)
		b.types("hand over…")
		b.shows("Go on with another agent")
		b.fits("a handoff that is chosen")
		b.do(chromedp.EmulateViewport(1024, 900))
		b.finds(`(() => { document.querySelector('dialog [type=radio]:checked').focus(); return true; })()`, "the choice of agents")
		if first := evaluate[string](b, `document.activeElement.value`); first != "claude-code" {
			t.Errorf("%s is chosen first", first)
		}
		b.do(chromedp.KeyEvent(kb.ArrowDown + kb.Enter))
		b.shows("It is in the history of Codex.")
		b.shows("codex resume ")
		b.fits("a handoff that is done")
		b.do(chromedp.KeyEvent(kb.Escape))
		b.hides("Go on with another agent")
		b.finds(`document.activeElement.innerText === 'hand over…'`, "the button again, with the keyboard's focus")

		files, err := filepath.Glob(filepath.Join(home, ".codex", "sessions", "*", "*", "*", "*.jsonl"))
		if len(files) != 1 {
			t.Fatalf("Codex has %q (%v)", files, err)
		}
		text, err := os.ReadFile(files[0])
		ok(t, err)
		for _, want := range []string{"Mend the lock.", "go test ./lock", "lock.go:7 is unused", "The lock is mended."} {
			if !strings.Contains(string(text), want) {
				t.Errorf("Codex does not get %q", want)
			}
		}
		audit, err := h.store.AuditLog().Audit(store.AuditQuery{Account: "acme"})
		ok(t, err)
		if e := audit.Data[0]; e.Action != "session.handoff" || e.Subject != session {
			t.Errorf("the audit record ends with %+v", e)
		}
	})
	b.story("an agent that is missing or unknown gets nothing, and a first message goes to any", func(t *testing.T) {
		h, home := withAgent(t, "claude", "3.0.0 (Claude Code)")
		session := h.working()
		b.allows(t.TempDir())
		b.open(h, h.invite())
		b.shows("Mend the lock.")
		b.visit("/ui/sessions/" + session)
		b.press("hand over…")
		b.press("Hand over")
		b.shows("Claude has version 3.0.0, whose history is not known (known is 2.x); nothing was written.")
		b.finds(`!document.querySelector('dialog [value=opencode]').click()`, "opencode")
		b.hides("Claude has version")
		b.press("Hand over")
		b.shows("Opencode is not in PATH, so its version is unknown; nothing was written.")
		b.fits("a handoff that is refused")
		b.types("Copy a first message")
		b.finds(`[...document.querySelectorAll('dialog button')].some((e) => e.innerText === 'copied')`, "a copied message")
		message := evaluate[string](b, `navigator.clipboard.readText()`)
		for _, want := range []string{"Goal: Mend the lock.", "Done: The lock is mended.", "- Remove line 7", "- /src/lock.go", "lock.go:7 is unused"} {
			if !strings.Contains(message, want) {
				t.Errorf("the message has no %q:\n%s", want, message)
			}
		}
		entries, err := os.ReadDir(home)
		if len(entries) > 0 || err != nil {
			t.Errorf("%v was written (%v)", entries, err)
		}
	})
	b.story("a reader elsewhere gets the command", func(t *testing.T) {
		h := windowed(t)
		session := h.working()
		b.open(h, "/ui/")
		b.signIn(h.createKey("acme", store.ScopeRead))
		b.shows("Mend the lock.")
		b.visit("/ui/sessions/" + session)
		b.press("hand over…")
		b.shows("mneme handoff " + session + " --to claude-code")
		b.finds(`!document.querySelector('dialog [value=codex]').click()`, "Codex")
		b.shows("mneme handoff " + session + " --to codex")
		b.finds(`![...document.querySelectorAll('dialog button')].some((e) => e.innerText === 'Hand over')`, "no button that would be refused")
		b.fits("the command of a handoff")
	})
	b.story("a page to share is one file that loads nothing, runs nothing, and holds no secret", func(t *testing.T) {
		h := windowed(t)
		secret := "sk-ant-api03-" + strings.Repeat("AbCdEfGh12", 9) + "-AbCdEfAA"
		hostile := `</pre><script>document.title='broken'</script><img src='http://198.51.100.1/x.png'>`
		said := h.post(messages.path, messages.said(messages.model, "Be brief.", sim("Mend <b>the lock</b>: "+hostile, "It holds. "+hostile+" Use "+secret+".")), "X-Service-Chat-Key", "shared")
		session := said.header.Get("X-Service-Session-ID")
		h.turns(session)
		dir := t.TempDir()
		b.allows(dir)
		b.open(h, "/ui/")
		b.signIn(h.createKey("acme", store.ScopeRead))
		b.shows("Mend <b>the lock</b>")
		b.visit("/ui/sessions/" + session)
		b.types("share as page")
		path := downloaded(t, dir)
		if name := filepath.Base(path); !strings.HasPrefix(name, "Mend-b-the-lock-b") {
			t.Errorf("it is named %s", name)
		}
		text, err := os.ReadFile(path)
		ok(t, err)
		if strings.Contains(string(text), secret) || !strings.Contains(string(text), "&lt;script&gt;") {
			t.Errorf("the page holds a secret, or not what was said:\n%s", text)
		}
		b.elsewhere = "file://" + path
		b.do(chromedp.Navigate(b.elsewhere))
		b.shows("Mend <b>the lock</b>")
		b.shows("It holds. </pre><script>")
		b.fits("a page to share")
		if title := evaluate[string](b, `document.title`); title == "broken" || evaluate[bool](b, `Boolean(document.querySelector('script, img, link, iframe'))`) {
			t.Errorf("the page %q is more than text", title)
		}
		b.open(h, "/ui/")
	})
	b.story("a session without words says that there is nothing to share", func(t *testing.T) {
		h := windowed(t)
		a := h.post(chat.path, chat.body(`status 400`, false))
		session := a.header.Get("X-Service-Session-ID")
		b.open(h, h.invite())
		b.finds(`Boolean(document.querySelector('.sessions .row'))`, "the session")
		b.visit("/ui/sessions/" + session)
		b.press("share as page")
		b.shows("This session has no words to share.")
	})
}

func TestSessionsAreHandedOverOnlyByTheOperatorOnThisMachine(t *testing.T) {
	h, home := withAgent(t, "codex", "codex-cli 0.171.0")
	session := h.working()
	h.account("globex")
	path := "/ui/v1/sessions/" + session
	ask := func(cookie, method, what string, headers ...string) (*http.Response, string) {
		return h.window(method, path+what, `{"to":"codex"}`, append([]string{"Cookie", cookie}, headers...)...)
	}
	own := []string{"X-Mneme-UI", "1"}
	whole, foreign, writer := h.signIn(h.createKey("acme", store.AllScopes)), h.signIn(h.createKey("globex", store.AllScopes)), h.signIn(h.createKey("acme", store.ScopeWrite))
	for _, c := range []struct {
		who, cookie, method, what string
		status                    int
		headers                   []string
	}{
		{"a key with every scope hands over", whole, "POST", "/handoff", 403, own},
		{"a key with every scope reads the page", whole, "GET", "/page", 200, own},
		{"another site reads the page", whole, "GET", "/page", 403, nil},
		{"a key that may not read asks for the page", writer, "GET", "/page", 403, own},
		{"a key that may not read asks for the message", writer, "GET", "/message", 403, own},
		{"another account reads the page", foreign, "GET", "/page", 404, own},
		{"another account reads the message", foreign, "GET", "/message", 404, own},
		{"the operator's form on another site hands over", h.enter(""), "POST", "/handoff", 403, nil},
		{"a caller without a cookie reads the page", "", "GET", "/page", 401, own},
	} {
		if response, text := ask(c.cookie, c.method, c.what, c.headers...); response.StatusCode != c.status || c.status != http.StatusOK && strings.Contains(text, "lock") {
			t.Errorf("%s: %d %s", c.who, response.StatusCode, text)
		}
	}
	if entries, err := os.ReadDir(home); len(entries) > 0 || err != nil {
		t.Errorf("%v was written (%v)", entries, err)
	}
}
