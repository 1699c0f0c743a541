package search

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// titled gives a session a title.
func (m *memory) titled(account, session, title string) {
	m.t.Helper()
	_, err := m.store.Archive().DescribeSession(account, session, record.Description{Title: &title})
	m.ok(err)
}

// What a query demands holds for all turns of one session together, however many, and for its title.
func TestASessionSatisfiesAQueryWithAllItsTurns(t *testing.T) {
	m := openMemory(t, t.TempDir())
	long := make([]script, 0, 80)
	long = append(long, talk("hello", "hello"), talk("the walrus sleeps", "so it does"))
	for i := range 78 { // more than are read of a session
		long = append(long, talk(fmt.Sprintf("question %d", i), "answer"))
	}
	long = append(long, ran("Run it.", "ls", "an otter", "Done."))
	all, _ := m.said("acme", "all", long...)
	half, _ := m.said("acme", "half", talk("the walrus eats", "so it does"), talk("oysters", "it rests"))
	other, _ := m.said("acme", "other", talk("no animal but an otter", "swims"))
	m.titled("acme", half, "A narwhal")
	for query, want := range map[string][]string{
		"+walrus +otter":          {all},
		"walrus -otter":           {half},
		"otter -walrus":           {other},
		"+otter tool:bash":        {all},
		"+walrus -tool:bash":      {half},
		"+walrus +narwhal":        {half},
		"+otter -narwhal -walrus": {other},
		"+otter +narwhal":         {},
		`+"walrus eats" +rests`:   {half},
		`+rests -"walrus eats"`:   {},
		`+otter -"animal otter"`:  {all},
		`+"eats oysters" +walrus`: {}, // the words stand side by side in no turn
	} {
		m.wantSessions("acme", query, want...)
	}
}

// The comparisons of a filter may be satisfied by different turns of a session, the denied ones by none.
func TestASessionPassesAFilterWithAllItsTurns(t *testing.T) {
	m := openMemory(t, t.TempDir())
	of := func(session, model string, s script) string {
		id := m.capture("acme", s, func(o *record.Opening) { o.ExternalSession, o.ModelAsked = session, model })
		m.found("acme", "anything")
		x, err := m.store.Archive().Exchange("acme", id)
		m.ok(err)
		return x.Session
	}
	both := of("both", "gpt-5", talk("the walrus", "here"))
	of("both", "claude-4", ran("Run it.", "ls", "an otter", "Done."))
	one := of("one", "gpt-5", talk("the walrus", "here"))
	two := of("two", "claude-4", talk("the walrus", "here"))
	is := func(field, value string) Filter { return Filter{Field: field, Op: "eq", Value: value} }
	late := Filter{Field: "time", Op: "lt", Value: time.Now().Add(time.Hour).Format(time.RFC3339)}
	tool := is("tool", "bash")
	for name, c := range map[string]struct {
		filter Filter
		want   []string
	}{
		"both models":            {Filter{And: []Filter{is("model", "gpt-5"), is("model", "claude-4")}}, []string{both}},
		"both models, by a time": {Filter{And: []Filter{is("model", "gpt-5"), is("model", "claude-4"), late}}, []string{both}},
		"no tool":                {Filter{Not: &tool}, []string{two, one}},
		"no tool, by a time":     {Filter{And: []Filter{late, {Not: &tool}}}, []string{two, one}},
		"either":                 {Filter{Or: []Filter{tool, is("session", two)}}, []string{two, both}},
	} {
		for _, query := range []string{"walrus", "+walrus", "-zebra", ""} {
			got := m.sessionsFound("acme", Request{Query: query, Filter: c.filter})
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("%q with the filter of %s finds %q, want %q", query, name, got, c.want)
			}
		}
	}
}

// A listing has the session with the newest turn first. A session is in it, and is found, as soon as its turn is.
func TestASessionIsListedByItsNewestTurn(t *testing.T) {
	m := openMemory(t, t.TempDir())
	first, _ := m.said("acme", "one", talk("the walrus", "here"))
	second, _ := m.said("acme", "two", talk("the otter", "there"))
	list := func() []string { return m.sessionsFound("acme", Request{Newest: true}) }
	if got := list(); !slices.Equal(got, []string{second, first}) {
		t.Errorf("listed %q, want the newer session first", got)
	}
	_, ids := m.said("acme", "one", talk("and a seal", "as well"))
	m.wantSessions("acme", "+walrus +seal", first)
	if got := list(); !slices.Equal(got, []string{first, second}) {
		t.Errorf("listed %q, want the one that went on first", got)
	}
	m.erase("acme", ids[0])
	m.wantSessions("acme", "+walrus +seal")
	m.wantSessions("acme", "seal")
	m.wantSessions("acme", "walrus -seal", first)
	if got := list(); !slices.Equal(got, []string{second, first}) {
		t.Errorf("listed %q after the erasure of its newest turn", got)
	}
}

// Turns that are moved count for the session in which they are, and a title for the session that has it.
func TestMovedTurnsCountForTheirSession(t *testing.T) {
	m := openMemory(t, t.TempDir())
	from, ids := m.said("acme", "one", talk("the walrus", "here"), talk("the otter", "there"))
	into, _ := m.said("acme", "two", talk("the seal", "too"))
	m.titled("acme", from, "Of narwhals")
	m.wantSessions("acme", "narwhals", from)
	_, err := m.store.Archive().MergeSession(t.Context(), "acme", from, into)
	m.ok(err)
	m.wantSessions("acme", "+walrus +seal", into)
	m.wantSessions("acme", "+narwhals")
	split, err := m.store.Archive().SplitSession(t.Context(), "acme", into, ids[1])
	m.ok(err)
	m.wantSessions("acme", "+walrus +otter")
	m.wantSessions("acme", "otter", split.ID)
}
