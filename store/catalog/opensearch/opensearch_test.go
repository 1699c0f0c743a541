package opensearch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/opensearch"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// These tests check what is sent and how answers are taken, against a server that answers as it is told. They say nothing about the
// engine itself; with MNEME_TEST_OPENSEARCH the tests of package cluster search in a real one.

// told is a server that answers as it is told, and keeps what it is asked.
type told struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	asked   []asked
	answers map[string]answer // by method and path
}

type asked struct {
	what, query, body string
	user, password    string
}

type answer struct {
	status int // 0: 200
	kind   string
	body   string
	after  string
}

func tell(t *testing.T, answers map[string]answer) (*told, *opensearch.Index) {
	t.Helper()
	s := &told{t: t, answers: answers}
	s.server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.server.Close)
	t.Setenv(opensearch.PasswordVariable, "secret word")
	x, err := opensearch.Open(strings.Replace(s.server.URL, "://", "://mneme@", 1) + "/memory")
	if err != nil {
		t.Fatal(err)
	}
	return s, x
}

func (s *told) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	user, password, _ := r.BasicAuth()
	s.mu.Lock()
	defer s.mu.Unlock()
	what := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, asked{what, r.URL.RawQuery, string(body), user, password})
	a, ok := s.answers[what]
	if !ok {
		a = answer{body: `{}`}
	}
	if a.kind == "" {
		a.kind = "application/json; charset=UTF-8"
	}
	w.Header().Set("Content-Type", a.kind)
	if a.after != "" {
		w.Header().Set("Retry-After", a.after)
	}
	if a.status != 0 {
		w.WriteHeader(a.status)
	}
	_, _ = io.WriteString(w, a.body)
}

// requests returns what was asked so far, by method and path.
func (s *told) requests() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		all = append(all, a.what)
	}
	return all
}

func (s *told) last() asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

