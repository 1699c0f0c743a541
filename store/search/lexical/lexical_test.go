package lexical

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openIndex(t testing.TB, dir string) *Index {
	t.Helper()
	ix, err := Open(dir, Options{WriteAfter: 50 * time.Millisecond, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := ix.Verify(t.Context(), func(d Damage) { t.Error(&d) }); err != nil {
		t.Fatal(err)
	}
	return ix
}

func apply(t testing.TB, ix *Index, documents []Document, gone ...Key) {
	t.Helper()
	if err := ix.Apply(t.Context(), documents, gone, func() {}); err != nil {
		t.Fatal(err)
	}
}

// applyToDisk is apply, and waits until the files have it.
func applyToDisk(t testing.TB, ix *Index, documents []Document, gone ...Key) {
	t.Helper()
	written := make(chan struct{})
	if err := ix.Apply(t.Context(), documents, gone, func() { close(written) }); err != nil {
		t.Fatal(err)
	}
	select {
	case <-written:
	case <-time.After(time.Minute): // only a failure takes that long
		t.Fatal("the batch was not written to disk")
	}
}

type scored struct {
	id    string
	score float64
}

func find(t testing.TB, ix *Index, account uint32, q *Query) (found []scored) {
	t.Helper()
	s, err := ix.Searcher(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ranking, err := s.Rank(q, nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		hit, ok := ranking.Next()
		if !ok {
			return found
		}
		id, err := s.ID(hit.Number)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, scored{id, hit.Score})
	}
}

func ids(found []scored) []string {
	list := make([]string, len(found))
	for i := range found {
		list[i] = found[i].id
	}
	return list
}

func parse(t testing.TB, text string) *Query {
	t.Helper()
	q, err := Parse(text, []string{"tool"})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// BM25 by the book, over the plain terms of every document.
func bruteForce(documents map[string]Document, account uint32, query string) map[string]float64 {
	scores := make(map[string]float64)
	for _, field := range []struct {
		of    func(Document) []string
		query []string
		k1, b float64
		share float64
	}{
		{func(d Document) []string { return terms(prose([]byte(d.Text))) }, terms(prose([]byte(query))), 1.5, 0.5, 1},
		{func(d Document) []string { return terms(outputWords([]byte(d.Output))) }, terms(prose([]byte(query))), 1.5, 0.75, 0.4},
		{func(d Document) []string {
			return append(terms(identifiers([]byte(d.Text))), terms(identifiers([]byte(d.Names)))...)
		}, namesOf(query, isLookup(query)), 1.2, 0.3, 1},
	} {
		texts, total, documentsWith := make(map[string][]string), 0, make(map[string]int)
		for id, d := range documents {
			if d.Account != account {
				continue
			}
			texts[id] = field.of(d)
			total += len(texts[id])
			for _, term := range slices.Compact(slices.Sorted(slices.Values(texts[id]))) {
				documentsWith[term]++
			}
		}
		n := float64(len(texts))
		average := max(float64(total)/max(n, 1), 1)
		for _, term := range field.query {
			df := float64(documentsWith[term])
			for id, text := range texts {
				frequency := 0.0
				for _, other := range text {
					if other == term {
						frequency++
					}
				}
				if frequency > 0 {
					idf := math.Log(1 + (n-df+0.5)/(df+0.5))
					scores[id] += field.share * idf * frequency * (field.k1 + 1) / (frequency + field.k1*(1-field.b+field.b*float64(len(text))/average))
				}
			}
		}
	}
	return scores
}

// happen does to an index one of the things that happen to it by themselves, and gives the index that is there then.
func happen(t testing.TB, ix *Index, dir, what string) *Index {
	t.Helper()
	var err error
	switch what {
	case "written":
		err = ix.Flush(t.Context())
	case "merged":
		ix.mu.RLock() // the head may be written at any time
		segments := slices.Clone(ix.segments)
		ix.mu.RUnlock()
		if len(segments) > 0 {
			err = ix.rewrite(t.Context(), segments)
		}
	case "purged":
		err = ix.Purge(t.Context())
	case "opened":
		ix.Close()
		return openIndex(t, dir)
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return ix
}

// Whatever was added, replaced and deleted in whatever batches, and written, merged, purged and opened again between them,
// scores are those of BM25 over what is there now, with the numbers of the one account.
func TestScoresAreExactlyBM25(t *testing.T) {
	vocabulary := []string{"lock", "timeout", "the", "retry", "pkg/lock/wait.go", "getUserByID", "E4711", "naïve", "検索システム", "waiting", "don't"}
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		ix := openIndex(t, dir)
		_ = ix.merges.Acquire(t.Context(), 1) // merged is what the test says
		defer func() { ix.Close() }()
		there := make(map[string]Document)
		words := rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, 12)
		for range rapid.IntRange(1, 8).Draw(rt, "batches") {
			var batch []Document
			var gone []Key
			for range rapid.IntRange(0, 8).Draw(rt, "documents") {
				d := Document{
					Account: uint32(rapid.SampledFrom([]int{1, 2, 9}).Draw(rt, "account")),
					Text:    strings.Join(words.Draw(rt, "text"), " "), Names: strings.Join(words.Draw(rt, "names"), " "),
					Output: strings.Join(words.Draw(rt, "output"), " "),
				}
				d.ID = fmt.Sprintf("%d/%d", d.Account, rapid.IntRange(0, 9).Draw(rt, "id"))
				batch = append(batch, d)
				there[d.ID] = d
			}
			for id, d := range there {
				if rapid.IntRange(0, 5).Draw(rt, "gone") == 0 {
					gone = append(gone, Key{d.Account, id})
					delete(there, id)
				}
			}
			apply(t, ix, batch, gone...)
			switch what := rapid.SampledFrom([]string{"nothing", "nothing", "written", "merged", "purged", "opened"}).Draw(rt, "then"); what {
			case "purged":
				ix.merges.Release(1)
				ix = happen(t, ix, dir, what)
				_ = ix.merges.Acquire(t.Context(), 1)
			case "opened":
				ix = happen(t, ix, dir, what)
				_ = ix.merges.Acquire(t.Context(), 1)
			default:
				ix = happen(t, ix, dir, what)
			}
		}
		query := strings.Join(words.Draw(rt, "query"), " ")
		for _, account := range []uint32{1, 2, 9} {
			want := bruteForce(there, account, query)
			got := find(t, ix, account, Plain(query))
			if len(got) != len(want) {
				rt.Fatalf("account %d, query %q: found %v, want %v", account, query, got, want)
			}
			for _, g := range got {
				if w, ok := want[g.id]; !ok || math.Abs(w-g.score) > 1e-6 {
					rt.Fatalf("account %d, query %q: %s scores %v, want %v", account, query, g.id, g.score, w)
				}
			}
		}
	})
}

var library = []Document{
	{ID: "lock", Text: "The lock time-out in pkg/lock/wait.go is raised as E4711 by acquireLock()."},
	{ID: "retry", Text: "Retry after the lock was released; waiting doubles.", Facets: []Facet{{"tool", "bash"}}},
	{ID: "order", Text: "Released was the lock, not timed out."},
	{ID: "cjk", Text: "検索システムのロックが遅い"},
	{ID: "names", Text: "done", Names: "go test ./pkg/lock -run TestAcquire --count=1"},
}

func TestQueriesSayWhatTheyMean(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer func() { ix.Close() }()
	for i := range library {
		library[i].Account = 7
	}
	apply(t, ix, library)
	for _, test := range []struct {
		query string
		want  []string // in any order
	}{
		{"lock", []string{"lock", "retry", "order", "names"}},
		{"E4711", []string{"lock"}},
		{"wait.go", []string{"lock", "retry"}},
		{"acquire lock", []string{"lock", "retry", "order", "names"}},
		{"acquirelock", []string{"lock"}},
		{"waits", []string{"lock", "retry"}},
		{"システム", []string{"cjk"}},
		{"+lock +retry", []string{"retry"}},
		{"lock AND retry", []string{"retry"}},
		{"lock -retry", []string{"lock", "order", "names"}},
		{"lock NOT (retry OR time)", []string{}},
		{"lock NOT retry", []string{"lock", "order", "names"}},
		{"+(retry OR E4711) lock", []string{"lock", "retry"}},
		{"rele*", []string{"retry", "order"}},
		{"tool:bash", []string{"retry"}},
		{"tool:ba*", []string{"retry"}},
		{"tool:bash OR E4711", []string{"lock", "retry"}},
		{"E4711 OR tool:bash OR tool:none", []string{"lock", "retry"}},
		{"lock -tool:bash", []string{"lock", "order", "names"}},
		{"--count=1", []string{"names"}},
		{"name:testacquire", []string{"names"}},
		{"the", []string{}},
		{"", []string{}},
	} {
		got := ids(find(t, ix, 7, parse(t, test.query)))
		slices.Sort(got)
		slices.Sort(test.want)
		if test.query == "" || test.query == "the" {
			if !parse(t, test.query).Empty() {
				t.Errorf("query %q is not said to be empty", test.query)
			}
			continue
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", test.query, got, test.want)
		}
	}
}

func TestPhrasesAndSpeakersAreMatchedOnTheText(t *testing.T) {
	said := Said{User: "Please release the lock now", Assistant: "The lock was released."}
	for query, want := range map[string]bool{
		`"release the lock"`:                 true,
		`"release now"`:                      false,
		`"lock was released"`:                true,
		`user:now`:                           true,
		`assistant:now`:                      false,
		`assistant:"release lock"`:           false,
		`-"release the lock"`:                false,
		`lock -user:released NOT user:other`: false,
		`"now lock" OR "release lock"`:       true,
	} {
		q := parse(t, query)
		if !q.Exact() {
			t.Errorf("%s does not ask to see the text", query)
		}
		if got := q.Matches(said); got != want {
			t.Errorf("%s: matches %v, want %v", query, got, want)
		}
	}
}

func TestBadQueriesSayWhere(t *testing.T) {
	for query, at := range map[string]int{
		`lock "time out`: 5,
		`lock (time`:     5,
		`lock ) time`:    5,
		`AND lock`:       0,
		`lock AND`:       8,
		`a*`:             0,
		`lock user: x`:   10,
		strings.Repeat("(", 40) + "x" + strings.Repeat(")", 40): 16,
	} {
		_, err := Parse(query, nil)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || syntax.At != at {
			t.Errorf("%s: error %v, want one at byte %d", query, err, at)
		}
	}
}

// No text makes the parser, the analysis or the highlighting fail.
func TestAnyTextIsAQuery(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.String().Draw(rt, "text")
		q, err := Parse(text, []string{"tool"})
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.At < 0 || syntax.At > len(text) {
				rt.Fatalf("error %v", err)
			}
			q = Plain(text)
		}
		end := 0
		for _, place := range q.Highlights(text) {
			if place[0] < end || place[1] <= place[0] || place[1] > len(text) {
				rt.Fatalf("highlight %v of %q", place, text)
			}
			end = place[1]
		}
		q.Matches(Said{User: text})
	})
}

