package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// RunRanking is [RunSearch], and tests what a server needs of a search engine besides.
func RunRanking(t *testing.T, open func(*testing.T) (Memory, Searcher)) {
	RunSearch(t, open)
	runSearches(t, open, []searchProperty{
		{"what is about the question comes first", bestFirst},
		{"words weigh what they do among all turns", wordsWeighAmongAllTurns},
		{"a question finds what was said in other words", otherWords},
		{"a question finds the turn after the one that it repeats", turnsBesideHits},
		{"sessions are found as a whole", sessionsAsAWhole},
		{"sessions are found by what a person has written about them", sessionsByTheirTitle},
		{"facets count what is found, in the account alone", facetsOfWhatIsFound},
		{"what is marked as private is in nothing made of turns", privateIsWithheld},
	})
}

// bestFirst is a gate for how well an engine ranks: each of twelve questions is about one turn, whose words others share.
func bestFirst(t *testing.T, m Memory, s Searcher) {
	turns := []struct{ asked, answered, query string }{
		{"The writer takes the lock of the store twice and hangs.", "Release the mutex before you call flush.", "deadlock of the store's writer lock"},
		{"How do I bake bread with sourdough?", "Let the dough rise over night in the fridge.", "sourdough bread recipe rise"},
		{"Our Postgres migration fails on a column that is not null.", "Add the column with a default first, then the constraint.", "migration not null column default"},
		{"Which index does the query planner use?", "It scans the table, since the filter has a function on the column.", "query planner scans table index"},
		{"The tests fail with a timeout on the slow machine.", "Wait for the condition, and give it a generous deadline.", "tests fail timeout deadline"},
		{"Please write a limerick on a cat.", "There was an old cat from Peru.", "limerick about a cat"},
		{"What does error E1042 of the parser mean?", "The token after the comma is missing; see grammar.go, line 88.", "E1042"},
		{"How long is the flight from Oslo to Tokyo?", "About thirteen hours with no stop.", "flight hours Oslo Tokyo"},
		{"The certificate of the staging host has expired.", "Renew it with certbot and reload nginx.", "renew expired certificate staging"},
		{"Explain how the garbage collector marks objects.", "It walks pointers from the roots, three colors.", "garbage collector marks pointers roots"},
		{"Rename the function parseHeader to readHeader everywhere.", "Done in header.go and header_test.go.", "rename parseHeader"},
		{"My flush loses rows when the process is killed.", "Call fsync on the log before you acknowledge.", "rows lost when killed, fsync log"},
	}
	ids := make([]string, len(turns))
	for i, turn := range turns {
		ids[i] = stored(t, m, fmt.Sprint("conversation ", i), turn.asked, turn.answered)
	}
	first := 0
	for i, turn := range turns {
		found := find(t, s, owner, turn.query)
		if len(found) > 0 && found[0] == ids[i] {
			first++
			continue
		}
		t.Logf("%q does not find its turn first", turn.query)
	}
	if first < len(turns)-1 {
		t.Errorf("%d of %d questions find their turn first", first, len(turns))
	}
}

// otherWords asks for a turn that has no word of the question, and looks at what the explanation tells.
func otherWords(t *testing.T, m Memory, s Searcher) {
	id := stored(t, m, "car", "The automobile of my aunt broke down.", "It needs a mechanic.")
	stored(t, m, "bread", "How do I bake bread?", "With flour.")
	r := &search.Request{Query: "where did her car stop running", Explain: true}
	answer := answerTo(t, s, owner, r)
	if len(answer.Data) != 1 || answer.Data[0].Exchange != id || answer.Data[0].Match != "synonym" {
		t.Errorf("found %+v, want %s by a synonym", answer.Data, id)
	}
	if want := (lexical.UsedSynonym{Word: "car", Synonym: "automobile"}); !slices.Contains(answer.Synonyms, want) {
		t.Errorf("the explanation names %v, want %v among them", answer.Synonyms, want)
	}
	if answer := answerTo(t, s, stranger, r); len(answer.Synonyms) > 0 {
		t.Errorf("to another account the explanation tells which words there are: %v", answer.Synonyms)
	}
	if answer := answerTo(t, s, owner, &search.Request{Query: r.Query}); len(answer.Synonyms) > 0 {
		t.Errorf("nobody asked for an explanation: %v", answer.Synonyms)
	}
}

func sessionsAsAWhole(t *testing.T, m Memory, s Searcher) {
	stored(t, m, "bread", "how do I bake bread?", "with flour")
	first := stored(t, m, "lock", "where is the mutex taken?", "in the writer")
	stored(t, m, "lock", "and which file flushes it?", "the journal")
	info, err := m.ExchangeInfo(owner, first)
	check(t, err)
	for _, r := range []search.Request{
		{Query: "mutex"},
		{Query: "+mutex +journal"}, // which no turn holds both of
		{Query: "journal", Filter: search.Filter{Field: "model", Op: "eq", Value: "m"}},
		{Query: "session:" + info.Session},
	} {
		r.Granularity = search.Sessions
		found := answerTo(t, s, owner, &r).Data
		if len(found) != 1 || found[0].Session != info.Session || found[0].Summary == nil {
			t.Errorf("%q finds %+v, want the session %s with its summary", r.Query, found, info.Session)
		}
		if found := answerTo(t, s, stranger, &r).Data; len(found) > 0 {
			t.Errorf("another account finds %+v by %q", found, r.Query)
		}
	}
	if found := answerTo(t, s, owner, &search.Request{Query: "+mutex +flour", Granularity: search.Sessions}).Data; len(found) > 0 {
		t.Errorf("words of two sessions find %+v", found)
	}
	all := &search.Request{Newest: true, Granularity: search.Sessions}
	if found := answerTo(t, s, owner, all).Data; len(found) != 2 {
		t.Errorf("of two sessions %d are listed", len(found))
	}
}

