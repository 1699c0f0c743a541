package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// said captures turns of a session and gives its id and theirs.
func (m *memory) said(account, external string, turns ...script) (session string, ids []string) {
	m.t.Helper()
	for _, turn := range turns {
		ids = append(ids, m.capture(account, turn, func(o *record.Opening) { o.ExternalSession = external }))
	}
	m.found(account, "anything") // and so all of them are digested
	x, err := m.store.Archive().Exchange(account, ids[0])
	m.ok(err)
	return x.Session, ids
}

func (m *memory) sessionsFound(account string, r Request) []string {
	m.t.Helper()
	r.Granularity = Sessions
	list := []string{}
	for _, hit := range m.search(account, r).Data {
		if hit.Exchange != "" {
			m.t.Errorf("a search for sessions finds the turn %s", hit.Exchange)
		}
		list = append(list, hit.Session)
	}
	return list
}

func (m *memory) wantSessions(account, query string, want ...string) {
	m.t.Helper()
	if got := m.sessionsFound(account, Request{Query: query}); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		m.t.Errorf("%s finds the sessions %q, want %q", query, got, want)
	}
}

// A session is found by what no single turn of it says together, at once, and turns are found as if sessions were not.
func TestSessionsAreFoundByAllThatWasSaidInThem(t *testing.T) {
	m := openMemory(t, t.TempDir())
	lock, turns := m.said("acme", "one", talk("Why does the lock fail?", "It times out in pkg/lock/wait.go."), talk("Then raise the limit.", "Raised to thirty."))
	weather, _ := m.said("acme", "two", talk("How is the weather?", "Fine, and no lock in sight."))
	m.said("globex", "one", talk("Why does the lock fail?", "It does not raise."))

	m.wantSessions("acme", "+lock +thirty", lock)
	m.wantSessions("acme", "name:pkg/lock/wait.go", lock)
	m.wantSessions("acme", "fine", weather)
	if got := m.found("acme", "+lock +thirty"); len(got) > 0 {
		t.Errorf("a search for turns finds %q by words of two", got)
	}
	m.wantFound("acme", "thirty", turns[1])

	answer := m.search("acme", Request{Query: "thirty", Granularity: Sessions, Mode: Hybrid})
	if len(answer.Data) != 1 || len(answer.Degraded) != 1 {
		t.Fatalf("found %+v", answer)
	}
	hit := answer.Data[0]
	if hit.Title != "Why does the lock fail?" || hit.Summary.Done != "Raised to thirty." || !strings.Contains(hit.Snippet, "thirty") || len(hit.Highlights) == 0 {
		t.Errorf("the hit says %+v with summary %+v", hit, hit.Summary)
	}
}

// Words that have to stand side by side, or to be said by one of the two, do so in a session too.
func TestPhrasesHoldForSessionsToo(t *testing.T) {
	m := openMemory(t, t.TempDir())
	near, _ := m.said("acme", "one", talk("the lock timeout is short", "so it is"))
	m.said("acme", "two", talk("the timeout of this lock is long", "so it is"))
	said, _ := m.said("acme", "three", talk("what holds the door", "a lock"))
	m.wantSessions("acme", `"lock timeout"`, near)
	m.wantSessions("acme", "assistant:lock", said)
	m.wantSessions("acme", `lock -"lock timeout" -assistant:lock -"timeout of this lock"`)
}

func TestSessionsAreFilteredByTagAndFacet(t *testing.T) {
	m := openMemory(t, t.TempDir())
	first, _ := m.said("acme", "one", talk("where is the lock", "here"))
	second, _ := m.said("acme", "two", talk("where is the lock", "there"))
	_, err := m.store.Archive().DescribeSession("acme", second, record.Description{Tags: []string{"work"}})
	m.ok(err)
	for _, c := range []struct {
		filter Filter
		want   []string
	}{
		{Filter{Field: "tag", Op: "eq", Value: "work"}, []string{second}},
		{Filter{Field: "session", Op: "eq", Value: first}, []string{first}},
		{Filter{Field: "model", Op: "prefix", Value: "claude"}, []string{}},
	} {
		if got := m.sessionsFound("acme", Request{Query: "lock", Filter: c.filter}); !slices.Equal(got, c.want) {
			t.Errorf("%+v finds %q, want %q", c.filter, got, c.want)
		}
	}
}

// The snippets of sessions are held to the tokens that are asked for, as those of turns are, and the next page goes on behind.
func TestSessionsAreHeldToABudgetOfTokens(t *testing.T) {
	m := openMemory(t, t.TempDir())
	sessions := make(map[string]bool)
	for _, name := range []string{"one", "two", "three"} {
		id, _ := m.said("acme", name, talk("where is the lock of door "+name, "here"))
		sessions[id] = true
	}
	whole := m.search("acme", Request{Query: "lock", Granularity: Sessions})
	if len(whole.Data) != 3 {
		t.Fatalf("found %+v", whole.Data)
	}
	most := whole.Data[0].Tokens + whole.Data[1].Tokens
	first := m.search("acme", Request{Query: "lock", Granularity: Sessions, MaxTokens: most})
	if len(first.Data) != 2 || !first.HasMore {
		t.Fatalf("%d tokens have %d sessions, more %v", most, len(first.Data), first.HasMore)
	}
	rest := m.search("acme", Request{Query: "lock", Granularity: Sessions, MaxTokens: most, Offset: len(first.Data)})
	if len(rest.Data) != 1 || rest.HasMore {
		t.Errorf("the next page has %d sessions, more %v", len(rest.Data), rest.HasMore)
	}
	for _, hit := range append(first.Data, rest.Data...) {
		delete(sessions, hit.Session)
	}
	if len(sessions) > 0 {
		t.Errorf("on no page are %v", sessions)
	}
}

// What was erased leaves its session's document before the next search, a session without turns is gone, and an index
// that is rebuilt has the sessions again.
func TestSessionsForgetWhatIsErased(t *testing.T) {
	m := openMemory(t, t.TempDir())
	session, ids := m.said("acme", "one", talk("the secret is marmalade", "noted"), talk("and the weather?", "fine"))
	m.wantSessions("acme", "marmalade", session)
	m.erase("acme", ids[0])
	m.wantSessions("acme", "marmalade")
	m.wantSessions("acme", "weather", session)
	m.ok(m.index.Rebuild(t.Context()))
	m.wantSessions("acme", "weather", session)
	m.reopen(func() {})
	m.wantSessions("acme", "weather", session)
	m.erase("acme", ids[1])
	m.wantSessions("acme", "weather")
}
