package admin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

// captureIn puts an exchange of a conversation on record.
func captureIn(t *testing.T, st *engine.Engine, account, chatKey, request string) (id string) {
	t.Helper()
	c, err := st.Begin(t.Context(), &record.Opening{Account: account, Surface: codec.Chat, Format: codec.Chat, ChatKey: chatKey, Body: []byte(request)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: http.StatusOK}); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

func TestTheMemoryIsTheSameWithAndWithoutAServer(t *testing.T) {
	for name, reach := range map[string]func(t *testing.T, dir string) (*Client, *engine.Engine){
		"with a server": func(t *testing.T, dir string) (*Client, *engine.Engine) {
			st := withServer(t, dir)
			return open(t, dir, true), st
		},
		"without": inThisProcess,
	} {
		t.Run(name, func(t *testing.T) {
			client, st := reach(t, filepath.Join(t.TempDir(), "data"))
			ctx := t.Context()
			exchange := captureIn(t, st, "default", "one", `{"model":"m"}`)
			captureIn(t, st, "default", "two", `{"model":"m"}`)

			page, err := client.Memory().Sessions(ctx, "default", map[string][]string{"chat_key": {"one"}})
			if err != nil || len(page.Data) != 1 || page.Data[0].ChatKey != "one" {
				t.Fatalf("%+v, %v", page, err)
			}
			one := page.Data[0].ID
			timeline, err := client.Memory().Timeline(ctx, "default", one, "")
			if err != nil || len(timeline.Data) != 1 || timeline.Data[0].Exchange.ID != exchange {
				t.Errorf("%+v, %v", timeline, err)
			}
			if x, err := client.Memory().ExchangeInfo(ctx, "default", exchange); err != nil || x.Session != one {
				t.Errorf("%+v, %v", x, err)
			}
			if stats, err := client.Memory().Stats(ctx, "default"); err != nil || stats.Exchanges != 2 {
				t.Errorf("%+v, %v", stats, err)
			}
			export, err := client.Memory().Export(ctx, "default", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Accounts().Create(ctx, "copy"); err != nil {
				t.Fatal(err)
			}
			done, err := client.Memory().Import(ctx, "copy", export)
			if err != nil || done.Exchanges != 2 || done.Sessions != 2 {
				t.Errorf("%+v, %v", done, err)
			}
			if err := export.Close(); err != nil {
				t.Error(err)
			}
			counted, err := client.Memory().Erase(ctx, "default", api.NewErasure{Selection: record.Selection{All: true}, DryRun: true})
			if err != nil || counted.Exchanges != 2 || counted.State != record.ErasureDone {
				t.Errorf("%+v, %v", counted, err)
			}
			report, err := client.Upkeep().Check(ctx, false, func(f store.Finding) { t.Errorf("%+v", f) })
			if err != nil || report.Exchanges != 4 {
				t.Errorf("%+v, %v", report, err)
			}
			if err := client.Upkeep().Compact(ctx); err != nil {
				t.Error(err)
			}
			if _, err := client.Memory().Session(ctx, "", one); !isKind(err, codec.KindInvalidRequest) {
				t.Errorf("whose memory is meant is left open: %v", err)
			}
			if _, err := client.Memory().Session(ctx, "copy", "sess_none"); !isKind(err, codec.KindNotFound) {
				t.Error(err)
			}
		})
	}
}

func isKind(err error, kind codec.Kind) bool {
	var known *codec.Error
	return errors.As(err, &known) && known.Kind == kind
}

func TestABackupIsAsLargeAsItIsAndCanBeLeft(t *testing.T) {
	dir := t.TempDir()
	client, memory := inThisProcess(t, dir)
	for range 20 {
		captureIn(t, memory, "default", "", `{"model":"m","input":"`+strings.Repeat("large ", 20<<10)+`"}`)
	}
	whole, err := client.Upkeep().Backup(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var kept bytes.Buffer
	if _, err := io.Copy(&kept, whole); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), store.Options{Dir: filepath.Join(t.TempDir(), "restored")}, &kept, nil); err != nil {
		t.Error(err)
	}
	left, err := client.Upkeep().Backup(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil { // closing the client waits for nobody who still writes
		t.Error(err)
	}
}

func TestATailLastsUntilItIsLeft(t *testing.T) {
	dir := t.TempDir()
	st := withServer(t, dir)
	client := open(t, dir, false)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	heard := make(chan record.Event, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- client.Memory().Tail(ctx, "default", nil, func(e record.Event) error {
			select {
			case heard <- e:
			default:
			}
			return nil
		})
	}()
	for { // until the tail has begun, nobody hears; and it ends when it is left far behind
		captureIn(t, st, "default", "", "{}")
		select {
		case e := <-heard:
			if e.Exchange == "" {
				t.Errorf("%+v", e)
			}
			leave()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestOverTheNetworkTheMemoryIsTheKeysAccountsAndTheStoreNobodys(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	captureIn(t, st, "other", "theirs", "{}")
	admin, _, err := st.Keys().Create("default", store.AllScopes, "")
	if err != nil {
		t.Fatal(err)
	}
	handler := AccountHandler(Over(st), quiet, lineBytes)
	for _, tt := range []struct {
		method, path, key string
		want              int
	}{
		{"GET", "/v1/memory/sessions", admin, 200},
		{"GET", "/v1/memory/sessions?account=default", admin, 200},
		{"GET", "/v1/memory/sessions?account=other", admin, 403},
		{"GET", "/v1/memory/export.jsonl?account=other", admin, 403},
		{"GET", "/v1/memory/events?account=other", admin, 403},
		{"GET", "/v1/memory/sessions", "", 401},
		{"GET", "/backup?since=0", admin, 403},
		{"POST", "/check?repair=false", admin, 403},
		{"POST", "/compact", admin, 403},
		{"PUT", "/accounts/default/retention", admin, 403},
		{"DELETE", "/accounts/default/retention", admin, 403},
		{"GET", "/backup?since=0", "", 401},
	} {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, nil)
		r.Header.Set("Authorization", "Bearer "+tt.key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != tt.want || strings.Contains(w.Body.String(), "theirs") {
			t.Errorf("%s %s: want %d, got %d %s", tt.method, tt.path, tt.want, w.Code, w.Body)
		}
	}
}

// A holder of a key could have the server keep as much as there is of a line.
func TestALineOfAnImportOverTheNetworkIsBounded(t *testing.T) {
	st := withServer(t, t.TempDir())
	key, _, err := st.Keys().Create("default", store.AllScopes, "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(body io.Reader) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/memory/imports", body)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		AccountHandler(Over(st), quiet, lineBytes).ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	header := `{"object":"memory.export","version":1}` + "\n"
	long := strings.NewReader(strings.Repeat(" ", 8*lineBytes))
	status, text := ask(io.MultiReader(strings.NewReader(header), long))
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "line 2") || !strings.Contains(text, "mneme import") {
		t.Errorf("a long line: %d %s", status, text)
	}
	if long.Len() < 6*lineBytes {
		t.Errorf("%d bytes of it were read", 8*lineBytes-long.Len())
	}
	many := strings.Repeat(strings.Repeat(" ", lineBytes/2)+"\n", 5)
	if status, text := ask(strings.NewReader(header + many)); status != http.StatusOK {
		t.Errorf("many lines: %d %s", status, text)
	}
}