// No word and no bytes, be they text or not, make the analysis fail.
func TestAnyWordHasAStem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		for _, word := range rapid.SliceOf(rapid.StringMatching(`[a-zA-Z]{1,14}('s)?`)).Draw(rt, "words") {
			if term, ok := stem([]byte(word)); ok && term == "" {
				rt.Fatalf("the stem of %q is empty", word)
			}
		}
		if bytes := rapid.SliceOf(rapid.Byte()).Draw(rt, "bytes"); len(bytes) > 0 {
			analyze(&Document{Text: string(bytes), Names: string(bytes)})
		}
	})
}

// What Apply has taken is there after the index is opened again; accounts do not see each other's.
func TestDocumentsStayAndKeepToTheirAccount(t *testing.T) {
	dir := t.TempDir()
	ix := openIndex(t, dir)
	applyToDisk(t, ix, []Document{{Account: 1, ID: "a", Text: "secret lock"}, {Account: 9, ID: "a", Text: "open lock"}})
	ix.Close()
	if err := Whole(dir); err != nil {
		t.Fatal(err)
	}
	ix = openIndex(t, dir)
	defer func() { ix.Close() }()
	for account, word := range map[uint32]string{1: "open", 9: "secret", 17: "lock"} {
		for _, query := range []string{word, word[:3] + "*", "+" + word, "NOT nothing " + word} {
			if found := find(t, ix, account, parse(t, query)); len(found) > 0 {
				t.Errorf("account %d finds %v with %s", account, found, query)
			}
		}
	}
	if found := find(t, ix, 1, parse(t, "NOT open")); len(found) != 1 {
		t.Errorf("account 1 has %v", found)
	}
	apply(t, ix, nil, Key{1, "a"})
	if totals, err := ix.Totals(1); err != nil || totals != (Totals{}) {
		t.Errorf("an emptied account has %+v, %v", totals, err)
	}
}

