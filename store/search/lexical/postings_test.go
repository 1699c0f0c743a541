package lexical

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Of words that are in thousands of documents hits are chosen in several rounds. What comes out is the same as by the book,
// also after documents have gone or changed, and when the same is asked again.
func TestCommonWordsScoreByTheBook(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer func() { ix.Close() }()
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
	check()
}

// While documents come, are replaced and go, and their segments are written and merged beside that, a search sees each batch
// whole or not at all, and every document once. In the end all scores are by the book.
func TestSearchesSeeWholeBatchesWhileSegmentsMerge(t *testing.T) {
	dir := t.TempDir()
	ix, err := Open(dir, Options{WriteAfter: time.Millisecond, Failed: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	const batches, perBatch = 150, 20
	done := make(chan struct{})
	var searching sync.WaitGroup
	for range 2 {
		searching.Go(func() {
			for running := true; running; {
				select {
				case <-done:
					running = false
				default:
				}
				seen := make(map[string]bool)
				for _, hit := range find(t, ix, 1, Plain("lock")) {
					if seen[hit.id] {
						t.Errorf("%s is found twice", hit.id)
					}
					seen[hit.id] = true
				}
				if len(seen)%perBatch != 0 {
					t.Errorf("%d documents are found: a part of a batch", len(seen))
				}
			}
		})
	}
	there := make(map[string]Document)
	random := rand.New(rand.NewPCG(3, 3))
	words := []string{"timeout", "retry", "queue", "E4711", "pkg/lock/wait.go"}
	write := func(n int) []Document {
		batch := make([]Document, perBatch)
		for i := range batch {
			text := "lock" + strings.Repeat(" "+words[random.IntN(len(words))], random.IntN(5))
			batch[i] = Document{Account: 1, ID: fmt.Sprintf("%04d/%02d", n, i), Text: text, Output: words[random.IntN(len(words))]}
			there[batch[i].ID] = batch[i]
		}
		return batch
	}
	for n := range batches {
		batch := write(n)
		var gone []Key
		switch {
		case n%5 == 4: // a batch from before goes
			for i := range perBatch {
				key := Key{1, fmt.Sprintf("%04d/%02d", n-3, i)}
				gone = append(gone, key)
				delete(there, key.ID)
			}
		case n%5 == 2: // one is replaced
			batch = append(batch, write(n-1)...)
		}
		apply(t, ix, batch, gone...)
		if n%20 == 19 {
			if err := ix.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	searching.Wait()
	for opened := range 2 {
		for _, query := range []string{"lock", "retry timeout", "E4711", "wait.go queue"} {
			want, got := bruteForce(there, 1, query), find(t, ix, 1, Plain(query))
			if len(got) != len(want) {
				t.Errorf("%q: %d hits, want %d", query, len(got), len(want))
			}
			for _, g := range got {
				if math.Abs(want[g.id]-g.score) > 1e-6 {
					t.Fatalf("%q: %s is worth %v, by the book %v", query, g.id, g.score, want[g.id])
				}
			}
		}
		if len(ix.segments) >= 2*mergeTogether {
			t.Errorf("%d segments are left", len(ix.segments))
		}
		ix.Close()
		if opened == 0 {
			ix = openIndex(t, dir)
		}
	}
}
