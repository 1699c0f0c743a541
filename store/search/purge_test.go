package search

import (
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
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

// A model's summary goes with what was erased, also from the files of the index.
func TestAPurgeTakesTheErasedOutOfSummariesToo(t *testing.T) {
	m := openMemory(t, t.TempDir())
	session, ids := m.said("acme", "one", talk("the secret is marmalade", "noted"), talk("and the weather?", "fine"))
	written := record.SessionSummary{Text: "It was about quinces.", By: "model m", Written: time.Now()}
	m.ok(m.store.Summaries().KeepSessionSummary(t.Context(), "acme", session, written, nil, ids))
	m.wantSessions("acme", "quinces", session)
	m.erase("acme", ids[0])
	m.wantFound("acme", "marmalade") // the index knows that the turn is erased
	m.ok(m.index.Purge(t.Context()))
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	about, err := m.index.lexical.Searcher(t.Context(), uint32(number)|aboutSpace)
	m.ok(err)
	defer func() { m.ok(about.Close()) }()
	if n, removed := about.Documents(), m.index.lexical.Removed(); n > 0 || removed {
		t.Errorf("the index still knows the session by a summary of what was erased: %d documents, removed %t", n, removed)
	}
	m.wantSessions("acme", "quinces")
}