// sessionsByTheirTitle finds a session by words that were never said in it.
func sessionsByTheirTitle(t *testing.T, m Memory, s Searcher) {
	people, can := m.(Describer)
	if !can {
		t.Skip("nobody can describe a session of this memory")
	}
	stored(t, m, "bread", "how do I bake bread?", "with flour")
	exchange := stored(t, m, "lock", "where is the mutex taken?", "in the writer")
	info, err := m.ExchangeInfo(owner, exchange)
	check(t, err)
	title, none := "The kumquat of the harbor", ""
	_, err = people.DescribeSession(owner, info.Session, record.Description{Title: &title, Tags: []string{"Release Blocker", "q3"}})
	check(t, err)
	tagged := func(op, value string) search.Filter { return search.Filter{Field: "tag", Op: op, Value: value} }
	searches := []search.Request{
		{Query: "kumquat"},
		{Query: "+kumquat +mutex"}, // one is in the title, one in a turn
		{Query: `"kumquat of the harbor"`},
		{Query: "mutex", Filter: tagged("eq", "q3")},
		{Filter: tagged("eq", "Release Blocker")},
		{Filter: tagged("prefix", "Release")},
		{Filter: search.Filter{And: []search.Filter{tagged("eq", "q3"), {Field: "model", Op: "eq", Value: "m"}}}},
	}
	for _, r := range searches {
		r.Granularity = search.Sessions
		if found := answerTo(t, s, owner, &r).Data; len(found) != 1 || found[0].Session != info.Session || found[0].Title != title {
			t.Errorf("%q with %+v finds %+v, want the session %s", r.Query, r.Filter, found, info.Session)
		}
		if found := answerTo(t, s, stranger, &r).Data; len(found) > 0 {
			t.Errorf("another account finds %+v by %q with %+v", found, r.Query, r.Filter)
		}
	}
	_, err = people.DescribeSession(owner, info.Session, record.Description{Title: &none, Tags: []string{}})
	check(t, err)
	for _, r := range []search.Request{searches[0], searches[4]} {
		r.Granularity = search.Sessions
		if found := answerTo(t, s, owner, &r).Data; len(found) > 0 {
			t.Errorf("%+v is found by a title or a tag that it had before", found)
		}
	}
}

func facetsOfWhatIsFound(t *testing.T, m Memory, s Searcher) {
	for n := range 3 {
		stored(t, m, fmt.Sprint(n), fmt.Sprintf("where is mutex %d taken?", n), "in the writer")
	}
	stored(t, m, "garden", "please water my garden", "done")
	for _, c := range []struct {
		request search.Request
		turns   uint64
	}{
		{search.Request{Query: "mutex"}, 3},
		{search.Request{Query: "mutex", Granularity: search.Sessions}, 3},
		{search.Request{Query: "mutex garden"}, 4},
		{search.Request{Query: "+mutex garden"}, 3},
		{search.Request{Newest: true}, 4},
		{search.Request{Query: "mutex", Filter: search.Filter{Field: "model", Op: "eq", Value: "other"}}, 0},
	} {
		r := c.request
		r.Limit, r.Facets = 1, true
		counted := uint64(0)
		for _, model := range answerTo(t, s, owner, &r).Facets["model"] {
			if counted += model.Count; model.Value != "m" {
				t.Errorf("%+v counts the model %s", c.request, model.Value)
			}
		}
		if counted != c.turns {
			t.Errorf("%+v counts the models of %d turns, want %d", c.request, counted, c.turns)
		}
		for name, values := range answerTo(t, s, stranger, &r).Facets {
			if len(values) > 0 {
				t.Errorf("another account is shown %s: %+v", name, values)
			}
		}
	}
}

// wordsWeighAmongAllTurns has turns without any word of the query, beside which both of its words are rare. Among those with a
// word alone, one would be too common to outweigh the other.
func wordsWeighAmongAllTurns(t *testing.T, m Memory, s Searcher) {
	for n := range 30 {
		stored(t, m, fmt.Sprint("other ", n), "please water my garden", "done")
	}
	for n := range 5 {
		stored(t, m, fmt.Sprint("harbor ", n), "please paint my harbor", "done")
	}
	for n := range 4 {
		stored(t, m, fmt.Sprint("lantern ", n), "please paint my lantern", "done")
	}
	twice := stored(t, m, "twice", "please paint my harbor harbor", "done")
	if found := find(t, s, owner, "harbor lantern"); len(found) != 3 || found[0] != twice { // like turns are one hit
		t.Errorf("%v are found, want the turn that has a word twice, %s, and then one of each kind", found, twice)
	}
}

func turnsBesideHits(t *testing.T, m Memory, s Searcher) {
	stored(t, m, "bread", "how do I bake bread?", "with flour")
	before := stored(t, m, "lock", "so far all is well", "good")
	asked := stored(t, m, "lock", "where is the mutex of the journal taken?", "let me look")
	after := stored(t, m, "lock", "go on", "in the writer")
	found := find(t, s, owner, "where was it that the mutex of the journal is taken")
	if len(found) != 3 || found[0] != asked || !slices.Contains(found, before) || !slices.Contains(found, after) {
		t.Errorf("%v are found, want %s, and %s and %s beside it", found, asked, before, after)
	}
}
