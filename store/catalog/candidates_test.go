package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

func TestCandidatesHoldRareTermsOrSeveralCommonOnes(t *testing.T) {
	w, err := search.Want(&search.Request{Query: "alpha beta gamma delta"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		frequencies [4]uint64 // of the query's words, in 100,000 turns
		want        string
	}{
		"a rare term alone, others with another": {[4]uint64{10, 3000, 3000, 90_000}, "alpha | beta & delta | beta & gamma"},
		"common terms together":                  {[4]uint64{9000, 10_000, 60_000, 90_000}, "alpha & beta | alpha & delta & gamma"},
		"nothing, where all turns hold them":     {[4]uint64{90_000, 90_000, 90_000, 90_000}, ""},
		"no term that no turn holds":             {[4]uint64{0, 500, 90_000, 90_000}, "beta"},
	} {
		w.Corpus = lexical.Corpus{Documents: 100_000, Frequencies: map[string]uint64{}}
		for i, word := range []string{"alpha", "beta", "gamma", "delta"} {
			w.Corpus.Frequencies["t"+word] = c.frequencies[i]
		}
		find := candidates{account: 1, wanted: w}
		ways := strings.Split(strings.NewReplacer("1:t", "", "'", "", "(", "", ")", "").Replace(find.telling(find.heldTerms(nil), enoughTurns)), " | ")
		for i := range ways {
			terms := strings.Split(ways[i], " & ")
			slices.Sort(terms)
			ways[i] = strings.Join(terms, " & ")
		}
		slices.Sort(ways)
		if got := strings.Join(ways, " | "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
