package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// toySearcher finds turns whose text contains the query. It has no index.
type toySearcher struct{ *toyArchive }

func (s toySearcher) Search(_ context.Context, account string, r *search.Request) (*search.Answer, error) {
	answer := &search.Answer{Object: "memory.search", ModeUsed: search.Lexical, Data: []search.Hit{}}
	for _, x := range s.of(account, func(x *record.Exchange) bool {
		return bytes.Contains(x.RawRequest, []byte(r.Query)) || bytes.Contains(x.RawResponse, []byte(r.Query))
	}) {
		answer.Data = append(answer.Data, search.Hit{Object: "memory.hit", Score: 1, Exchange: x.ID, Session: x.Session, Snippet: r.Query})
	}
	return answer, nil
}

func (toySearcher) Wait(context.Context, string) error { return nil }

func (s toySearcher) Status(_ context.Context, account string) (*search.Status, error) {
	return &search.Status{Documents: uint64(len(s.of(account, func(*record.Exchange) bool { return true })))}, nil
}

func newToy() *toyArchive { return &toyArchive{accounts: storetest.Accounts()} }

func TestTheToyArchiveKeepsThePromisesOfAnEngine(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Memory { return newToy() })
}

func TestTheToySearcherKeepsThePromisesOfASearchEngine(t *testing.T) {
	storetest.RunSearch(t, func(*testing.T) (storetest.Memory, storetest.Searcher) {
		a := newToy()
		return a, toySearcher{a}
	})
}

// The API needs nothing of the store's own: another archive and another search engine serve it as well.
func TestAnyArchiveIsServed(t *testing.T) {
	archive := newToy()
	account := storetest.Accounts()[0]
	r, err := archive.Begin(t.Context(), &record.Opening{Account: account, Surface: codec.Chat, ChatKey: "a", Body: []byte(`{"messages":"where is the mutex?"}`)})
	if err != nil {
		t.Fatal(err)
	}
	handler := memory.Handler(memory.Options{
		Archive: archive, Searcher: toySearcher{archive},
		Identify: func(*http.Request, store.Scopes) (string, error) { return account, nil },
		Actor:    func(*http.Request) (string, error) { return "test", nil },
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		},
	})
	for _, ask := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/memory/exchanges", ""},
		{http.MethodGet, "/v1/memory/exchanges/" + r.ID(), ""},
		{http.MethodGet, "/v1/memory/sessions/sess_a/timeline", ""},
		{http.MethodPost, "/v1/memory/search", `{"query":"mutex"}`},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), ask.method, ask.path, strings.NewReader(ask.body)))
		if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), r.ID()) {
			t.Errorf("%s %s: %d %s", ask.method, ask.path, w.Code, w.Body)
		}
	}
}
