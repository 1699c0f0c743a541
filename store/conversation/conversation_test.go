package conversation_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
)

// began is when the first exchange of every test begins; each later one begins a minute after the one before.
var began = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// memory is what an engine has stored of one account.
type memory struct {
	t         rapid.TB
	sessions  map[string][]byte
	links     map[string]string
	turns     map[string][]byte
	histories map[conversation.History][]byte
}

func newMemory(t rapid.TB) *memory {
	return &memory{t, map[string][]byte{}, map[string]string{}, map[string][]byte{}, map[conversation.History][]byte{}}
}

// change opens the sessions for a change, and stores what it has changed.
func (m *memory) change(do func(*conversation.Sessions)) {
	m.t.Helper()
	in := conversation.NewSessions(1,
		func(id string) ([]byte, error) { return m.sessions[id], nil },
		func(key []byte) (string, error) { return m.links[string(key)], nil })
	do(in)
	sessions, links, err := in.Changed()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, s := range sessions {
		if m.sessions[s.ID] = s.Record; s.Record == nil {
			delete(m.sessions, s.ID)
		}
	}
	for _, l := range links {
		if m.links[string(l.Key)] = l.Session; l.Session == "" {
			delete(m.links, string(l.Key))
		}
	}
}

// session returns a session, or the one that it was merged into.
func (m *memory) session(id string) *record.Session {
	m.t.Helper()
	s, err := record.FollowMerges(id, func(id string) (*record.Session, error) { return record.ReadSession(m.sessions[id]) })
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// whole lists the sessions that were not merged into another one.
func (m *memory) whole() (ids []string) {
	for id := range m.sessions {
		if m.session(id).ID == id {
			ids = append(ids, id)
		}
	}
	return ids
}

// arrive joins an exchange that an edge captured in a session there, and unites what turns out to be one conversation.
func (m *memory) arrive(n int, there *record.StoredSession) (session string) {
	started := began.Add(time.Duration(n) * time.Minute)
	x := conversation.Arrival{Account: 1, Session: there, Info: &record.ExchangeInfo{
		ID: record.DerivedExchangeID(started, "exchange"), Account: "acme", Surface: "chat", Started: started, Outcome: record.OutcomeComplete,
	}}
	m.change(func(in *conversation.Sessions) {
		session = x.Join(in)
		if rest := x.Rest(); rest != "" {
			in.Unite(rest, session)
		}
	})
	return session
}

// at is a session as an edge began it, with the links of its ids.
func at(edge string, ids record.Session) *record.StoredSession {
	ids.ID, ids.Account, ids.Created, ids.Updated = record.DerivedSessionID(began, edge), "acme", began, began
	return &record.StoredSession{Session: ids}
}

func TestAConversationOverSeveralEdgesIsOneSession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(t)
		many := rapid.IntRange(2, 12).Draw(t, "exchanges")
		for n := range many {
			edge := rapid.SampledFrom([]string{"edge 1", "edge 2", "edge 3"}).Draw(t, "edge")
			m.arrive(n, at(edge, record.Session{NativeSession: "the agent's own id"}))
		}
		if ids := m.whole(); len(ids) != 1 || m.session(ids[0]).Exchanges != int64(many) {
			t.Fatalf("%d exchanges are in the sessions %v", many, ids)
		}
	})
}

func TestSessionsWhoseIdsContradictEachOtherStayApart(t *testing.T) {
	m := newMemory(t)
	first := m.arrive(0, at("edge 1", record.Session{ChatKey: "one", NativeSession: "agent"}))
	second := m.arrive(1, at("edge 2", record.Session{ChatKey: "two", NativeSession: "agent"}))
	if first == second || len(m.whole()) != 2 {
		t.Errorf("%s and %s; sessions %v", first, second, m.whole())
	}
}

func TestAMergeKeepsWhatLeadsToBothAndWhatPeopleWrote(t *testing.T) {
	m := newMemory(t)
	from := m.arrive(0, at("edge 1", record.Session{NativeSession: "from"}))
	into := m.arrive(5, at("edge 2", record.Session{NativeSession: "into"}))
	title, note := "The invoices", "Ask Ada."
	m.change(func(in *conversation.Sessions) {
		if _, err := in.Describe(from, record.Description{Title: &title, Tags: []string{"billing"}, Note: &note}, nil); err != nil {
			t.Fatal(err)
		}
		if !in.Unite(from, into) {
			t.Fatal("they are not united")
		}
	})
	s := m.session(from)
	if s.ID != into || s.Title != title || !slices.Equal(s.Tags, []string{"billing"}) || s.Note != note || !s.Updated.Equal(began.Add(5*time.Minute)) {
		t.Errorf("%+v", s)
	}
	if again := m.arrive(9, at("edge 3", record.Session{NativeSession: "from"})); again != into {
		t.Errorf("an exchange of the merged session is in %s", again)
	}
	m.change(func(in *conversation.Sessions) {
		if _, err := in.Merge(from, into); err == nil {
			t.Error("it is merged twice")
		}
		if _, err := in.Merge(into, into); err == nil {
			t.Error("it is merged into itself")
		}
	})
}

