package lexical

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Documents that are worth the same come by their ids, the later one first, in whatever order and segments they came into
// the index; so that who reads page by page meets each of them once.
func TestEquallyGoodHitsComeTheLatestFirst(t *testing.T) {
	const count = 2*firstChoice + 100
	ix := openIndex(t, t.TempDir())
	defer ix.Close()
	order := rand.New(rand.NewPCG(1, 2)).Perm(count)
	for chunk := range slices.Chunk(order, 50) {
		var documents []Document
		for _, n := range chunk {
			text := "a lock"
			if n%3 == 0 {
				text = "a lock and a lock"
			}
			documents = append(documents, Document{Account: 1, ID: fmt.Sprintf("exch_%06d", n), Text: text})
		}
		apply(t, ix, documents)
	}
	var want []string
	for _, third := range []bool{true, false} { // two locks are better than one
		for n := count - 1; n >= 0; n-- {
			if (n%3 == 0) == third {
				want = append(want, fmt.Sprintf("exch_%06d", n))
			}
		}
	}
	for _, query := range []string{"lock", "+lock"} {
		got := ids(find(t, ix, 1, parse(t, query)))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d hits, want %d; the first %v", query, len(got), len(want), got[:min(5, len(got))])
		}
	}
}