func TestHighlightsCoverWordsAndNames(t *testing.T) {
	text := "Naïve locks: getUserByID waits."
	var marked []string
	for _, place := range parse(t, "naive wait getUserByID").Highlights(text) {
		marked = append(marked, text[place[0]:place[1]])
	}
	if want := []string{"Naïve", "getUserByID", "waits"}; !slices.Equal(marked, want) {
		t.Errorf("highlighted %q, want %q", marked, want)
	}
}

// A group of words that say nothing is as if it were not there: it neither finds all documents nor takes them away.
func TestAGroupThatSaysNothingIsLeftOut(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer func() { ix.Close() }()
	apply(t, ix, []Document{{Account: 1, ID: "lock", Text: "a lock"}, {Account: 1, ID: "key", Text: "a key"}})
	for _, text := range []string{"lock (the of)", "lock -(the of)", "+lock +(the (of))", "lock OR (the)", `+lock -("the of" -the)`} {
		q, err := Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(find(t, ix, 1, q)); !slices.Equal(got, []string{"lock"}) || !q.Matches(Said{User: "a lock"}) {
			t.Errorf("%s finds %q, want the lock alone", text, got)
		}
	}
}

// outputWords returns the words of tools' inputs and outputs.
func outputWords(text []byte) []token {
	return slices.DeleteFunc(prose(text), func(t token) bool { return saysNothingInOutput(t.term) })
}