func want(t *testing.T, r search.Request) *search.Wanted {
	t.Helper()
	w, err := search.Want(&r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const hits = `{"timed_out": false, "_shards": {"failed": 0}, "hits": {"hits": [{"_id": "7-exch_b"}, {"_id": "7-exch_a"}]}}`

// kinds are searches of each kind, for the account with number 7.
var kinds = map[string]func(t *testing.T, x *opensearch.Index) ([]string, error){
	"words": func(t *testing.T, x *opensearch.Index) ([]string, error) {
		return x.Words(t.Context(), 7, want(t, search.Request{Query: "lock timeout"}))
	},
	"a list": func(t *testing.T, x *opensearch.Index) ([]string, error) {
		return x.Words(t.Context(), 7, want(t, search.Request{Newest: true}))
	},
	"recall": func(t *testing.T, x *opensearch.Index) ([]string, error) {
		return x.Words(t.Context(), 7, want(t, search.Request{Query: "lock E_4711_9", Demand: &lexical.Demand{Share: 0.3, Name: true}}))
	},
	"likeness": func(t *testing.T, x *opensearch.Index) ([]string, error) {
		return x.Alike(t.Context(), 7, want(t, search.Request{Query: "lock"}), &search.VectorQuery{Codes: []int8{1, -2, 3}, Embedder: "topics"})
	},
}

func TestEverySearchIsLimitedToOneAccount(t *testing.T) {
	for name, find := range kinds {
		t.Run(name, func(t *testing.T) {
			s, x := tell(t, map[string]answer{"POST /memory/_search": {body: hits}})
			ids, err := find(t, x)
			if err != nil || !slices.Equal(ids, []string{"exch_b", "exch_a"}) {
				t.Fatalf("the search finds %q (%v)", ids, err)
			}
			a := s.last()
			if a.user != "mneme" || a.password != "secret word" {
				t.Errorf("the user is %q with the password %q", a.user, a.password)
			}
			if !strings.Contains(a.query, "routing=7") || !strings.Contains(a.query, "allow_partial_search_results=false") {
				t.Errorf("the parameters are %q", a.query)
			}
			if !strings.Contains(a.body, `"filter":[{"term":{"account":7}}`) {
				t.Errorf("the query is not limited to the account: %s", a.body)
			}
		})
	}
}

func TestASearchSendsWhatIsDemanded(t *testing.T) {
	s, x := tell(t, map[string]answer{"POST /memory/_search": {body: hits}})
	w := want(t, search.Request{Query: "+lock -dead tool:bash", Filter: search.Filter{Field: "time", Op: "gte", Value: "2026-11-01T00:00:00Z"}})
	w.Corpus = lexical.Corpus{Documents: 10, Frequencies: map[string]uint64{}}
	w.MeanLength = 50
	if _, err := x.Words(t.Context(), 7, w); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`{"term":{"terms":"tlock"}}`, `"must_not":[`, `{"range":{"began":{"gte":1793491200000000}}}`, `"minimum_should_match":1`,
		`"params":{"mean":50}`, `"constant_score":{"boost":`, `"size":400`,
	} {
		if !strings.Contains(s.last().body, part) {
			t.Errorf("the query lacks %s:\n%s", part, s.last().body)
		}
	}
}

func TestTermsAreWeighedByTheAccount(t *testing.T) {
	s, x := tell(t, map[string]answer{"POST /memory/_search": {
		body: `{"hits": {"total": {"value": 40}}, "aggregations": {"length": {"value": 12.5}, "terms": {"buckets": {"0": {"doc_count": 3}, "1": {"doc_count": 0}, "2": {"doc_count": 1}, "3": {"doc_count": 9}}}}}`,
	}})
	w := want(t, search.Request{Query: "lock"})
	if err := x.Measure(t.Context(), 7, w); err != nil {
		t.Fatal(err)
	}
	if w.Corpus.Documents != 40 || w.MeanLength != 12.5 || w.Corpus.Frequencies[w.Scored[0].Key()] != 3 {
		t.Errorf("the corpus is %+v, with %v terms a turn", w.Corpus, w.MeanLength)
	}
	if body := s.last().body; !strings.Contains(body, `"filter":[{"term":{"account":7}}]`) || !strings.Contains(body, `"size":0`) {
		t.Errorf("the request counts others' turns too: %s", body)
	}
}

// changes are a turn with a vector and one that is gone.
func changes() []catalog.Change {
	return []catalog.Change{
		{Account: 7, Exchange: "exch_a", Version: 41, Turn: &catalog.Copied{Began: time.UnixMicro(1000), Terms: []string{"t<lock>", "fclient=x"}, Codes: []int8{1, -2}, Embedder: "topics"}},
		{Account: 8, Exchange: "exch_b", Version: 42},
	}
}

func items(statuses ...int) string {
	made := fmt.Sprintf(`{"errors": true, "items": [{"index": {"_id": "7-exch_a", "status": %d}}, {"delete": {"_id": "8-exch_b", "status": %d}}]}`, statuses[0], statuses[1])
	return made
}

func TestChangesCarryTheirAccountAndVersion(t *testing.T) {
	s, x := tell(t, map[string]answer{"POST /memory/_bulk": {body: items(201, 200)}})
	outcomes, err := x.Put(t.Context(), changes())
	if err != nil || !slices.Equal(outcomes, []catalog.Outcome{catalog.CopyDone, catalog.CopyDone}) {
		t.Fatalf("the outcomes are %v (%v)", outcomes, err)
	}
	if got, want := s.requests(), []string{"PUT /memory/_mapping", "POST /memory/_bulk"}; !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	const sent = `{"index":{"_id":"7-exch_a","routing":"7","version":41,"version_type":"external"}}
{"account":7,"began":1000,"embedder":"topics","exchange":"exch_a","length":3,"terms":["t<lock>","fclient=x"],"vector_2":[1,-2]}
{"delete":{"_id":"8-exch_b","routing":"8","version":42,"version_type":"external"}}
`
	if a := s.last(); a.body != sent || a.query != "require_alias=true" {
		t.Errorf("?%s with\n%s\nis sent, want\n%s", a.query, a.body, sent)
	}
}

func TestEachChangeHasItsOwnOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		put, deleted         int
		wantPut, wantDeleted catalog.Outcome
	}{
		"the engine has a later state": {409, 409, catalog.CopyDone, catalog.CopyDone},
		"nothing was there to delete":  {200, 404, catalog.CopyDone, catalog.CopyDone},
		"the engine is busy":           {429, 429, catalog.CopyLater, catalog.CopyLater},
		"a shard is away":              {503, 200, catalog.CopyLater, catalog.CopyDone},
		"the index is gone":            {404, 200, catalog.CopyLater, catalog.CopyDone},
		"a turn does not fit":          {400, 200, catalog.CopyRefused, catalog.CopyDone},
	} {
		t.Run(name, func(t *testing.T) {
			_, x := tell(t, map[string]answer{"POST /memory/_bulk": {body: items(c.put, c.deleted)}})
			outcomes, err := x.Put(t.Context(), changes())
			if err != nil || outcomes[0] != c.wantPut || outcomes[1] != c.wantDeleted {
				t.Errorf("the outcomes are %v (%v), want %v and %v", outcomes, err, c.wantPut, c.wantDeleted)
			}
		})
	}
}

