package lexical

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// Words that are in thousands of documents are scored from lists that are kept, and hits are chosen in several rounds. What
// comes out is the same as by the book, also after documents have gone or changed, and when the same is asked again.
func TestCommonWordsScoreByTheBookWhateverIsKept(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer func() { _ = ix.Close() }()
	random := rand.New(rand.NewPCG(7, 7))
	common := []string{"lock", "timeout", "retry", "queue", "E4711"}
	there := make(map[string]Document)
	put := func(numbers ...int) {
		batch := make([]Document, 0, len(numbers))
		for _, n := range numbers {
			words := make([]string, 1+random.IntN(12))
			for i := range words {
				words[i] = common[random.IntN(len(common))]
			}
			d := Document{Account: 1, ID: fmt.Sprint(n), Text: strings.Join(words, " ")}
			there[d.ID] = d
			batch = append(batch, d)
		}
		apply(t, ix, batch)
	}
	check := func() {
		t.Helper()
		for _, query := range []string{"lock", "lock timeout retry", "E4711", "lock lock queue nothing"} {
			want := bruteForce(there, 1, query)
			for range 2 {
				got := find(t, ix, 1, Plain(query))
				if len(got) != len(want) {
					t.Fatalf("%q: %d hits, want %d", query, len(got), len(want))
				}
				seen := make(map[string]bool)
				for i, g := range got {
					if w, ok := want[g.id]; !ok || seen[g.id] || math.Abs(w-g.score) > 1e-6 {
						t.Fatalf("%q: hit %d is %v, worth %v by the book", query, i, g, w)
					}
					if i > 0 && g.score > got[i-1].score {
						t.Fatalf("%q: hit %d is better than the one before", query, i)
					}
					seen[g.id] = true
				}
			}
		}
	}
	numbers := make([]int, 6000)
	for n := range numbers {
		numbers[n] = n
	}
	put(numbers[:4000]...)
	put(numbers[4000:]...)
	check()
	if len(ix.lists.held) == 0 {
		t.Error("no list is kept")
	}
	var gone []Key
	for _, id := range slices.Sorted(maps.Keys(there))[:500] {
		gone = append(gone, Key{1, id})
		delete(there, id)
	}
	apply(t, ix, nil, gone...)
	put(10, 20, 5000)
	check()
	if err := ix.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(ix.lists.held) > 0 || ix.lists.bytes != 0 {
		t.Errorf("%d lists are kept of what was purged", len(ix.lists.held))
	}
	check()
}

// However many words are asked for, the lists that are kept stay within their bound; those that are used stay longest.
func TestKeptListsAreBounded(t *testing.T) {
	kept := newLists()
	used := listName{term: "used"}
	kept.put(used, make([]posting, longList))
	const length = 1 << 16
	for n := range 2 * listMemory / (length * int(unsafe.Sizeof(posting{}))) {
		kept.put(listName{term: fmt.Sprint(n)}, make([]posting, length))
		if kept.get(used) == nil {
			t.Fatal("a list that is used all the time was dropped")
		}
	}
	if kept.bytes > listMemory || kept.get(listName{term: "0"}) != nil {
		t.Errorf("%d bytes are kept, at most %d should be", kept.bytes, listMemory)
	}
	kept.put(listName{term: "huge"}, make([]posting, listMemory))
	if kept.bytes > listMemory || kept.get(listName{term: "huge"}) != nil {
		t.Error("a list was kept that is larger than all of them may be")
	}
}
