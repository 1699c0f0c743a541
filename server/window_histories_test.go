package server_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// usedBefore is a harness on the machine of somebody who has used agents before.
func usedBefore(t *testing.T, changes ...func(*plan)) *harness {
	t.Helper()
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	t.Setenv("CODEX_HOME", "")
	home := t.TempDir()
	ok(t, os.CopyFS(filepath.Join(home, ".claude", "projects"), os.DirFS("history/testdata/claude-code")))
	ok(t, os.CopyFS(filepath.Join(home, ".codex", "sessions"), os.DirFS("history/testdata/codex")))
	keepOpencode(t, home)
	return windowed(t, append(changes, func(p *plan) { p.server.Home = home })...)
}

// keepOpencode puts an opencode into PATH that gives out one session, and makes a database for it.
func keepOpencode(t *testing.T, home string) {
	t.Helper()
	t.Setenv("XDG_DATA_HOME", "")
	kept := filepath.Join(home, ".local", "share", "opencode")
	ok(t, os.MkdirAll(kept, 0o700))
	ok(t, os.WriteFile(filepath.Join(kept, "opencode.db"), []byte("rows"), 0o600))
	session, err := filepath.Abs("history/testdata/opencode/ses_made1.json")
	ok(t, err)
	programs := t.TempDir()
	script := "#!/bin/sh\nif [ $1 = db ]; then echo '[{\"id\":\"ses_made1\"}]'; else cat '" + session + "'; fi\n"
	ok(t, os.WriteFile(filepath.Join(programs, "opencode"), []byte(script), 0o700))
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
}

const everything = `{"client":"claude-code"}`

func TestHistoriesAreImportedFromTheWindowOnce(t *testing.T) {
	h := usedBefore(t)
	cookie := h.enter("")
	ask := func(method, body string) (*http.Response, string) {
		return h.window(method, "/ui/v1/histories", body, "X-Mneme-UI", "1", "Cookie", cookie)
	}
	if response, text := ask("GET", ""); response.StatusCode != http.StatusOK || !strings.Contains(text, `"client":"claude-code","files":2,`) || !strings.Contains(text, `"client":"codex","files":1,`) || !strings.Contains(text, `"client":"opencode","files":1,"bytes":4}`) {
		t.Errorf("what is there: %d %s", response.StatusCode, text)
	}
	if _, text := ask("POST", `{"client":"claude-code","dry_run":true}`); !strings.Contains(text, `"project":"/home/ann/shop"`) || strings.Contains(text, "imported") {
		t.Errorf("a look: %s", text)
	}
	if page, err := h.store.Archive().Sessions("acme", record.SessionQuery{}); err != nil || len(page.Data) != 0 {
		t.Errorf("a look imports %d sessions (%v)", len(page.Data), err)
	}
	_, first := ask("POST", everything)
	if !strings.Contains(first, `"imported":{"object":"memory.import","sessions":2,`) || !strings.Contains(first, `"skipped":0,`) {
		t.Errorf("an import: %s", first)
	}
	if _, again := ask("POST", everything); !strings.Contains(again, `"sessions":0,"exchanges":0,`) {
		t.Errorf("an import of the same: %s", again)
	}
	page, err := h.store.AuditLog().Audit(store.AuditQuery{Account: "acme"})
	ok(t, err)
	if entry := page.Data[0]; entry.Action != "history.import" || entry.Subject != "claude-code" || !strings.HasPrefix(entry.Actor, "key_") {
		t.Errorf("the audit record ends with %+v", entry)
	}
	for client, sentence := range map[string]string{"chatgpt": "use mneme import", "../../etc": "use mneme import", "": "use mneme import"} {
		if response, text := ask("POST", `{"client":"`+client+`"}`); response.StatusCode != http.StatusBadRequest || !strings.Contains(text, sentence) {
			t.Errorf("the history of %q: %d %s", client, response.StatusCode, text)
		}
	}
}

func TestAFinishedImportBlocksNoOther(t *testing.T) {
	h := usedBefore(t)
	cookie := h.enter("")
	for n := range 50 { // the lock was still held in one of a hundred
		r := h.request(context.Background(), "POST", "/ui/v1/histories", everything, "X-Mneme-UI", "1", "Cookie", cookie)
		r.Header.Del("Authorization")
		response, err := h.client.Do(r)
		ok(t, err)
		lines := bufio.NewScanner(response.Body)
		done := false
		for !done && lines.Scan() {
			done = strings.Contains(lines.Text(), `"imported"`)
		}
		ok(t, errors.Join(lines.Err(), response.Body.Close()))
		if !done {
			t.Fatalf("import %d: %d %s", n+1, response.StatusCode, lines.Text())
		}
	}
}

