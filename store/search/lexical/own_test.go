package lexical

import (
	"fmt"
	"slices"
	"testing"
)

// rankedFor returns the ids of documents in the order that a plain query finds them in, out of memory and off a disk.
func rankedFor(t *testing.T, query string, documents []Document) [][]string {
	t.Helper()
	over, err := Over(t.Context(), documents)
	if err != nil {
		t.Fatal(err)
	}
	ix := openIndex(t, t.TempDir())
	defer ix.Close()
	applyToDisk(t, ix, documents)
	return [][]string{ids(find(t, over, 0, Plain(query))), ids(find(t, ix, 0, Plain(query)))}
}

func TestThePersonsOwnWordsCountOnceMore(t *testing.T) {
	const long = " It depends on many things, such as the weather, the season, the budget and the people who come along with you."
	documents := []Document{
		{ID: "a", Own: "Tell me something nice.", Text: "A kayak trip to the glacier is nice." + long},
		{ID: "b", Own: "We took a kayak to the glacier.", Text: "How was that for you?" + long},
		{ID: "c", Own: "What is for dinner?", Text: "Soup." + long},
	}
	for _, ids := range rankedFor(t, "who went to the glacier by kayak", documents) {
		if len(ids) < 2 || ids[0] != "b" || ids[1] != "a" {
			t.Errorf("found %v, want b before a", ids)
		}
	}
}

func TestTurnsOfASessionStandTogether(t *testing.T) {
	documents := []Document{ // each word of the question is as frequent in one session as in the other
		{ID: "a1", Group: "a", Own: "I went sailing with Keiko."},
		{ID: "a2", Group: "a", Own: "The soup was too salty."},
		{ID: "a3", Group: "a", Own: "A walk by the river helps."},
		{ID: "a4", Group: "a", Own: "We met in Lisbon at noon."},
		{ID: "b1", Group: "b", Own: "I went sailing with Ruth."},
		{ID: "b2", Group: "b", Own: "The soup was quite salty."},
		{ID: "c1", Group: "c", Own: "The hat was bought in Lisbon."},
	}
	for _, ids := range rankedFor(t, "where did the sailing trip in Lisbon begin", documents) {
		if sailing := slices.Index(ids, "a1"); sailing < 0 || sailing > slices.Index(ids, "b1") ||
			slices.Index(ids, "a4") < 0 || slices.Index(ids, "a4") > slices.Index(ids, "c1") {
			t.Errorf("found %v, want the turns of the session that says both first", ids)
		}
	}
}

func TestGroupsAreReadOnceAndUpToABound(t *testing.T) {
	const huge, others = mostGroupMembers + 1, 50
	var documents []Document
	for n := range huge {
		documents = append(documents, Document{ID: fmt.Sprintf("huge %d", n), Group: "huge", Own: fmt.Sprint("The glacier, the glacier, the glacier, number ", n)})
	}
	for n := range others {
		documents = append(documents, Document{ID: fmt.Sprintf("other %d", n), Group: fmt.Sprint("other ", n), Own: "A long turn that names the glacier among many other things of that day."})
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
	r, err := s.Rank(Plain("what was said of the glacier then"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seen := make(map[uint32]bool)
	for hit, more := r.Next(); more; hit, more = r.Next() {
		seen[hit.Number] = true
	}
	if len(seen) != huge+others {
		t.Errorf("%d of %d documents are found", len(seen), huge+others)
	}
	if len(r.together) != 1 {
		t.Errorf("%d groups were read, want the huge one alone, which has as many documents as are read", len(r.together))
	}
}