func TestNoAnswerIsTakenForWhatItDoesNotSay(t *testing.T) {
	put := func(t *testing.T, x *opensearch.Index) error { _, err := x.Put(t.Context(), changes()); return err }
	find := func(t *testing.T, x *opensearch.Index) error { _, err := kinds["words"](t, x); return err }
	for name, c := range map[string]struct {
		answer answer
		ask    func(*testing.T, *opensearch.Index) error
	}{
		"a cut answer":                     {answer{body: items(200, 200)[:40]}, put},
		"an answer to fewer changes":       {answer{body: `{"items": [{"index": {"_id": "7-exch_a", "status": 200}}]}`}, put},
		"an answer to other changes":       {answer{body: strings.Replace(items(200, 200), "exch_b", "exch_c", 1)}, put},
		"an answer without changes":        {answer{body: `{}`}, put},
		"the page of a proxy":              {answer{kind: "text/html", body: "<html>welcome</html>"}, put},
		"a redirection":                    {answer{status: 302, body: `{}`}, put},
		"an answer that never ends":        {answer{body: `{"x": "` + strings.Repeat("x", 9<<20) + `"}`}, find},
		"a part of the hits":               {answer{body: strings.Replace(hits, `"failed": 0`, `"failed": 1`, 1)}, find},
		"what was found in time":           {answer{body: strings.Replace(hits, `"timed_out": false`, `"timed_out": true`, 1)}, find},
		"a turn of another account":        {answer{body: strings.Replace(hits, "7-exch_a", "71-exch_a", 1)}, find},
		"the page of a proxy, to a search": {answer{kind: "text/html", body: hits}, find},
	} {
		t.Run(name, func(t *testing.T) {
			_, x := tell(t, map[string]answer{"POST /memory/_bulk": c.answer, "POST /memory/_search": c.answer})
			if err := c.ask(t, x); err == nil {
				t.Error("it is taken for an answer")
			}
		})
	}
}

func TestARefusalSaysHowLongToWaitAndNothingOfWhatWasSent(t *testing.T) {
	_, x := tell(t, map[string]answer{"POST /memory/_bulk": {
		status: 429, after: "7", body: `{"error": {"type": "circuit_breaking_exception", "reason": "failed on [t<lock>]"}, "status": 429}`,
	}})
	_, err := x.Put(t.Context(), changes())
	var refused *opensearch.Error
	if !errors.As(err, &refused) || refused.Wait() != 7*time.Second || refused.Type != "circuit_breaking_exception" {
		t.Fatalf("the error is %v", err)
	}
	if strings.Contains(err.Error(), "lock") || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error quotes what was sent: %v", err)
	}
}

func TestALongListOfChangesIsSentInParts(t *testing.T) {
	s, x := tell(t, nil)
	long := strings.Repeat("x", 1<<20)
	var all []catalog.Change
	for i := range 10 {
		all = append(all, catalog.Change{Account: 7, Exchange: fmt.Sprint(i), Version: 1, Turn: &catalog.Copied{Terms: []string{long}}})
	}
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, asked{what: "bulk", body: fmt.Sprint(len(body))})
		s.mu.Unlock()
		var items []any
		for line := range bytes.Lines(body) {
			var a struct{ Index map[string]any }
			if json.Unmarshal(line, &a) == nil && a.Index != nil {
				items = append(items, map[string]any{"index": map[string]any{"_id": a.Index["_id"], "status": 201}})
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
	})
	outcomes, err := x.Put(t.Context(), all)
	if err != nil || len(outcomes) != len(all) {
		t.Fatalf("%d of %d changes have an outcome (%v)", len(outcomes), len(all), err)
	}
	if n := len(s.requests()); n != 3 {
		t.Errorf("10 MB are sent in %d requests, want 3", n)
	}
}

