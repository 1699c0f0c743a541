package fuzz_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

// FuzzImport imports any file: it is accepted or refused as the caller's mistake, everything imported can be read,
// exported and imported again, and the store stays consistent.
func FuzzImport(f *testing.F) {
	s, err := engine.Open(store.Options{Dir: f.TempDir()}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	const account = "acme"
	if _, err := s.Accounts().Create(account); err != nil {
		f.Fatal(err)
	}
	handler := memory.Handler(memory.Options{
		Archive: s.Archive(), Searcher: s.Index(),
		Identify: func(*http.Request, store.Scopes) (string, error) { return account, nil },
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			var known *codec.Error
			if errors.As(err, &known) && known.Kind != codec.KindInternal && known.Kind != codec.KindStorage {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, err.Error())
		},
	})
	ask := func(t testing.TB, method, path string, body []byte) []byte {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
		if w.Code >= http.StatusInternalServerError {
			t.Fatalf("%s %s answers %d: %s\n%q", method, path, w.Code, w.Body, body)
		}
		return w.Body.Bytes()
	}

	c, err := s.Begin(context.Background(), &record.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, ChatKey: "k", ModelAsked: "m",
		Body: []byte(`{"model":"m","messages":[{"role":"user","content":"q"}]}`),
	})
	if err != nil {
		f.Fatal(err)
	}
	_, _ = c.Write([]byte(`{"choices":[]}`))
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: http.StatusOK}); err != nil {
		f.Fatal(err)
	}
	whole := ask(f, http.MethodGet, "/v1/memory/export.jsonl", nil)
	f.Add(whole)
	head, rest, _ := bytes.Cut(whole, []byte("\n"))
	for _, change := range [][2]string{{c.ID(), "exch_0000000000000000000000000g"}, {`"complete"`, `"open"`}, {c.SessionID(), "sess_x"}, {`"acme"`, `"other"`}} {
		f.Add(append(append(bytes.Clone(head), '\n'), bytes.ReplaceAll(rest, []byte(change[0]), []byte(change[1]))...))
	}
	f.Add(head)

	runs := 0
	f.Fuzz(mutant.Each(200, func(t *testing.T, file []byte) {
		ask(t, http.MethodPost, "/v1/memory/imports", file)
		page, err := s.Archive().Exchanges(account, record.ExchangeQuery{Limit: 5})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Data {
			ask(t, http.MethodGet, "/v1/memory/exchanges/"+x.ID+"?include=raw_request,raw_response,normalized", nil)
			if x.Session != "" {
				ask(t, http.MethodGet, "/v1/memory/sessions/"+x.Session+"/timeline", nil)
			}
		}
		if runs++; runs%200 != 1 {
			return
		}
		ask(t, http.MethodPost, "/v1/memory/imports", ask(t, http.MethodGet, "/v1/memory/export.jsonl", nil))
		if _, err := s.Upkeep().Check(context.Background(), false, func(found store.Finding) {
			t.Errorf("%s: %s", found.Subject, found.Problem)
		}); err != nil {
			t.Fatal(err)
		}
	}))
}
