package search

import (
	"testing"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/storetest/fixture"
)

// The file in testdata/format-2 was written by mneme at commit d2da146, the last one with a log for each follower: a memory whose
// index had taken up three turns and their sessions, and then was closed before the store was, in which three more sessions
// began, one went on and one was renamed.
func TestAMemoryOfFormat2LosesNothing(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, "testdata/format-2/memory.tar.gz", dir)
	m := openMemoryWith(t, dir, Options{Embedder: newSpeaker("speaker/1", 32)})
	for range 3 { // what is left is done after any of these
		m.reopen(func() {})
	}
	for _, word := range []string{"done0", "done1", "done2", "new0", "new1", "new2", "grown1"} {
		if found := m.found("acme", word); len(found) != 1 {
			t.Errorf("%s finds %q, want the one turn that says it", word, found)
		}
	}
	kept := make(map[string]string)
	page, err := m.store.Archive().Exchanges("acme", store.ExchangeQuery{})
	m.ok(err)
	for _, x := range page.Data {
		kept[x.ID] = ""
	}
	if len(kept) != 7 {
		t.Errorf("%d exchanges, want 7", len(kept))
	}
	checkVectors(m, kept)
	for query, title := range map[string]string{"renamed2": "renamed2", "new1": "", "grown1": ""} {
		sessions := m.search("acme", Request{Query: query, Granularity: Sessions}).Data
		if len(sessions) != 1 || title != "" && sessions[0].Title != title {
			t.Errorf("%s finds the sessions %+v, want one", query, sessions)
		}
	}
	m.untilConfirmed(store.StageWords, store.StageSessions, store.StageVectors)
	report, err := m.check(t.Context(), false, func(f store.Finding) { t.Errorf("a check finds %+v", f) })
	if err != nil || report.Findings > 0 {
		t.Errorf("%d findings, %v", report.Findings, err)
	}
}
