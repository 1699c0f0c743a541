package search

import (
	"fmt"
	"strings"
	"testing"
)

// What had ended before a wait is found behind it, also when the digester takes it off its list in that moment.
func TestWhatHadEndedIsFoundBehindAWait(t *testing.T) {
	m := openMemory(t, t.TempDir())
	padding := strings.Repeat("long ", 2000) // digested behind the exchange, not in its commit
	for i := range 100 {
		word := fmt.Sprintf("word%d", i)
		want := m.capture("acme", talk(word+" "+padding, "ok"))
		m.ok(m.index.Wait(t.Context(), "acme"))
		answer, err := m.index.Search(t.Context(), "acme", &Request{Query: word})
		m.ok(err)
		if got := exchangesOf(answer); len(got) != 1 || got[0] != want {
			t.Fatalf("round %d found %v, want %s", i, got, want)
		}
	}
}
