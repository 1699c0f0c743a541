package lexical

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPostingsAreSortedByDocumentsHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := postingSorter{documents: rapid.IntRange(1, 20_000).Draw(t, "documents")}
		number := rapid.Uint32Range(0, uint32(s.documents-1))
		for range rapid.IntRange(1, 4).Draw(t, "lists") {
			var list []posting
			for _, n := range rapid.SliceOfNDistinct(number, 1, min(s.documents, 200), rapid.ID).Draw(t, "numbers") {
				list = append(list, posting{number: n, frequency: n + 1})
			}
			want := slices.Clone(list)
			slices.SortFunc(want, compareNumbers)
			if got := s.sort(list); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		}
	})
}
