package search

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
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

// Page by page, each turn comes once, whatever the pages are weighed by and however far they go.
func TestPagesGiveEachTurnOnce(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 256)})
	const turns = 900
	var capturing sync.WaitGroup
	for worker := range 8 {
		capturing.Go(func() {
			for i := worker; i < turns; i += 8 {
				words := strings.Repeat("lock ", 1+i%5) + fmt.Sprintf("word%d word%d number%d", i%11, i%7, i)
				if _, err := captureScript(m.store, "acme", talk(words, "ok"), func(*record.Opening) {}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	capturing.Wait()
	for mode, limit := range map[Mode]int{Lexical: 100, Vector: 100, Hybrid: 30} {
		if read := m.readPages(Request{Query: "lock word3 word4", Mode: mode, Limit: limit}); len(read) != turns {
			t.Errorf("%s: all pages together have %d turns of %d", mode, len(read), turns)
		}
	}
}

// readPages reads a search of acme to its end.
func (m *memory) readPages(r Request) (read map[string]bool) {
	m.t.Helper()
	read = make(map[string]bool)
	for more := true; more; r.Offset += r.Limit {
		page := m.search("acme", r)
		more = page.HasMore
		for _, id := range exchangesOf(page) {
			if read[id] {
				m.t.Fatalf("%s: %s is on the page from %d on, and on one before it", r.Mode, id, r.Offset)
			}
			read[id] = true
		}
	}
	return read
}

// Page by page, each turn comes once, also where recency moves hits that are far down by their words.
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
				_, err := captureScript(m.store, "acme", talk(words, "ok"), func(o *record.Opening) {
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
	found := m.readPages(Request{Query: "lock", Limit: limit, Ranking: Ranking{RecencyWeight: 0.9}})
	if len(found) != old+recent {
		t.Errorf("all pages together have %d turns of %d", len(found), old+recent)
	}
}
