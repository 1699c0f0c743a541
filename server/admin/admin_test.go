package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var quiet = slog.New(slog.DiscardHandler)

// lineBytes bounds the lines of imports over the network.
const lineBytes = 1 << 20

// withServer runs a server on the store in dir until the test ends, and gives the store.
func withServer(t *testing.T, dir string) *engine.Engine {
	t.Helper()
	st, stop := startServer(t, dir)
	t.Cleanup(stop)
	return st
}

// startServer runs a server on the store in dir until stop is called.
func startServer(t *testing.T, dir string) (st *engine.Engine, stop func()) {
	t.Helper()
	st, err := engine.Open(store.Options{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := EnsureAccount(st.Accounts()); err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, Handler(Over(st), quiet)) }()
	return st, func() {
		cancel()
		if err := errors.Join(<-served, st.Close()); err != nil {
			t.Error(err)
		}
	}
}

// opening opens the memory in a directory.
func opening(dir string) func() (Engine, error) {
	return func() (Engine, error) {
		e, err := engine.Open(store.Options{Dir: dir}, nil)
		if err != nil {
			return Engine{}, err
		}
		return Over(e), nil
	}
}

// inThisProcess opens the memory in a directory for a client, and gives it, too.
func inThisProcess(t *testing.T, dir string) (client *Client, e *engine.Engine) {
	t.Helper()
	client, err := Open(t.Context(), dir, func() (_ Engine, err error) {
		if e, err = engine.Open(store.Options{Dir: dir}, nil); err != nil {
			return Engine{}, err
		}
		return Over(e), nil
	}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client, e
}

func open(t *testing.T, dir string, create bool) *Client {
	t.Helper()
	client, err := Open(t.Context(), dir, opening(dir), create)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

func TestManagementIsTheSameWithAndWithoutAServer(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, dir string) *Client{
		"with a server": func(t *testing.T, dir string) *Client {
			withServer(t, dir)
			client := open(t, dir, true)
			if client.InProcess() {
				t.Error("the store was opened beside a running server")
			}
			return client
		},
		"without": func(t *testing.T, dir string) *Client {
			client := open(t, dir, true)
			if !client.InProcess() {
				t.Error("reached a server where none runs")
			}
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := prepare(t, filepath.Join(t.TempDir(), "data"))
			ctx := t.Context()

			created, err := client.Keys().Create(ctx, api.NewKey{Account: "default", Scopes: store.ScopeWrite | store.ScopeRead, Label: "laptop"})
			if err != nil || !store.LooksLikeKey(created.Secret) {
				t.Fatalf("%+v, %v", created.Key, err)
			}
			if err := client.Keys().Revoke(ctx, created.ID); err != nil {
				t.Error(err)
			}
			keys, err := client.Keys().List(ctx, "default")
			if err != nil || len(keys) != 1 || keys[0].Label != "laptop" || keys[0].Revoked.IsZero() {
				t.Errorf("keys: %+v, %v", keys, err)
			}

			if _, err := client.Accounts().Create(ctx, "team-a"); err != nil {
				t.Error(err)
			}
			if err := client.Accounts().SetCredential(ctx, "team-a", "openai", "sk-1"); err != nil {
				t.Error(err)
			}
			accounts, err := client.Accounts().List(ctx)
			if err != nil || len(accounts) != 2 || !cmp.Equal(accounts[1].Credentials, []string{"openai"}) {
				t.Errorf("accounts: %+v, %v", accounts, err)
			}
			if err := client.Accounts().RemoveCredential(ctx, "team-a", "openai"); err != nil {
				t.Error(err)
			}

			for what, err := range map[string]error{
				`not_found: no account "nobody"`:                             second(client.Keys().Create(ctx, api.NewKey{Account: "nobody", Scopes: store.ScopeRead})),
				`conflict: account "team-a" exists already`:                  second(client.Accounts().Create(ctx, "team-a")),
				`not_found: no key "key_?/#"`:                                client.Keys().Revoke(ctx, "key_?/#"),
				`not_found: no exchange "exch_none"`:                         second(client.Memory().Exchange(ctx, "exch_none")),
				`not_found: account "team-a" has no credential for "openai"`: client.Accounts().RemoveCredential(ctx, "team-a", "openai"),
				`invalid_request: this is a service key of mneme; a credential is what the provider openai gave out (secret)`: client.Accounts().SetCredential(ctx, "team-a", "openai", created.Secret),
			} {
				var known *codec.Error
				if !errors.As(err, &known) || known.Error() != what {
					t.Errorf("want %s, got %v", what, err)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

func TestExchangesComeInPagesAndByteForByte(t *testing.T) {
	dir := t.TempDir()
	st := withServer(t, dir)
	bodies := []string{`{"model":"a"}`, "{\"model\":\"\xff\"}", `{"model":"<&>` + "\u2028" + `"}`}
	var ids []string
	for _, body := range bodies {
		ids = append(ids, capture(t, st, "default", body, "answer to "+body))
	}

	client := open(t, dir, false)
	var listed []string
	for after, more := "", true; more; {
		page, err := client.Memory().Exchanges(t.Context(), "", after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Data {
			listed = append([]string{x.ID}, listed...)
			after = x.ID
		}
		more = page.HasMore
	}
	if diff := cmp.Diff(ids, listed); diff != "" {
		t.Error(diff)
	}
	for i, id := range ids {
		x, err := client.Memory().Exchange(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		request, _ := x.Request()
		response, _ := x.Response()
		if string(request) != bodies[i] || string(response) != "answer to "+bodies[i] {
			t.Errorf("got %q and %q", request, response)
		}
		if wantBase64 := i == 1; (x.RawRequestEncoding == "base64") != wantBase64 || (x.RawResponseEncoding == "base64") != wantBase64 {
			t.Errorf("exchange %d: encodings %q, %q", i, x.RawRequestEncoding, x.RawResponseEncoding)
		}
		if x.Outcome != record.OutcomeComplete {
			t.Errorf("outcome %s", x.Outcome)
		}
	}
}

func capture(t *testing.T, st *engine.Engine, account, request, response string) (id string) {
	t.Helper()
	c, err := st.Begin(t.Context(), &record.Opening{Account: account, Surface: codec.Chat, Format: codec.Chat, Body: []byte(request)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(response)); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, LastByte: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

func TestASocketLeftByAKilledServerIsReplaced(t *testing.T) {
	dir := t.TempDir()
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}

	t.Run("a command opens the store itself", func(t *testing.T) {
		if client := open(t, dir, true); !client.InProcess() {
			t.Error("took the dead socket for a server")
		}
	})
	t.Run("a new server takes the place", func(t *testing.T) {
		withServer(t, dir)
		if client := open(t, dir, false); client.InProcess() {
			t.Error("the new server was not reached")
		}
	})
	if _, err := os.Stat(filepath.Join(dir, SocketName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stopped server leaves its socket: %v", err)
	}
}

func TestTheSocketIsForItsOwnerOnly(t *testing.T) {
	dir := t.TempDir()
	listener, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	info, err := os.Stat(filepath.Join(dir, SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestADirectoryTooDeepForASocketAddressStillWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	temporary, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	t.Setenv("TMPDIR", temporary)
	withServer(t, dir)
	client := open(t, dir, false)
	if client.InProcess() {
		t.Fatal("the server was not reached")
	}
	if _, err := client.Accounts().List(t.Context()); err != nil {
		t.Error(err)
	}
	if links, err := os.ReadDir(temporary); err != nil || len(links) > 0 {
		t.Errorf("left behind: %v", links)
	}
}

func TestOnlyWhatCreatesMakesAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Open(t.Context(), dir, opening(dir), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want %v, got %v", fs.ErrNotExist, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the directory was created")
	}
}

func TestACommandWaitsForAServerThatIsStarting(t *testing.T) {
	dir := t.TempDir()
	st, err := engine.Open(store.Options{Dir: dir}, nil) // a server that has no socket yet
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *Client, 1)
	go func() {
		client, err := Open(context.Background(), dir, opening(dir), false)
		if err != nil {
			t.Error(err)
		}
		opened <- client
	}()
	listener, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, Handler(Over(st), quiet)) }()
	if client := <-opened; client == nil || client.InProcess() {
		t.Error("the server was not reached")
	}
	stop()
	if err := errors.Join(<-served, st.Close()); err != nil {
		t.Error(err)
	}
}

func TestAnAdminKeyReachesItsOwnAccountOnly(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	_, foreign, err := st.Keys().Create("other", store.ScopeWrite, "foreign")
	if err != nil {
		t.Fatal(err)
	}
	own := capture(t, st, "default", "{}", "own")
	theirs := capture(t, st, "other", "{}", "theirs")
	admin, _, _ := st.Keys().Create("default", store.AllScopes, "")
	writer, _, _ := st.Keys().Create("default", store.ScopeWrite, "")

	web := httptest.NewServer(AccountHandler(Over(st), quiet, lineBytes))
	defer web.Close()
	ask := func(key, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		response, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}

	for _, tt := range []struct {
		key, method, path, body string
		want                    int
	}{
		{"", "GET", "/accounts", "", 401},
		{"sk-ant-x", "GET", "/accounts", "", 401},
		{writer, "GET", "/accounts", "", 403},
		{admin, "GET", "/accounts", "", 200},
		{admin, "POST", "/accounts", `{"name":"third"}`, 403},
		{admin, "GET", "/keys?account=other", "", 403},
		{admin, "POST", "/keys", `{"account":"other","scopes":"read"}`, 403},
		{admin, "POST", "/keys", `{"scopes":"read"}`, 201},
		{admin, "DELETE", "/keys/" + foreign.ID, "", 404},
		{admin, "PUT", "/accounts/other/credentials/openai", `{"secret":"x"}`, 403},
		{admin, "DELETE", "/accounts/other/credentials/openai", "", 403},
		{admin, "GET", "/exchanges?account=other", "", 403},
		{admin, "GET", "/exchanges/" + theirs, "", 404},
		{admin, "GET", "/exchanges/" + own, "", 200},
		{admin, "GET", "/exchanges?limit=0", "", 400},
		{admin, "POST", "/keys", `{"scope":"read"}`, 400},
		{admin, "POST", "/keys", `{"scopes":"read"}{}`, 400},
		{admin, "POST", "/keys", strings.Repeat(" ", maxBody+1), 413},
	} {
		status, text := ask(tt.key, tt.method, tt.path, tt.body)
		if status != tt.want {
			t.Errorf("%s %s %.40s: want %d, got %d %s", tt.method, tt.path, tt.body, tt.want, status, text)
		}
	}
	for _, path := range []string{"/accounts", "/keys", "/exchanges"} {
		if _, text := ask(admin, "GET", path, ""); strings.Contains(text, "other") || strings.Contains(text, theirs) || !json.Valid([]byte(text)) {
			t.Errorf("%s shows %s", path, text)
		}
	}
}

// Who may manage an account need not be who may know what was said in it.
func TestAnAdminKeyIsReadFromEitherHeader(t *testing.T) {
	st := withServer(t, t.TempDir())
	secret, _, err := st.Keys().Create(DefaultAccount, store.ScopeAdmin, "")
	if err != nil {
		t.Fatal(err)
	}
	handler := AccountHandler(Over(st), quiet, lineBytes)
	for name, value := range map[string]string{"Authorization": "Bearer " + secret, "X-Service-API-Key": secret} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/keys", strings.NewReader(`{"account":"default","scope":"write"}`))
		r.Header.Set(name, value)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), `not known here: \"scope\"`) {
			t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
		}
	}
}

func TestAnAdminKeyKnowsWhatWasSaidOnlyWithTheScopeForIt(t *testing.T) {
	st := withServer(t, t.TempDir())
	said := capture(t, st, "default", `{"model":"m"}`, "what was said")
	handler := AccountHandler(Over(st), quiet, lineBytes)
	for _, tt := range []struct {
		method, path, body string
		needs              store.Scopes
	}{
		{"GET", "/keys", "", 0},
		{"GET", "/audit", "", 0},
		{"GET", "/exchanges", "", store.ScopeRead},
		{"GET", "/exchanges/" + said, "", store.ScopeRead},
		{"GET", "/v1/memory/exchanges/" + said + "?include=raw_response", "", store.ScopeRead},
		{"GET", "/v1/memory/export.jsonl", "", store.ScopeRead},
		{"POST", "/v1/memory/imports", `{"object":"memory.export","version":1}`, store.ScopeWrite},
		{"POST", "/v1/memory/erasures", `{"all":true,"dry_run":true}`, store.ScopeErase},
	} {
		for _, scopes := range []store.Scopes{store.ScopeAdmin, store.ScopeAdmin | tt.needs, store.AllScopes &^ tt.needs, store.AllScopes &^ store.ScopeAdmin} {
			key, _, err := st.Keys().Create("default", scopes, "")
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader(tt.body))
			r.Header.Set("Authorization", "Bearer "+key)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			may := scopes.Has(store.ScopeAdmin | tt.needs)
			if passed := answer.Code < 300; passed != may || !may && answer.Code != http.StatusForbidden {
				t.Errorf("%s %s with %s: %d %s", tt.method, tt.path, scopes, answer.Code, answer.Body)
			}
			if !may && strings.Contains(answer.Body.String(), "what was said") {
				t.Errorf("%s %s with %s shows %s", tt.method, tt.path, scopes, answer.Body)
			}
		}
	}
}

// Holders of admin keys see what was done to their account, by whom, and nothing of others'.
func TestAnAccountSeesItsOwnAuditRecord(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	ids := map[string]string{}
	for _, account := range []string{"default", "other"} {
		secret, key, err := st.Keys().Create(account, store.AllScopes, "")
		if err != nil {
			t.Fatal(err)
		}
		keys[account], ids[account] = secret, key.ID
	}
	handler := AccountHandler(Over(st), quiet, lineBytes)
	ask := func(account, method, path, body string) string {
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+keys[account])
		handler.ServeHTTP(answer, r)
		return answer.Body.String()
	}
	ask("other", http.MethodPut, "/accounts/other/credentials/openai", `{"secret":"sk-do-not-show"}`)
	ask("default", http.MethodPut, "/accounts/other/credentials/openai", `{"secret":"sk-do-not-show"}`)
	ask("default", http.MethodDelete, "/keys/"+ids["other"], "")
	ask("default", http.MethodPost, "/v1/memory/erasures", `{"exchanges":["exch_00000000000000000000000000"]}`)

	var shown api.Page[store.AuditEntry]
	text := ask("other", http.MethodGet, "/audit", "")
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Data) != 1 || shown.Data[0].Actor != ids["other"] || shown.Data[0].Action != "credential.set" || shown.Data[0].Outcome != store.AuditDone {
		t.Errorf("the other account sees %s", text)
	}
	text = ask("default", http.MethodGet, "/audit", "")
	for _, want := range []string{`"credential.set"`, `"reason":"permission"`, `"key.revoke"`, `"reason":"not_found"`, `"memory.erase"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if strings.Contains(text, "sk-do-not-show") {
		t.Errorf("a secret is on record: %s", text)
	}
	if refused := ask("other", http.MethodGet, "/audit?account=default", ""); !strings.Contains(refused, "permission") {
		t.Errorf("another account's record: %s", refused)
	}
}