func TestAnExchangeThatLeavesTakesItsSessionWithItIfItWasTheLast(t *testing.T) {
	m := newMemory(t)
	var id string
	for n := range 2 {
		id = m.arrive(n, at("edge 1", record.Session{NativeSession: "agent"}))
	}
	for n, want := range []bool{false, true} {
		m.change(func(in *conversation.Sessions) {
			gone, keys := in.Leave(id, &record.ExchangeInfo{Outcome: record.OutcomeComplete})
			if gone != want || gone && len(keys) == 0 {
				t.Errorf("exchange %d: gone %t, %d keys", n, gone, len(keys))
			}
		})
	}
	if len(m.sessions) != 0 {
		t.Errorf("sessions %v", m.whole())
	}
}

// said digests a body that is a list of messages, and an answer that is one.
func said(x *record.Exchange) (d record.Digest, err error) {
	var messages []string
	if err := json.Unmarshal(x.RawRequest, &messages); err != nil {
		return d, err
	}
	for i, text := range messages {
		d.Messages = append(d.Messages, record.Message{Role: []string{"user", "assistant"}[i%2], Parts: []record.Part{{Kind: "text", Text: text}}})
	}
	d.Answer = []record.Message{{Role: "assistant", Parts: []record.Part{{Kind: "text", Text: string(x.RawResponse)}}}}
	return d, nil
}

// add digests exchanges together, and stores their turns.
func (m *memory) add(exchanges ...*record.Exchange) {
	m.t.Helper()
	turns := conversation.Turns{
		Digest: said, Log: slog.New(slog.DiscardHandler),
		ReadHistories: func(wanted []conversation.History) (map[conversation.History][]byte, error) {
			found := map[conversation.History][]byte{}
			for _, h := range wanted {
				if note := m.histories[h]; note != nil {
					found[h] = note
				}
			}
			return found, nil
		},
		ReadTurns: func(ids []string) (map[string][]byte, error) {
			found := map[string][]byte{}
			for _, id := range ids {
				if turn := m.turns[id]; turn != nil {
					found[id] = turn
				}
			}
			return found, nil
		},
	}
	turns.Add(exchanges)
	changed, histories, err := turns.Changed()
	if err != nil {
		m.t.Fatal(err)
	}
	for id, turn := range changed {
		m.turns[id] = turn
	}
	for h, note := range histories {
		m.histories[h] = note
	}
}

// texts are what the messages of a turn say.
func texts(messages []record.Message) (said []string) {
	for _, m := range messages {
		for _, p := range m.Parts {
			said = append(said, p.Text)
		}
	}
	return said
}

// A client sends its whole conversation with each request. Whatever order the exchanges arrive in, each message is shown
// once, in the turn that brought it.
func TestEachMessageIsInTheTurnThatBroughtItInAnyOrderOfArrival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(t)
		var exchanges []*record.Exchange
		var history []string
		for n := range rapid.IntRange(1, 7).Draw(t, "exchanges") {
			history = append(history, fmt.Sprintf("question %d", n))
			body, _ := json.Marshal(history)
			answer := fmt.Sprintf("answer %d", n)
			started := began.Add(time.Duration(n) * time.Minute)
			exchanges = append(exchanges, &record.Exchange{
				ExchangeInfo: record.ExchangeInfo{ID: record.DerivedExchangeID(started, "exchange"), Session: record.DerivedSessionID(began, "session"), Started: started, Outcome: record.OutcomeComplete},
				RawRequest:   body, RawResponse: []byte(answer),
			})
			history = append(history, answer)
		}
		arriving := rapid.Permutation(exchanges).Draw(t, "order")
		for len(arriving) > 0 {
			together := rapid.IntRange(1, len(arriving)).Draw(t, "together")
			m.add(arriving[:together]...)
			arriving = arriving[together:]
		}
		for n, x := range exchanges {
			turn, _, err := record.ReadTurn(m.turns[x.ID])
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(append(texts(turn.Messages), texts(turn.Answer)...), ", ")
			if want := fmt.Sprintf("question %d, answer %d", n, n); got != want || turn.Branch {
				t.Errorf("turn %d: %s (branch %t), want %s", n, got, turn.Branch, want)
			}
		}
	})
}

func TestRollupsNeverFall(t *testing.T) {
	info := &record.ExchangeInfo{Started: began, ModelAsked: "gpt-5-mini", Usage: record.UsageInfo{Output: 5}}
	stored := map[string][]byte{}
	read := func([][]byte) (map[string][]byte, error) { return stored, nil }
	count := func(times int) conversation.Rollups {
		sums := conversation.Rollups{}
		for range times {
			sums.Count(1, info)
		}
		return sums
	}
	requests := func() (n int64) {
		for key, value := range stored {
			_, r, err := conversation.ReadRollup([]byte(key), value)
			if err != nil {
				t.Fatal(err)
			}
			n += r.Requests
		}
		return n
	}
	for _, step := range []struct {
		join func(conversation.Rollups, conversation.RollupReader) (map[string][]byte, error)
		with int
		want int64
	}{
		{conversation.Rollups.AddTo, 2, 2},
		{conversation.Rollups.AddTo, 3, 5},
		{conversation.Rollups.Raise, 4, 5}, // one was erased since: what it used stays
		{conversation.Rollups.Raise, 6, 6},
	} {
		changed, err := step.join(count(step.with), read)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range changed {
			stored[key] = value
		}
		if got := requests(); got != step.want {
			t.Errorf("%d requests, want %d", got, step.want)
		}
	}
}
