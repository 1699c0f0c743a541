package search

import (
	"testing"

	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// What was erased is not found, and after a purge not in the files of the index either.
func TestAnErasedTurnLeavesTheFilesOfTheIndex(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.capture("acme", talk("harmless", "prose"))
	secret := m.capture("acme", talk("the secret is marmalade", "noted"))
	if got := m.found("acme", "marmalade"); len(got) != 1 {
		t.Fatalf("found %q", got)
	}
	m.erase("acme", secret)
	m.wantFound("acme", "marmalade")

	index := m.index
	removed := index.lexical.Removed
	if !removed() {
		t.Fatal("the index does not know that its files hold something that was erased")
	}
	m.ok(index.Purge(t.Context()))
	if removed() {
		t.Error("after a purge its files still hold something that was erased")
	}
	if got := m.found("acme", "harmless"); len(got) != 1 {
		t.Errorf("what stays is found as %q", got)
	}
}

// A session's document is made again some time after one of its turns was erased. A purge does not leave it with what the turn
// said: nothing would tell the next one of it.
func TestAPurgeTakesTheErasedOutOfSessionsToo(t *testing.T) {
	m := openMemory(t, t.TempDir())
	session, ids := m.said("acme", "one", talk("the secret is marmalade", "noted"), talk("and the weather?", "fine"))
	m.wantSessions("acme", "marmalade", session)
	m.erase("acme", ids[0])
	m.wantFound("acme", "marmalade")
	index := m.index
	m.ok(index.Purge(t.Context()))
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	searcher, err := index.lexical.Searcher(t.Context(), uint32(number)|sessionSpace)
	m.ok(err)
	defer func() { m.ok(searcher.Close()) }()
	query, err := lexical.Parse("marmalade", nil)
	m.ok(err)
	ranking, err := searcher.Rank(query, nil)
	m.ok(err)
	defer ranking.Close()
	if _, found := ranking.Next(); found {
		t.Error("the index still knows the session by what was erased")
	}
}
