package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// recollect keeps a text at a place, which quotes exchanges.
func recollect(t testing.TB, s *Store, key record.RecollectionKey, own string, quotes ...string) {
	t.Helper()
	r := record.Recollection{Exchange: own, Text: "It was the lease.", Quotes: quotes}
	if _, err := s.Notes().Recollect(context.Background(), "acme", []record.RecollectionKey{key}, r); err != nil {
		t.Fatal(err)
	}
}

// recollectedAt returns the texts at places; "-" where nothing was decided.
func recollectedAt(t testing.TB, s *Store, keys ...record.RecollectionKey) string {
	t.Helper()
	found, err := s.Notes().Recollections("acme", keys)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range found {
		if r == nil {
			texts = append(texts, "-")
			continue
		}
		texts = append(texts, r.Text+r.Reason)
	}
	return strings.Join(texts, "|")
}

func TestACachedRecollectionIsRemovedWithWhatItQuotes(t *testing.T) {
	s := openStore(t, Options{Digest: digestTest})
	mustAccount(t, s, "acme")
	quoted, own := capture(t, s, "acme", `{"said":"the lease"}`, "{}"), capture(t, s, "acme", "{}", "{}")
	first, second, third := record.RecollectionKey{1}, record.RecollectionKey{2}, record.RecollectionKey{3}
	recollect(t, s, first, own)
	recollect(t, s, second, own, quoted)
	for range 2 { // from disk, then from memory
		if got := recollectedAt(t, s, first, second, third); got != "It was the lease.|It was the lease.|-" {
			t.Fatalf("before the erasure: %s", got)
		}
	}
	recollect(t, s, third, own)
	if got := recollectedAt(t, s, third, first); got != "It was the lease.|It was the lease." {
		t.Errorf("a place at which something was decided later has %s", got)
	}
	erase(t, s, "acme", record.Selection{Exchanges: []string{quoted}})
	for range 2 {
		if got := recollectedAt(t, s, first, second); got != "It was the lease.|-" {
			t.Errorf("after the erasure: %s", got)
		}
	}
}

// What is read while exchanges are erased must not come back from memory afterwards.
func TestConcurrentReadersCacheNothingErased(t *testing.T) {
	s := openStore(t, Options{Digest: digestTest})
	mustAccount(t, s, "acme")
	own := capture(t, s, "acme", "{}", "{}")
	for round := range 20 {
		key := record.RecollectionKey{byte(round)}
		quoted := capture(t, s, "acme", fmt.Sprintf(`{"said":%d}`, round), "{}")
		recollect(t, s, key, own, quoted)
		done := make(chan struct{})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_, _ = s.Notes().Recollections("acme", []record.RecollectionKey{key})
					}
				}
			})
		}
		erase(t, s, "acme", record.Selection{Exchanges: []string{quoted}})
		close(done)
		readers.Wait()
		if got := recollectedAt(t, s, key); got != "-" {
			t.Fatalf("round %d: %s", round, got)
		}
	}
}
