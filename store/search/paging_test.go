package search

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
)

// What says the very same as a hit of a page is not a hit of the next one.
func TestDuplicatesDoNotComeBackOnTheNextPage(t *testing.T) {
	m := openMemory(t, t.TempDir())
	for range 3 {
		m.capture("acme", talk("where is the lock", "in the lock drawer"))
	}
	other := m.capture("acme", talk("what about this lock and all that is around it", "nothing that anybody knows of"))
	first := m.search("acme", Request{Query: "lock", Limit: 1})
	if len(first.Data) != 1 || first.Data[0].Exchange == other || !first.HasMore {
		t.Fatalf("the first page is %+v", first)
	}
	second := m.search("acme", Request{Query: "lock", Limit: 1, Offset: 1})
	if got := exchangesOf(second); !slices.Equal(got, []string{other}) || second.HasMore {
		t.Errorf("the second page is %v, want %s alone", got, other)
	}
}

// Whoever reads page by page gets each turn once, also where recency moves hits that are far down by their words.
func TestPagesByRecencyGiveEachTurnOnce(t *testing.T) {
	m := openMemory(t, t.TempDir())
	const old, recent, limit = reordered + 20, 60, 100
	var capturing sync.WaitGroup
	for worker := range 8 {
		capturing.Go(func() {
			for i := worker; i < old+recent; i += 8 {
				words := fmt.Sprintf("lock lock lock number%d", i)
				if i >= old {
					words = fmt.Sprintf("lock number%d", i)
				}
				_, err := captureScript(m.store, "acme", talk(words, "ok"), func(o *store.Opening) {
					if i < old {
						o.Started = time.Now().AddDate(0, -6, 0)
					}
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	capturing.Wait()
	found := make(map[string]bool)
	for offset, more := 0, true; more; offset += limit {
		page := m.search("acme", Request{Query: "lock", Limit: limit, Offset: offset, Ranking: Ranking{RecencyWeight: 0.9}})
		more = page.HasMore
		for _, id := range exchangesOf(page) {
			if found[id] {
				t.Fatalf("%s is on the page from %d on, and on one before it", id, offset)
			}
			found[id] = true
		}
	}
	if len(found) != old+recent {
		t.Errorf("all pages together have %d turns of %d", len(found), old+recent)
	}
}
