package server_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Credentials of no shape that anything could know them by.
var inUse = map[string]string{
	"the server's":  "PROVKEY-corp/credential+778899",
	"the account's": "tenant-Gateway_passphrase/4711",
	"the caller's":  "own.credential=of:the-client-42",
}

// quoting is a provider that says its credential wherever a script has the word QUOTED, written in a certain way.
type quoting struct {
	to    string // the simulated provider that plays the script
	write func(credential string) string
	bytes func(answer, credential []byte) []byte // what becomes of the answer; nil: nothing
	said  int                                    // answers that held it
}

func (q *quoting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credential := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if value := r.Header.Get(name); value != "" {
			credential = value
		}
	}
	body, _ := io.ReadAll(r.Body)
	written := q.write(credential)
	inside := quoted(written)
	inside = quoted(inside[1 : len(inside)-1]) // in the script, which is a string in JSON
	body = bytes.ReplaceAll(body, []byte("QUOTED"), []byte(inside[1:len(inside)-1]))
	asked, _ := http.NewRequestWithContext(r.Context(), r.Method, q.to+r.URL.RequestURI(), bytes.NewReader(body))
	asked.Header = r.Header
	answer, err := http.DefaultTransport.RoundTrip(asked)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if q.bytes != nil {
		said = q.bytes(said, []byte(credential))
	}
	q.said++
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	for _, name := range []string{"X-Request-Id", "Request-Id", "Openai-Organization", "Anthropic-Organization-Id", "X-Ratelimit-Limit-Tokens"} {
		w.Header().Set(name, "of "+written)
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(said)
}

// written are the credentials, each in every way that it can be written.
var written = func() (all []string) {
	for _, credential := range inUse {
		encoded := base64.StdEncoding.EncodeToString([]byte(credential))
		all = append(all, credential, url.QueryEscape(credential), url.PathEscape(credential), strings.ReplaceAll(credential, "/", `\/`),
			letters(credential), encoded[:len(encoded)-4])
	}
	return all
}()

// tells reports whether a text holds one of the credentials, however it is written.
func tells(text string) bool {
	return slices.ContainsFunc(written, func(form string) bool { return strings.Contains(text, form) })
}