func TestTheWindowRunsOpencodeForItsHistory(t *testing.T) {
	h := usedBefore(t)
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	cookie := h.enter("")
	ask := func() string {
		_, text := h.window("POST", "/ui/v1/histories", `{"client":"opencode"}`, "X-Mneme-UI", "1", "Cookie", cookie)
		return text
	}
	if text := ask(); !strings.Contains(text, `"imported":{"object":"memory.import","sessions":1,"exchanges":2,`) {
		t.Errorf("an import: %s", text)
	}
	if text := ask(); !strings.Contains(text, `"sessions":0,"exchanges":0,`) {
		t.Errorf("an import of the same: %s", text)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("what it gave out is left: %v %v", left, err)
	}
	t.Setenv("PATH", temp)
	if text := ask(); !strings.Contains(text, "opencode is not in PATH") {
		t.Errorf("without opencode: %s", text)
	}
}

func TestOnlyTheOperatorCanImportHistories(t *testing.T) {
	h := usedBefore(t)
	refused := func(who, cookie string) {
		t.Helper()
		for _, method := range []string{"GET", "POST"} {
			response, text := h.window(method, "/ui/v1/histories", everything, "X-Mneme-UI", "1", "Cookie", cookie)
			if response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized || strings.Contains(text, "files") {
				t.Errorf("%s: %s answers %d %s", who, method, response.StatusCode, text)
			}
		}
		if _, text := h.window("GET", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie); strings.Contains(text, "histories") {
			t.Errorf("%s is offered them: %s", who, text)
		}
	}
	refused("nobody", "")
	refused("somebody with a key", h.signIn(h.createKey("acme", store.AllScopes)))
	cookie := h.enter("")
	if response, text := h.window("POST", "/ui/v1/histories", everything, "Cookie", cookie); response.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another page: %d %s", response.StatusCode, text)
	}

	p := introduce(t, h)
	p.trust(openid.Grant{Claim: "email", Value: email, Account: "acme", Scopes: store.AllScopes})
	v := newVisitor(t, h)
	v.signIn(p, v.begin("/ui/"))
	if status, text := v.fetch("GET", "/ui/v1/histories"); status != http.StatusForbidden {
		t.Errorf("somebody whom an OpenID provider knows: %d %s", status, text)
	}
	if page, err := h.store.Archive().Sessions("acme", record.SessionQuery{}); err != nil || len(page.Data) != 0 {
		t.Errorf("%d sessions were imported (%v)", len(page.Data), err)
	}
	home := windowed(t) // a service without a home
	if response, text := home.window("GET", "/ui/v1/histories", "", "X-Mneme-UI", "1", "Cookie", home.enter("")); response.StatusCode != http.StatusForbidden {
		t.Errorf("without a home: %d %s", response.StatusCode, text)
	}
}

func TestHistoriesAreNotReachableOverANetwork(t *testing.T) {
	network := overTLS(t)
	h := usedBefore(t, network, func(p *plan) { p.server.Listen = []string{"tls:0.0.0.0:0"} })
	cookie := h.enter("")
	for _, method := range []string{"GET", "POST"} {
		if response, text := h.window(method, "/ui/v1/histories", everything, "X-Mneme-UI", "1", "Cookie", cookie); response.StatusCode != http.StatusForbidden || strings.Contains(text, "files") {
			t.Errorf("%s: %d %s", method, response.StatusCode, text)
		}
	}
	if _, text := h.window("GET", "/ui/session", "", "X-Mneme-UI", "1", "Cookie", cookie); !strings.Contains(text, `"admin"`) || strings.Contains(text, "histories") {
		t.Errorf("they are offered: %s", text)
	}
	if page, err := h.store.Archive().Sessions("acme", record.SessionQuery{}); err != nil || len(page.Data) != 0 {
		t.Errorf("%d sessions were imported (%v)", len(page.Data), err)
	}
}

func TestABrowserImportsHistories(t *testing.T) {
	b := startBrowser(t)
	b.story("from the first start", func(t *testing.T) {
		h := usedBefore(t)
		b.open(h, h.invite())
		b.press("Import what agents have kept here")
		b.shows("2 files")
		for _, found := range []string{"Import 3 exchanges", "Import 2 exchanges"} { // of Claude Code, and of Codex
			b.press("See what is there")
			b.shows(found)
		}
		b.fits("/ui/import")
		b.press("Import 3 exchanges")
		b.shows("Imported 3 exchanges in 2 sessions.")
		b.press("Import 2 exchanges")
		b.shows("Imported 2 exchanges in 1 session.")
		b.fits("/ui/import")
		b.press("See them")
		b.finds(`document.querySelectorAll('.sessions .row').length === 3`, "what was imported")
	})
}