func TestAnIndexWithSomethingElseIsLeftAlone(t *testing.T) {
	for name, index := range map[string]string{
		"of another centre": `{"memory-x": {"mappings": {"_meta": {"mneme_centre": "other", "mneme_fill": "x", "mneme_format": 1}}}}`,
		"of another use":    `{"memory": {"mappings": {"properties": {"title": {"type": "text"}}}}}`,
		"several":           `{"memory-1": {"mappings": {}}, "memory-2": {"mappings": {}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, x := tell(t, map[string]answer{"GET /memory": {body: index}, "GET /memory/_count": {body: `{"count": 0}`}})
			if err := x.Begin(t.Context(), "centre", "fill"); err == nil {
				t.Error("the index is taken over")
			}
			for _, r := range s.requests() {
				if !strings.HasPrefix(r, "GET ") {
					t.Errorf("%s is sent", r)
				}
			}
		})
	}
}

func TestTheIndexOfACentreIsReplaced(t *testing.T) {
	s, x := tell(t, map[string]answer{"GET /memory": {body: `{"memory-old": {"mappings": {"_meta": {"mneme_centre": "centre", "mneme_fill": "old", "mneme_format": 1}}}}`}})
	if fill, err := x.Fill(t.Context()); err != nil || fill != "old" {
		t.Fatalf("the index belongs to %q (%v)", fill, err)
	}
	if err := x.Begin(t.Context(), "centre", "NEW"); err != nil {
		t.Fatal(err)
	}
	if got, want := s.requests()[1:], []string{"GET /memory", "DELETE /memory-old", "PUT /memory-new"}; !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	for _, part := range []string{`"aliases":{"memory":{}}`, `"dynamic":"strict"`, `"mneme_fill":"NEW"`, `"index.gc_deletes":"1h"`} {
		if !strings.Contains(s.last().body, part) {
			t.Errorf("the index is made without %s: %s", part, s.last().body)
		}
	}
}

func TestCopiesOfAnAccountAreGoneOnlyIfTheEngineSaysSo(t *testing.T) {
	for body, want := range map[string]bool{
		`{"total": 3, "deleted": 3, "version_conflicts": 0, "failures": []}`:                    true,
		`{"total": 3, "deleted": 2, "version_conflicts": 1, "failures": []}`:                    false,
		`{"total": 3, "deleted": 3, "version_conflicts": 0, "failures": [{"id": "x"}]}`:         false,
		`{"total": 0, "deleted": 0, "version_conflicts": 0, "failures": [], "timed_out": true}`: false,
	} {
		s, x := tell(t, map[string]answer{"POST /memory/_delete_by_query": {body: body}})
		if done, err := x.DropAccount(t.Context(), 7); err != nil || done != want {
			t.Errorf("after %s they are gone: %v (%v), want %v", body, done, err, want)
		}
		if a := s.last(); !strings.Contains(a.query, "routing=7") || a.body != `{"query":{"bool":{"filter":[{"term":{"account":7}}]}}}` {
			t.Errorf("?%s with %s is deleted", a.query, a.body)
		}
	}
}

func TestAnAddressWithoutAnIndexOrWithAPasswordIsRefused(t *testing.T) {
	for _, address := range []string{
		"https://host:9200", "https://host:9200/", "https://host:9200/a/b", "https://host:9200/_all", "https://host:9200/a,b", "https://host:9200/a*",
		"https://user:secret@host:9200/memory", "ftp://host/memory", "memory", "https://host:9200/memory?x=y", "https://host:92 00/memory",
	} {
		if _, err := opensearch.Open(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error for %s is %v", address, err)
		}
	}
}
