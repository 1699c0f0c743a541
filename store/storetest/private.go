package storetest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// privateIsWithheld: what is marked as private stays in the record, and nothing made of turns has it.
func privateIsWithheld(t *testing.T, m Memory, s Searcher) {
	long := strings.Repeat("some other words ", 200)
	asked := []string{
		"Where is the gate? <private>The code is quokkacode.</private> Thanks.",
		"Where is the gate? <PRIVATE reason=\"home\">" + long + "The code is quokkacode.</Private> Thanks.",
		"Where is the gate? < private >a <private>b</private> The code is quokkacode.</private> Thanks.",
		"Where is the gate? Thanks. <private>" + long + "The code is quokkacode.",
		"<private>The code is quokkacode.</private>",
	}
	for i, text := range asked {
		id := stored(t, m, "conversation", text, "North. <private>Open it with quokkacode.</private>")
		x, err := m.Exchange(owner, id)
		check(t, err)
		if !strings.Contains(string(x.RawRequest), "quokkacode") || !strings.Contains(string(x.RawResponse), "quokkacode") {
			t.Errorf("%d: the record is not as it came: %s %s", i, x.RawRequest, x.RawResponse)
		}
	}
	if found := find(t, s, owner, "quokkacode"); len(found) > 0 {
		t.Errorf("found by the private word: %v", found)
	}
	if found := find(t, s, owner, "where is the gate"); len(found) == 0 {
		t.Errorf("found by the other words: %v", found)
	}
	answer, err := s.Search(t.Context(), owner, &search.Request{Query: "gate North", Limit: 10, Snippet: 2000})
	check(t, err)
	sessions, err := m.Sessions(owner, record.SessionQuery{})
	check(t, err)
	timeline, err := m.Timeline(owner, sessions.Data[0].ID, record.TimelineQuery{})
	check(t, err)
	if len(timeline.Data) != len(asked) {
		t.Errorf("the timeline has %d exchanges", len(timeline.Data))
	}
	beginning, err := search.ReadBeginning(m, owner, sessions.Data[0].ID)
	check(t, err)
	if !strings.HasPrefix(beginning.Asked, "Where is the gate?") {
		t.Errorf("the session begins with %q", beginning.Asked)
	}
	for name, made := range map[string]any{"search": answer, "sessions": sessions, "timeline": timeline, "beginning": beginning} {
		if text, err := json.Marshal(made); err != nil || strings.Contains(string(text), "quokkacode") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}