// letters writes every letter of a text as JSON can escape it.
func letters(text string) string {
	var b strings.Builder
	for _, c := range text {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

// A provider that quotes the credential it was called with, in any place of any answer, tells nobody: not who reads the
// record, the log or the traces, and no client in an error or a header.
func TestACredentialQuotedByAProviderStaysSecret(t *testing.T) {
	if testing.Short() {
		t.Skip("many cases, one after the other")
	}
	inner, err := provider.Start(provider.Options{})
	ok(t, err)
	defer func() { ok(t, inner.Close()) }()
	dir := t.TempDir()
	q := &quoting{to: inner.URL()}
	outer := httptest.NewServer(q)
	defer outer.Close()
	received := overHTTP(t)
	defer received.stop()
	h, flush := traced(t, received, telemetry.TracingOptions{}, func(p *plan) {
		p.store.Dir, p.store.Digest = dir, digest.Exchange
		p.index = &search.Options{Dir: filepath.Join(dir, "index")}
		p.router.Breaker.Failures, p.router.Retries = -1, -1
		for _, name := range []string{"openai", "anthropic", "gemini", "deepseek"} {
			c := router.ProviderConfig{}.WithSimulated(name, outer.URL)
			c.Simulated, c.APIKey = false, inUse["the server's"]
			p.router.Providers[name] = c
		}
	})
	acme := h.createKey("acme", store.AllScopes)
	h.account("tenant")
	tenant := h.createKey("tenant", store.AllScopes)
	for _, name := range []string{"openai", "anthropic", "gemini", "deepseek"} {
		ok(t, h.store.Credentials().Set("tenant", name, inUse["the account's"]))
	}
	callers := map[string][]string{
		"the server's": {"Authorization", "Bearer " + acme}, "the account's": {"Authorization", "Bearer " + tenant},
		"the caller's": {"X-Service-API-Key", acme, "Authorization", "Bearer " + inUse["the caller's"], "X-Api-Key", inUse["the caller's"], "X-Goog-Api-Key", inUse["the caller's"]},
	}
	plain := func(credential string) string { return credential }
	forms := map[string]quoting{
		"as it is":     {write: plain},
		"in base64":    {write: func(c string) string { return base64.StdEncoding.EncodeToString([]byte("user:" + c + " ")) }},
		"in a query":   {write: url.QueryEscape},
		"with escapes": {write: plain, bytes: func(said, c []byte) []byte { return bytes.ReplaceAll(said, c, []byte(letters(string(c)))) }},
		"with slashes": {write: plain, bytes: func(said, c []byte) []byte {
			return bytes.ReplaceAll(said, c, bytes.ReplaceAll(c, []byte("/"), []byte(`\/`)))
		}},
	}
	good := 0 // answers that are handed on as they are
	ask := func(name, path, body string, as []string) {
		before := q.said
		a := h.do(http.MethodPost, path, body, as...)
		if q.said == before {
			t.Errorf("%s: the provider was not asked: %d %s", name, a.status, a.body)
		}
		if tells(fmt.Sprint(a.header)) {
			t.Errorf("%s: the header tells: %v", name, a.header)
		}
		if a.status >= 300 && tells(a.body) {
			t.Errorf("%s: the error tells: %d %s", name, a.status, a.body)
		}
		if a.status < 300 && tells(a.body) {
			good++
		}
	}
	for who, as := range callers {
		for form, how := range forms {
			q.write, q.bytes = how.write, how.bytes
			for _, s := range generating {
				for _, model := range []string{chat.model, responses.model, messages.model, "gemini-3-pro"} {
					to := s
					to.model = model
					scripts := []string{`reasoning "it is QUOTED" ; text "it is QUOTED indeed"`, `tool look {"key":"QUOTED"}`}
					if form == "as it is" {
						scripts = append(scripts, `size 3 ; reasoning "it is QUOTED" ; text "it is QUOTED indeed"`, `text "well" ; error-inside 503 message="no such key QUOTED"`)
						for _, status := range []int{401, 403, 404, 422, 429, 500, 503} {
							scripts = append(scripts, fmt.Sprintf(`error %d message="no such key QUOTED"`, status))
						}
					}
					scripts = append(scripts, `error 400 message="no such key QUOTED"`)
					for _, script := range scripts {
						for _, stream := range []bool{false, true} {
							name := fmt.Sprintf("%s %s, %s to %s, streamed %t: %s", who, form, s.name, model, stream, script)
							ask(name, s.path, to.body(script, stream), as)
						}
					}
				}
			}
			for _, status := range []int{400, 401, 500} {
				script := fmt.Sprintf(`error %d message="no such key QUOTED"`, status)
				ask(fmt.Sprintf("%s %s, embeddings: %d", who, form, status), embeddings.path, embeddings.body(script, false), as)
				ask(fmt.Sprintf("%s %s, tokens: %d", who, form, status), messages.path+"/count_tokens", messages.body(script, false), as)
			}
		}
	}
	if good < 200 {
		t.Errorf("%d clients were told what the model said", good)
	}
	for account, key := range map[string]string{"acme": acme, "tenant": tenant} {
		h.key = key
		for after := ""; ; {
			page, err := h.store.Archive().Exchanges(account, record.ExchangeQuery{Limit: 1000, After: after})
			ok(t, err)
			for _, info := range page.Data {
				a := h.get("/exchanges/" + info.ID + "?include=raw_request,raw_response,normalized")
				x, err := h.store.Archive().Exchange(account, info.ID)
				ok(t, err)
				d, _ := digest.Exchange(x)
				if a.status != 200 || tells(a.body) || tells(fmt.Sprintf("%s %s %+v %+v", x.RawRequest, x.RawResponse, x.ExchangeInfo, d)) {
					t.Errorf("the record of %s tells: %s %+v", info.ID, x.RawResponse, x.ExchangeInfo)
				}
				after = info.ID
			}
			if !page.HasMore {
				break
			}
		}
		for _, query := range append([]string{"key indeed such", "credential", "passphrase"}, inUse["the server's"], inUse["the account's"], inUse["the caller's"]) {
			if _, found, body := h.find(key, fmt.Sprintf(`{"query":%s,"limit":50}`, quoted(query))); tells(strings.ReplaceAll(body, quoted(query), "")) {
				t.Errorf("a search tells: %+v", found)
			}
		}
		for _, path := range []string{"/sessions?limit=100", "/export.jsonl", "/stats"} {
			if a := h.get(path); a.status != 200 || tells(a.body) {
				t.Errorf("%s tells, or fails: %d", path, a.status)
			}
		}
	}
	flush()
	if tells(h.log.String()) {
		t.Errorf("the log tells: %s", h.log)
	}
	received.mu.Lock()
	for _, span := range received.spans {
		if tells(fmt.Sprint(span)) {
			t.Errorf("a span tells: %v", span)
		}
	}
	if len(received.spans) == 0 {
		t.Error("there are no spans")
	}
	received.mu.Unlock()
	ok(t, h.store.Close())
	tellsNothing(t, dir)
}

// tellsNothing reads the files of a store that is closed, and every value in it, also those that are compressed.
func tellsNothing(t *testing.T, dir string) {
	t.Helper()
	ok(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if tells(string(text)) {
			t.Errorf("%s tells", path)
		}
		return err
	}))
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "badger")).WithLogger(nil).WithBypassLockGuard(true))
	ok(t, err)
	defer func() { ok(t, db.Close()) }()
	unpack, err := zstd.NewReader(nil)
	ok(t, err)
	defer unpack.Close()
	values := 0
	ok(t, db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			value, err := it.Item().ValueCopy(nil)
			if err != nil {
				return err
			}
			values++
			for at := 0; at >= 0 && at < len(value); { // a frame of zstd may stand anywhere in it
				if plain, err := unpack.DecodeAll(value[at:], nil); tells(string(plain)) {
					t.Errorf("the value of %x tells (%v)", it.Item().Key(), err)
				}
				next := bytes.Index(value[at+1:], []byte{0x28, 0xb5, 0x2f, 0xfd})
				if next < 0 {
					break
				}
				at += 1 + next
			}
			if tells(string(value)) {
				t.Errorf("the value of %x tells", it.Item().Key())
			}
		}
		return nil
	}))
	if values < 100 {
		t.Errorf("the database has %d values", values)
	}
}
