package lexical

import (
	"slices"
	"strings"
	"testing"
)

// usedFor ranks the documents for a query in operators, and returns the synonyms that were used and the ids that were found.
func usedFor(t *testing.T, query string, texts ...string) (synonyms, ids []string) {
	t.Helper()
	var documents []Document
	for i, text := range texts {
		documents = append(documents, Document{ID: string(rune('a' + i)), Text: text})
	}
	ix, err := Over(t.Context(), documents)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ix.Searcher(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	q, err := Parse(query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Rank(q, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		hit, more := r.Next()
		if !more {
			break
		}
		id, err := s.ID(hit.Number)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, u := range q.Used() {
		synonyms = append(synonyms, u.Word+"="+u.Synonym)
	}
	return synonyms, ids
}

func TestAQuestionFindsWhatWasSaidInOtherWords(t *testing.T) {
	texts := []string{
		"We bought a rapid car for the family.",
		"The weather was fine all week.",
		"She purchased an automobile.",
	}
	used, ids := usedFor(t, "who did purchase the quick automobile", texts...)
	if !slices.Equal(ids, []string{"c", "a"}) { // the words themselves come first
		t.Errorf("found %v by %v, want c and a", ids, used)
	}
	if !slices.Contains(used, "automobile=car") {
		t.Errorf("used %v, want automobile=car among them", used)
	}
}

func TestAMistypedWordOfAQuestionFindsTheWordNearIt(t *testing.T) {
	texts := []string{
		"Backups are compressed with zstd.",
		"The weather was fine all week.",
		"Lampreys are fish.",
	}
	for query, want := range map[string]string{
		"which compresion do we use for it": "a", //nolint:misspell // a letter less, on purpose
		"what is the waether on that day":   "b", // two exchanged
		"what sort of lamprreys are there":  "c", // a letter more
		"what sort of lamprevs are there":   "c", // another letter
		"what sort of lamprev are there":    "c",
		"which sort of lammprevs is there":  "", // two errors
		"which of the fxsh is there today":  "", // too short to be sure
	} {
		used, ids := usedFor(t, query, texts...)
		if got := strings.Join(ids, ""); got != want {
			t.Errorf("%q found %q by %v, want %q", query, got, used, want)
		}
	}
	if used, ids := usedFor(t, "what is the weather at the waether station", append(texts, "A station for waether.")...); slices.Contains(used, "waether=weather") {
		t.Errorf("a word that is on record was corrected: %v by %v", ids, used)
	}
}

func TestWhatIsNoPlainWordOfAQuestionHasNoSynonyms(t *testing.T) {
	const text = "The car ruth pity automobilist motorcar auto machine compassion child fille"
	for what, query := range map[string]string{
		"a lookup":        "find automobile",
		"a phrase":        `where is the "old automobile" now`,
		"a required word": "where is the +automobile now kept",
		"an excluded one": "where is the -automobile now kept",
		"a field's word":  "where is the user:automobile now kept",
		"a name":          "where is pkg/automobile now kept",
		"a symbol":        "where is the newAutomobile function kept",
		"a proper name":   "where is my friend Automobile now kept",
		"other languages": "wo ist das automobile von meinem bruder",
	} {
		if used, ids := usedFor(t, query, text, "nothing here"); len(used) > 0 {
			t.Errorf("%s: %q used %v and found %v", what, query, used, ids)
		}
	}
	if used, _ := usedFor(t, "where is the automobile now kept", text); len(used) == 0 {
		t.Error("a plain word of a question has no synonyms")
	}
}

func TestASynonymCountsOnlyWhereItsWordIsAbsent(t *testing.T) {
	query := "where did the automobile stop yesterday"
	scores := func(text string) float64 {
		ix, err := Over(t.Context(), []Document{{ID: "a", Text: text}, {ID: "b", Text: "car wash"}, {ID: "c", Text: "a long walk in the park"}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := ix.Searcher(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		r, err := s.Rank(Plain(query), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		return r.Score(0)
	}
	both, word, synonym := scores("automobile car"), scores("automobile lake"), scores("lake car")
	if both > word || synonym >= word/2 || synonym <= 0 {
		t.Errorf("the word scores %.3f, with its synonym %.3f, the synonym alone %.3f", word, both, synonym)
	}
}

func TestASynonymThatManyDocumentsHoldIsNotUsed(t *testing.T) {
	texts := []string{"the automobile stopped"}
	for range fewHoldSynonyms + 1 {
		texts = append(texts, "a car went by")
	}
	if used, _ := usedFor(t, "where is the automobile now kept", texts...); slices.Contains(used, "automobile=car") {
		t.Errorf("used %v", used)
	}
}

func TestHighlightsShowSynonymsWhereNoWordStands(t *testing.T) {
	q := Plain("where is the automobile now kept")
	ix, err := Over(t.Context(), []Document{{ID: "a", Text: "the car"}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ix.Searcher(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	r, err := s.Rank(q, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if got := q.Highlights("the car"); !slices.Equal(got, [][2]int{{4, 7}}) {
		t.Errorf("the synonym is not shown: %v", got)
	}
	if got := q.Highlights("the automobile, a car"); !slices.Equal(got, [][2]int{{4, 14}}) {
		t.Errorf("beside the word the synonym is shown: %v", got)
	}
}
