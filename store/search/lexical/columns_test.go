package lexical

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever was written, replaced and deleted in whatever batches, the neighbors of a document are those of its group that
// are there now, and no document of another group or account.
func TestNeighborsAreThoseOfTheGroup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ix := openIndex(t, t.TempDir())
		defer ix.Close()
		there := make(map[Key]string) // groups
		for range rapid.IntRange(1, 5).Draw(rt, "batches") {
			batch := make(map[Key]Document)
			for range rapid.IntRange(1, 8).Draw(rt, "documents") {
				k := Key{uint32(rapid.SampledFrom([]int{1, 9}).Draw(rt, "account")), fmt.Sprintf("exch_%d", rapid.IntRange(0, 12).Draw(rt, "id"))}
				batch[k] = Document{Account: k.Account, ID: k.ID, Text: "lock", Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "group")}
			}
			var documents []Document
			for k, d := range batch {
				documents = append(documents, d)
				there[k] = d.Group
			}
			var gone []Key
			for k := range there {
				if _, fresh := batch[k]; !fresh && rapid.IntRange(0, 4).Draw(rt, "gone") == 0 {
					gone = append(gone, k)
					delete(there, k)
				}
			}
			apply(t, ix, documents, gone...)
		}
		for _, account := range []uint32{1, 9} {
			s, err := ix.Searcher(t.Context(), account)
			if err != nil {
				rt.Fatal(err)
			}
			for k, group := range there {
				if k.Account != account {
					continue
				}
				var members []string
				for other, of := range there {
					if other.Account == account && of == group && group != "" {
						members = append(members, other.ID)
					}
				}
				slices.Sort(members)
				var want []string
				if at, in := slices.BinarySearch(members, k.ID); in {
					want = append(want, members[max(at-1, 0):at]...)
					want = append(want, members[at+1:min(at+2, len(members))]...)
				}
				number, found, err := s.Number(k.ID)
				if err != nil || !found {
					rt.Fatalf("%v is not found (%v)", k, err)
				}
				numbers := s.neighbors(number, nil)
				var got []string
				for _, n := range numbers {
					id, err := s.ID(n)
					if err != nil {
						rt.Fatal(err)
					}
					got = append(got, id)
				}
				if !slices.Equal(got, want) {
					rt.Fatalf("%v in group %q has the neighbors %v, want %v", k, group, got, want)
				}
			}
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// Of two equal hits the one counts for more whose neighbor holds words of the query, too.
func TestNeighborsCount(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer ix.Close()
	apply(t, ix, []Document{
		{Account: 1, ID: "exch_1", Text: "we talk about sailing", Group: "one"},
		{Account: 1, ID: "exch_2", Text: "the harbor", Group: "one"},
		{Account: 1, ID: "exch_3", Text: "something else", Group: "one"},
		{Account: 1, ID: "exch_4", Text: "the harbor", Group: "two"},
		{Account: 1, ID: "exch_5", Text: "nothing of that", Group: "two"},
	})
	got := find(t, ix, 1, Plain("harbor sailing"))
	slices.SortStableFunc(got, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	if want := []string{"exch_2", "exch_1", "exch_4"}; !slices.Equal(ids(got), want) && !slices.Equal(ids(got), []string{"exch_1", "exch_2", "exch_4"}) {
		t.Errorf("found %v, want the two of one session before %v", got, want[2])
	}
	asked := find(t, ix, 1, Plain("where is the harbor that we left"))
	if want := []string{"exch_2", "exch_4"}; len(asked) != 5 || asked[0].id == "exch_1" || !slices.Contains(want, asked[0].id) || !slices.Contains(want, asked[1].id) {
		t.Errorf("a question finds %v, want both that hold its word and then their neighbors", asked)
	}
}

func TestCoverageIsTheShareOfTheQuery(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer ix.Close()
	apply(t, ix, []Document{
		{Account: 1, ID: "all", Text: "the lock of pkg/lock/wait.go", Output: "connection refused"},
		{Account: 1, ID: "half", Text: "the lock is open"},
		{Account: 1, ID: "none", Text: "nothing of this"},
	})
	s, err := ix.Searcher(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var numbers []uint32
	for _, id := range []string{"all", "half", "none"} {
		number, _, err := s.Number(id)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, number)
	}
	got, err := s.Coverage(Plain("why was the connection refused by the lock"), numbers)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Share != 1 || got[1].Share <= 0 || got[1].Share >= 0.5 || got[2].Share != 0 {
		t.Errorf("coverages are %v, want 1, less than a half for the commonest of three words, and 0", got)
	}
	if got[0].Words != 3 || got[1].Words != 1 || got[2].Words != 0 || got[0].Names != 0 {
		t.Errorf("held are %v, want three words, one, and none", got)
	}
}
