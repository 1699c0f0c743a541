package store

import (
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// newEdge is the store of a node of a cluster that ships.
func newEdge(t *testing.T, node uint16) *talk {
	s := openStore(t, Options{Digest: digestTest, Node: node})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	beginShipping(t, s)
	return &talk{t, s}
}

func chatKey(o *record.Opening, key string) *record.Opening { o.ChatKey = key; return o }

// listSessions returns the sessions of acme, page by page.
func listSessions(t *testing.T, s *Store, q record.SessionQuery) (ids []string) {
	t.Helper()
	for {
		page, err := s.Archive().Sessions("acme", q)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Data {
			ids = append(ids, page.Data[i].ID)
		}
		if !page.HasMore {
			return ids
		}
		q.After = page.Data[len(page.Data)-1].ID
	}
}

func TestEdgesGiveAConversationOneSession(t *testing.T) {
	one, two := newEdge(t, 1), newEdge(t, 2)
	agent := func(o *record.Opening) *record.Opening { o.NativeSession, o.NativeAgent = "n", "agent"; return o }
	first := one.session(chatKey(say("1"), "k"), "2")
	if got := two.session(chatKey(say("1", "2", "3"), "k"), "4"); got != first {
		t.Errorf("the second turn, at another edge, is of session %s, the first one of %s", got, first)
	}
	helper := one.session(agent(say("x")), "y")
	if got := two.session(agent(say("x", "y", "z")), "w"); got != helper || got == first {
		t.Errorf("the subagent has the sessions %s and %s", helper, got)
	}
	for _, o := range []*record.Opening{chatKey(say("1"), "other"), chatKey(with(say("1"), func(o *record.Opening) { o.Account = "other" }), "k")} {
		if got := two.session(o, "2"); got == first {
			t.Error("another conversation, or another account's, is of the same session")
		}
	}
	for _, c := range []*talk{one, two} {
		mustBeSound(t, c.s)
	}
}

func TestARequestThatFollowsASessionOfAnotherEdgeIsOfIt(t *testing.T) {
	one, two := newEdge(t, 1), newEdge(t, 2)
	onResponses := func(o *record.Opening) *record.Opening {
		o.Surface, o.Format = codec.Responses, codec.Responses
		return o
	}
	_, first := one.exchange(onResponses(chatKey(say("1"), "k")), record.OutcomeComplete, "2")
	follows := onResponses(with(say("5"), func(o *record.Opening) { o.PreviousResponse, o.Follows = "resp_elsewhere", first }))
	if got := two.session(follows, "6"); got != first {
		t.Errorf("where the other edge said which session it is, it is %s, want %s", got, first)
	}
}

// While the node that gave an answer is away, a request that goes on from the answer fails, and is recorded in a session of its
// own. Once the node is back, the same request is of the session of the answer.
func TestARepeatedRequestIsOfTheSessionThatItGoesOnFrom(t *testing.T) {
	one, two := newEdge(t, 1), newEdge(t, 2)
	onResponses := func(o *record.Opening) *record.Opening {
		o.Surface, o.Format = codec.Responses, codec.Responses
		return o
	}
	id, first := one.exchange(onResponses(say("1")), record.OutcomeComplete, "2")
	next := func(follows string) *record.Opening {
		return onResponses(with(say("3"), func(o *record.Opening) { o.PreviousResponse, o.Follows = "resp_"+id, follows }))
	}
	if _, session := two.exchange(next(""), record.OutcomeRefused, ""); session == first {
		t.Fatalf("the answer was not found, and its session is known: %s", session)
	}
	if _, session := two.exchange(next(first), record.OutcomeComplete, "4"); session != first {
		t.Errorf("the repeated request is of session %s, and the answer of %s", session, first)
	}
	mustBeSound(t, two.s)
}

func TestSessionsOfAClusterAreListedInTheirOrder(t *testing.T) {
	c := newEdge(t, 1)
	var want []string
	began := time.Now().Add(-time.Hour)
	for _, o := range []*record.Opening{chatKey(say("1"), "b"), derived(say("2"), "2"), chatKey(say("3"), "c"), chatKey(say("4"), "a"), derived(say("5"), "5")} {
		began = began.Add(time.Millisecond)
		o.Started = began
		want = append(want, c.session(o, "answer"))
	}
	for _, limit := range []int{0, 1, 2} {
		if got := listSessions(t, c.s, record.SessionQuery{Limit: limit, Ascending: true}); !slices.Equal(got, want) {
			t.Errorf("pages of %d, oldest first: %v, want %v", limit, got, want)
		}
		newest := slices.Clone(want)
		slices.Reverse(newest)
		if got := listSessions(t, c.s, record.SessionQuery{Limit: limit}); !slices.Equal(got, newest) {
			t.Errorf("pages of %d, newest first: %v, want %v", limit, got, newest)
		}
	}
	page, err := c.s.Archive().Sessions("acme", record.SessionQuery{Before: want[3], Limit: 2, Ascending: true})
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != want[1] || page.Data[1].ID != want[2] || !page.HasMore {
		t.Errorf("the page before the fourth is %+v (%v)", page.Data, err)
	}

	if _, err := c.s.Archive().MergeSession(t.Context(), "acme", want[0], want[2]); err != nil {
		t.Fatal(err)
	}
	erase(t, c.s, "acme", record.Selection{Sessions: []string{want[3]}})
	if got := listSessions(t, c.s, record.SessionQuery{Ascending: true}); !slices.Equal(got, []string{want[1], want[2], want[4]}) {
		t.Errorf("after a merge and an erasure: %v of %v", got, want)
	}
	if got := c.session(chatKey(say("4", "answer", "again"), "a"), "x"); got != want[3] {
		t.Errorf("a conversation that goes on after it was erased is session %s, and was %s", got, want[3])
	}
	mustBeSound(t, c.s)
}

func TestACheckRestoresASessionToItsList(t *testing.T) {
	c := newEdge(t, 1)
	id := c.session(chatKey(say("1"), "k"), "2")
	key, _ := kv.ParseSessionID(id)
	err := c.s.writer.Update(t.Context(), func(g *writing.Group, w *commit.Op) error {
		r, ref := g.Sessions.Session(kv.SessionRef{Account: 1, ID: key})
		r.Links = slices.DeleteFunc(r.Links, func(link []byte) bool {
			if record.IsBeginLink(link) {
				g.Put(w, link, nil)
			}
			return record.IsBeginLink(link)
		})
		g.Sessions.PutSession(w, ref, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := listSessions(t, c.s, record.SessionQuery{}); len(got) != 0 {
		t.Fatalf("it is listed: %v", got)
	}
	report, err := c.s.Upkeep().Check(t.Context(), true, func(Finding) {})
	if err != nil || report.Repaired != 1 {
		t.Fatalf("%+v (%v)", report, err)
	}
	if got := listSessions(t, c.s, record.SessionQuery{}); !slices.Equal(got, []string{id}) {
		t.Errorf("after the repair the list is %v", got)
	}
	err = c.s.db.View(func(tx *badger.Txn) error {
		_, err := sessions.Stored(tx, kv.SessionRef{Account: 1, ID: key})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	mustBeSound(t, c.s)
}
