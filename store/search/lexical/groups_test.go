package lexical

import "testing"

// A group holds what its documents hold together, and what the document that has its name says.
func TestGroupsHoldWhatTheirDocumentsHold(t *testing.T) {
	over := func(documents ...Document) *Searcher {
		t.Helper()
		ix, err := Over(t.Context(), documents)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ix.Searcher(t.Context(), documents[0].Account)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	red := []Facet{{"color", "red"}}
	turns := over(
		Document{Account: 1, ID: "1", Group: "a", Text: "walrus"},
		Document{Account: 1, ID: "2", Group: "b", Text: "walrus", Facets: red},
		Document{Account: 1, ID: "3", Group: "a", Text: "otter otter", Facets: red},
		Document{Account: 1, ID: "4", Group: "b", Text: "seal"},
		Document{Account: 1, ID: "5", Text: "walrus otter"},
	)
	named := over(Document{Account: 9, ID: "b", Text: "narwhal"})
	groups := turns.Grouped(1, named)
	keys := []uint64{GroupKey(1, "a"), GroupKey(1, "b")}
	for text, want := range map[string][2]bool{
		"+walrus +otter":             {true, false},
		"+walrus -otter":             {false, true},
		"-walrus":                    {},
		"+wal* +narw*":               {false, true},
		"color:red -seal":            {true, false},
		"+(otter narwhal) +walrus":   {true, true},
		"color:re*":                  {true, true},
		"color:blue OR +(+seal)":     {false, true},
		`+"walrus seal"`:             {false, true}, // the order is checked later
		"+zebra":                     {},
		"-zebra":                     {true, true},
		"+walrus -(narwhal AND cat)": {true, true},
	} {
		q, err := Parse(text, []string{"color"})
		if err != nil {
			t.Fatal(err)
		}
		set, err := groups.Matching(q)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{groups.Has(set, keys[0]), groups.Has(set, keys[1])}; got != want {
			t.Errorf("%q holds for a and b: %v, want %v", text, got, want)
		}
	}
	q := Plain("walrus otter narwhal")
	for i, want := range []int{2, 2} {
		covered, err := groups.Coverage(q, keys[i], []uint32{0}[:i]...)
		if err != nil || covered.Words != want {
			t.Errorf("group %d covers %+v, want %d words; %v", i, covered, want, err)
		}
	}
	scores, err := groups.ScoreWhole(q, keys)
	if err != nil || scores[0] <= scores[1] || scores[1] <= 0 {
		t.Errorf("as wholes they score %v, want more for the one that holds two words; %v", scores, err)
	}
}
