package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/upkeep"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// request is the body of the session tests: messages as role and text, taken apart again by digestTest.
type testMessage struct{ Role, Text string }

func digestTest(x *record.Exchange) (record.Digest, error) {
	var body struct{ Messages []testMessage }
	if err := json.Unmarshal(x.RawRequest, &body); err != nil {
		return record.Digest{}, codec.Errorf(codec.KindInvalidRequest, "not a test body")
	}
	var d record.Digest
	for _, m := range body.Messages {
		d.Messages = append(d.Messages, record.Message{Role: m.Role, Parts: []record.Part{{Kind: "text", Text: m.Text}}})
	}
	if x.Outcome == record.OutcomeComplete {
		answer := string(x.RawResponse)
		d.Answer = []record.Message{{Role: "assistant", Parts: []record.Part{{Kind: "text", Text: answer}}}}
		if len(body.Messages) > 0 {
			d.Reply = body.Messages[0].Text + "|" + answer
			if len(body.Messages) > 1 {
				d.Reply = body.Messages[0].Text + "|" + body.Messages[1].Text
			}
		}
	}
	return d, nil
}

// say makes the opening of a request with a history: user, assistant, user, …
func say(texts ...string) *record.Opening {
	var body struct{ Messages []testMessage }
	for i, text := range texts {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		body.Messages = append(body.Messages, testMessage{role, text})
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	o := &record.Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", Body: raw}
	return o
}

// derived adds the keys that a client without ids is told by.
func derived(o *record.Opening, texts ...string) *record.Opening {
	o.DerivedOpening = texts[0]
	if len(texts) > 1 {
		o.DerivedReply = texts[0] + "|" + texts[1]
	}
	return o
}

type talk struct {
	t testing.TB
	s *Store
}

func newConversation(t *testing.T) *talk {
	s := openStore(t, Options{Digest: digestTest})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	return &talk{t, s}
}

// exchange captures one exchange and gives its id and session.
func (c *talk) exchange(o *record.Opening, outcome record.Outcome, answer string) (id, session string) {
	c.t.Helper()
	ctx := context.Background()
	capture, err := c.s.Begin(ctx, o)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := capture.Recorded(ctx); err != nil {
		c.t.Fatal(err)
	}
	if _, err := capture.Write([]byte(answer)); err != nil {
		c.t.Fatal(err)
	}
	if err := capture.Finish(&record.Closing{Outcome: outcome, ResponseID: "resp_" + capture.ID()}); err != nil {
		c.t.Fatal(err)
	}
	c.settle()
	return capture.ID(), capture.SessionID()
}

// timeout is how long a test waits for something that is to happen soon; only a failure takes that long.
const timeout = time.Minute

// settle waits until everything is digested and has been announced.
func (c *talk) settle() {
	c.t.Helper()
	c.idle()
	settle(c.t, c.s)
}

// idle waits until the digester has nothing to do any more.
func (c *talk) idle() {
	c.t.Helper()
	f := c.s.Feed()
	for deadline := time.Now().Add(timeout); f.Position(StageDigest) < f.Coming() || !f.Digested(kv.SessionRef{}); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("the digester does not come to rest")
		}
	}
}

// session captures a complete exchange and gives its session.
func (c *talk) session(o *record.Opening, answer string) string {
	c.t.Helper()
	_, session := c.exchange(o, record.OutcomeComplete, answer)
	return session
}

func with(o *record.Opening, set func(o *record.Opening)) *record.Opening { set(o); return o }

func TestSessionsAreFoundByTheStrongestEvidence(t *testing.T) {
	type step struct {
		why  string
		o    *record.Opening
		want int // index of the step whose session it joins; its own index: a new session
	}
	chat := func(o *record.Opening, key string) *record.Opening { o.ChatKey = key; return o }
	external := func(o *record.Opening, key string) *record.Opening { o.ExternalSession = key; return o }
	native := func(o *record.Opening, id, agent string) *record.Opening {
		o.NativeSession, o.NativeAgent = id, agent
		return o
	}
	for name, steps := range map[string][]step{
		"chat key": {
			{"first", chat(say("a"), "k1"), 0},
			{"same key, other words", chat(say("b"), "k1"), 0},
			{"another key, same words", chat(say("a"), "k2"), 2},
		},
		"a chat key and an external id seen together stay linked": {
			{"both", external(chat(say("a"), "k1"), "e1"), 0},
			{"external id alone", external(say("b"), "e1"), 0},
			{"chat key alone", chat(say("c"), "k1"), 0},
			{"chat key with a new external id", external(chat(say("d"), "k1"), "e2"), 0},
		},
		"an external id first, the chat key later": {
			{"external id", external(say("a"), "e1"), 0},
			{"with a chat key", external(chat(say("b"), "k1"), "e1"), 0},
			{"chat key alone", chat(say("c"), "k1"), 0},
		},
		"two chat keys are two sessions even with one external id": {
			{"first", external(chat(say("a"), "k1"), "e1"), 0},
			{"second", external(chat(say("a"), "k2"), "e1"), 1},
			{"first again", external(chat(say("a"), "k1"), "e1"), 0},
			{"second alone", chat(say("a"), "k2"), 1},
		},
		"Claude Code: continue, fork, subagent, compact": {
			{"start", native(say("a"), "uuid-1", ""), 0},
			{"tool round", native(say("a", "b", "c"), "uuid-1", ""), 0},
			{"subagent", native(say("task"), "uuid-1", "agent-1"), 2},
			{"subagent goes on", native(say("task", "x", "y"), "uuid-1", "agent-1"), 2},
			{"compacted", native(say("summary"), "uuid-1", ""), 0},
			{"forked", native(say("a", "b", "d"), "uuid-2", ""), 5},
		},
		"a subagent under the service's chat key": {
			{"main", native(chat(say("a"), "k1"), "uuid-1", ""), 0},
			{"subagent", native(chat(say("task"), "k1"), "uuid-1", "agent-1"), 1},
			{"main again", native(chat(say("b"), "k1"), "uuid-1", ""), 0},
		},
		"opencode: a title request before the first turn": {
			{"title", with(native(say("make a title"), "ses_1", ""), func(o *record.Opening) { o.Auxiliary = "title" }), 0},
			{"turn", native(say("a"), "ses_1", ""), 0},
		},
		"plain client": {
			{"first turn", derived(say("hi"), "hi"), 0},
			{"second turn", derived(say("hi", "answer 0", "more"), "hi", "answer 0"), 0},
			{"the same opening again", derived(say("hi"), "hi"), 2},
			{"its second turn", derived(say("hi", "answer 2", "more"), "hi", "answer 2"), 2},
			{"the first one goes on", derived(say("hi", "answer 0", "more", "answer 1", "yet"), "hi", "answer 0"), 0},
			{"a history never seen", derived(say("hi", "elsewhere", "more"), "hi", "elsewhere"), 5},
		},
		"an explicit id is never overruled by equal words": {
			{"plain", derived(say("hi"), "hi"), 0},
			{"with a key", chat(derived(say("hi"), "hi"), "k1"), 1},
			{"another key", chat(derived(say("hi"), "hi"), "k2"), 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			var sessions []string
			for i, step := range steps {
				got := c.session(step.o, fmt.Sprintf("answer %d", i))
				sessions = append(sessions, got)
				for j, have := range sessions[:i] {
					if (have == got) != (sessions[j] == sessions[step.want]) {
						t.Errorf("step %d (%s) shares the session of step %d: %v", i, step.why, j, have == got)
					}
				}
			}
		})
	}
}

func TestAuxiliaryExchangesJoinASessionAndOpenNoneOfTheirOwn(t *testing.T) {
	c := newConversation(t)
	tokens := func(o *record.Opening) *record.Opening { o.Auxiliary = record.AuxiliaryTokens; return o }
	title := func(o *record.Opening) *record.Opening { o.Auxiliary = record.AuxiliaryTitle; return o }
	chat := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	for why, o := range map[string]*record.Opening{
		"a count before the first turn":       tokens(derived(say("hi"), "hi")),
		"a count under an id nobody has used": tokens(chat(say("hi"))),
		"a count without evidence":            tokens(say("hi")),
		"a title of words alone":              title(derived(say("title of: hi"), "title of: hi")),
	} {
		if id, session := c.exchange(o, record.OutcomeComplete, "7"); session != "" {
			t.Errorf("%s opens a session", why)
		} else if _, err := c.s.Archive().Exchange("acme", id); err != nil {
			t.Errorf("%s is not on record: %v", why, err)
		}
	}
	plain, keyed := c.session(derived(say("hi"), "hi"), "hello"), c.session(chat(say("hi")), "hello")
	if got := c.session(tokens(derived(say("hi", "hello", "more"), "hi", "hello")), "7"); got != plain {
		t.Errorf("a count of what is to be the second turn is in %q, want %q", got, plain)
	}
	if got := c.session(tokens(chat(say("hi"))), "7"); got != keyed {
		t.Errorf("a count under the id of a session is in %q, want %q", got, keyed)
	}
	page, err := c.s.Archive().Sessions("acme", record.SessionQuery{})
	if err != nil || len(page.Data) != 2 || page.Data[0].Auxiliary != 1 || page.Data[1].Auxiliary != 1 {
		t.Errorf("sessions are %+v (%v)", page.Data, err)
	}
}

// Where two conversations open with the same words and are answered alike, what follows goes on in the first.
func TestIdenticalConversationsAreDistinguishedByTheirOrder(t *testing.T) {
	c := newConversation(t)
	first := c.session(derived(say("hi"), "hi"), "hello")
	second := c.session(derived(say("hi"), "hi"), "hello")
	if second == first {
		t.Error("a conversation that begins with the same words is the same session")
	}
	if got := c.session(derived(say("hi", "hello", "more"), "hi", "hello"), "yes"); got != first {
		t.Errorf("it goes on in %s, want %s", got, first)
	}
}

func TestAResponseIDIdentifiesItsSession(t *testing.T) {
	c := newConversation(t)
	first, session := c.exchange(with(derived(say("hi"), "hi"), func(o *record.Opening) { o.Surface = codec.Responses }), record.OutcomeComplete, "a")
	next := with(say("more"), func(o *record.Opening) { o.PreviousResponse = "resp_" + first })
	if got := c.session(next, "b"); got != session {
		t.Errorf("the response id leads to %s, want %s", got, session)
	}
	foreign := with(say("more"), func(o *record.Opening) { o.PreviousResponse, o.Account = "resp_"+first, "other" })
	if got := c.session(foreign, "b"); got == session {
		t.Error("another account's response id leads into the session")
	}
}

func TestAFailedFirstTurnIsRetriedInItsSession(t *testing.T) {
	c := newConversation(t)
	_, session := c.exchange(derived(say("hi"), "hi"), record.OutcomeUpstreamError, "")
	_, again := c.exchange(derived(say("hi"), "hi"), record.OutcomeComplete, "a")
	if session != again {
		t.Error("the retry opened a session of its own")
	}
}

func TestASubagentsSessionNamesItsParent(t *testing.T) {
	c := newConversation(t)
	main := c.session(with(say("a"), func(o *record.Opening) { o.NativeSession = "u" }), "x")
	child := c.session(with(say("b"), func(o *record.Opening) { o.NativeSession, o.NativeAgent = "u", "one" }), "x")
	grandchild := c.session(with(say("c"), func(o *record.Opening) { o.NativeSession, o.NativeAgent, o.NativeParent = "u", "two", "one" }), "x")
	for id, want := range map[string]string{main: "", child: main, grandchild: child} {
		s, err := c.s.Archive().Session("acme", id)
		if err != nil {
			t.Fatal(err)
		}
		if s.Parent != want {
			t.Errorf("%s has parent %q, want %q", id, s.Parent, want)
		}
	}
	page, err := c.s.Archive().Sessions("acme", record.SessionQuery{Parent: main})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != child {
		t.Errorf("children of the main session are %+v (%v)", page.Data, err)
	}
}

// timeline tells a session as one line per exchange.
func (c *talk) timeline(session string) string {
	c.t.Helper()
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil {
		c.t.Fatal(err)
	}
	number := make(map[string]int)
	var lines []string
	for i, e := range page.Data {
		number[e.Exchange.ID] = i
		if e.Turn == nil {
			lines = append(lines, fmt.Sprintf("%d no turn (%s)", i, e.Exchange.Auxiliary))
			continue
		}
		line := fmt.Sprintf("%d", i)
		if e.Turn.Parent != "" {
			line += fmt.Sprintf(" after %d", number[e.Turn.Parent])
		}
		if e.Turn.Branch {
			line += " branch"
		}
		for _, m := range append(e.Turn.Messages, e.Turn.Answer...) {
			line += " " + m.Role[:1] + ":" + m.Parts[0].Text
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestATimelineShowsWhatEachExchangeAdded(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	session := c.session(key(say("1")), "2")
	c.session(key(say("1", "2", "3")), "4")
	c.session(with(key(say("title?")), func(o *record.Opening) { o.Auxiliary = "title" }), "T")
	c.session(key(say("1", "2", "3", "4", "5")), "6")
	c.session(key(say("1", "2", "other")), "x")                // back to the first answer, another way on
	c.session(key(say("1", "2", "3", "4", "5")), "six")        // the same request again
	c.session(key(say("1", "2", "other", "x", "y")), "z")      // the branch goes on
	c.session(key(say("1", "2 as edited", "3", "4")), "fresh") // a past that was rewritten
	want := strings.Join([]string{
		"0 u:1 a:2",
		"1 after 0 u:3 a:4",
		"2 no turn (title)",
		"3 after 1 u:5 a:6",
		"4 after 0 branch u:other a:x",
		"5 after 3 branch a:six",
		"6 after 4 u:y a:z",
		"7 after 0 branch a:2 as edited u:3 a:4 a:fresh",
	}, "\n")
	if got := c.timeline(session); got != want {
		t.Errorf("timeline is\n%s\nwant\n%s", got, want)
	}
}

func TestARequestThatBranchesInsideAnotherAddsOnlyItsNewPart(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	session := c.session(key(say("1", "2", "3", "4", "5")), "6")       // a conversation that was not captured from its start
	c.session(key(say("1", "2", "3", "4", "other")), "x")              // its last message said in another way
	c.session(key(say("1", "2", "3", "4", "other", "x", "y")), "z")    // and gone on from
	c.session(key(say("1", "2", "3")), "4")                            // back to what is inside the first
	c.session(key(say("1", "2", "3", "4", "other", "x", "Y")), "last") // from an answer, after all
	want := strings.Join([]string{
		"0 u:1 a:2 u:3 a:4 u:5 a:6",
		"1 after 0 branch u:other a:x",
		"2 after 1 u:y a:z",
		"3 after 0 branch u:3 a:4",
		"4 after 1 branch u:Y a:last",
	}, "\n")
	if got := c.timeline(session); got != want {
		t.Errorf("timeline is\n%s\nwant\n%s", got, want)
	}
}

func TestARepeatedRequestAddsOnlyItsAnswer(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	ask := func() *record.Opening { return key(say("1", "2", "3")) } // all of it new, as when an agent's session was not captured from its start
	_, session := c.exchange(ask(), record.OutcomeUpstreamError, "")
	c.session(ask(), "4")
	c.session(ask(), "four")
	c.session(key(say("1", "2", "3", "four", "5")), "6")
	want := strings.Join([]string{
		"0 u:1 a:2 u:3",
		"1 after 0 branch a:4",
		"2 after 0 branch a:four",
		"3 after 2 u:5 a:6",
	}, "\n")
	if got := c.timeline(session); got != want {
		t.Errorf("timeline is\n%s\nwant\n%s", got, want)
	}
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for i, known := range []int{0, 3, 3, 4} {
		if got := page.Data[i].Turn.Known; got != known {
			t.Errorf("of request %d %d messages are known, want %d", i, got, known)
		}
	}
}

func TestDigestingAgainGivesTheSameTurns(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	var ids []string
	var session string
	for _, texts := range [][]string{{"1", "2", "3", "4", "5"}, {"1", "2", "3", "4", "5"}, {"1", "2", "3", "4", "other"}, {"1", "2", "3"}, {"1", "2", "3", "4", "5", "6", "7"}} {
		var id string
		id, session = c.exchange(key(say(texts...)), record.OutcomeComplete, "6")
		ids = append(ids, id)
	}
	want := c.timeline(session)
	for _, text := range ids {
		id, _ := kv.ParseExchangeID(text)
		again, _ := c.s.digester.Digest(t.Context(), kv.ExchangeRef{Account: 1, ID: id}, nil)
		if err := c.s.writer.Update(t.Context(), again); err != nil {
			t.Fatal(err)
		}
	}
	c.settle()
	if got := c.timeline(session); got != want {
		t.Errorf("timeline is\n%s\nwas\n%s", got, want)
	}
}

func TestDigestingResumesAfterARestartAndIsIdempotent(t *testing.T) {
	dir := t.TempDir()
	tooSoon := func(*record.Exchange) (record.Digest, error) { panic("digested before the restart") }
	s := openStore(t, Options{Dir: dir, Digest: tooSoon})
	mustAccount(t, s, "acme")
	s.digester.Stop()
	if _, err := s.Feed().Follow(t.Context(), StageDigest); err != nil { // nothing is digested in the commit of its end while something may wait
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, o := range []*record.Opening{say("1"), say("1", "2", "3")} {
		o.ChatKey = "k"
		cap, err := s.Begin(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cap.Write([]byte("2")); err != nil {
			t.Fatal(err)
		}
		if err := cap.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c := &talk{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	c.settle()
	page, err := c.s.Archive().Sessions("acme", record.SessionQuery{})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("sessions are %+v (%v)", page.Data, err)
	}
	want := "0 u:1 a:2\n1 after 0 u:3 a:2"
	if got := c.timeline(page.Data[0].ID); got != want {
		t.Errorf("timeline is\n%s\nwant\n%s", got, want)
	}
	exchanges, err := c.s.Archive().Exchanges("acme", record.ExchangeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range exchanges.Data {
		id, _ := kv.ParseExchangeID(x.ID)
		again, _ := c.s.digester.Digest(context.Background(), kv.ExchangeRef{Account: 1, ID: id}, nil)
		if err := c.s.writer.Update(ctx, again); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.timeline(page.Data[0].ID); got != want {
		t.Errorf("digested twice the timeline is\n%s\nwant\n%s", got, want)
	}
}

func TestAnExchangeThatCannotBeDigestedIsMarkedAndBlocksNothing(t *testing.T) {
	c := &talk{t, openStore(t, Options{Digest: func(x *record.Exchange) (record.Digest, error) {
		if strings.Contains(string(x.RawRequest), "panic") {
			panic("on purpose")
		}
		return digestTest(x)
	}})}
	mustAccount(t, c.s, "acme")
	session := c.session(with(say("panic"), func(o *record.Opening) { o.ChatKey = "k" }), "a")
	c.session(with(say("fine"), func(o *record.Opening) { o.ChatKey = "k" }), "b")
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Data) != 2 || page.Data[0].Turn.Error == "" || page.Data[1].Turn.Error != "" {
		t.Errorf("timeline is %+v", page.Data)
	}
}

func TestMergedSessionsAreOneAndKeepTheirEvidence(t *testing.T) {
	c := newConversation(t)
	key := func(k string, o *record.Opening) *record.Opening { o.ChatKey = k; return o }
	const others = 100 // more than are moved at once
	a := c.session(key("a", say("1")), "2")
	b := c.session(key("b", say("1", "2", "3")), "4")
	for range others {
		c.session(key("b", with(say("title"), func(o *record.Opening) { o.Auxiliary = "title" })), "x")
	}
	merged, err := c.s.Archive().MergeSession(context.Background(), "acme", b, a)
	if err != nil {
		t.Fatal(err)
	}
	c.settle()
	if merged.ID != a || merged.Exchanges != 2+others || merged.Completed != merged.Exchanges || merged.Auxiliary != others {
		t.Errorf("merged session is %+v", merged)
	}
	if got := c.session(key("b", say("1", "2", "3", "4", "5")), "6"); got != a {
		t.Errorf("the merged session's chat key leads to %s, want %s", got, a)
	}
	if lines := strings.Split(c.timeline(a), "\n"); lines[0] != "0 u:1 a:2" || lines[1] != "1 after 0 u:3 a:4" {
		t.Errorf("timeline begins %q", lines[:2])
	}
	gone, err := c.s.Archive().Session("acme", b)
	if err != nil || gone.Merged != a || gone.Exchanges != 0 || gone.ChatKey != "" {
		t.Errorf("what is left of the session is %+v (%v)", gone, err)
	}
	if page, err := c.s.Archive().Sessions("acme", record.SessionQuery{}); err != nil || len(page.Data) != 1 {
		t.Errorf("sessions listed are %+v (%v)", page.Data, err)
	}
	_, err = c.s.Archive().MergeSession(context.Background(), "acme", b, a)
	wantKind(t, err, codec.KindConflict)
	_, err = c.s.Archive().MergeSession(context.Background(), "acme", a, b)
	wantKind(t, err, codec.KindConflict)
	_, err = c.s.Archive().MergeSession(context.Background(), "other", a, b)
	wantKind(t, err, codec.KindNotFound)
	mustBeSound(t, c.s)
}

func TestASessionThatIsBeingErasedIsNeitherMergedNorSplit(t *testing.T) {
	c := newConversation(t)
	key := func(k string, o *record.Opening) *record.Opening { o.ChatKey = k; return o }
	a := c.session(key("a", say("1")), "2")
	second, _ := c.exchange(key("a", say("1", "2", "3")), record.OutcomeComplete, "4")
	b := c.session(key("b", say("5")), "6")
	c.settle()
	receipt, ref, err := c.s.keeper.Erasures.Note(t.Context(), 1, record.Selection{Sessions: []string{a}}, record.ErasedByRequest) // it does not run yet
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []func() (*record.Session, error){
		func() (*record.Session, error) { return c.s.Archive().MergeSession(t.Context(), "acme", a, b) },
		func() (*record.Session, error) { return c.s.Archive().MergeSession(t.Context(), "acme", b, a) },
		func() (*record.Session, error) { return c.s.Archive().SplitSession(t.Context(), "acme", a, second) },
	} {
		if s, err := move(); codec.AsError(err, "").Kind != codec.KindConflict || !strings.Contains(err.Error(), a+" is being erased") {
			t.Errorf("it becomes %+v (%v)", s, err)
		}
	}
	if err := c.s.keeper.Erasures.Run(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	if e, err := c.s.Archive().Erasure("acme", receipt.ID); err != nil || e.State != record.ErasureDone || e.Exchanges != 2 {
		t.Errorf("the receipt is %+v (%v)", e, err)
	}
	if got := c.session(key("a", say("1", "2", "3", "4", "7")), "8"); got == b {
		t.Errorf("what goes on from what was erased is in the other session")
	}
	if left, err := c.s.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(left.Data) != 2 {
		t.Errorf("%+v are left, want the other session's exchange and the new one (%v)", left.Data, err)
	}
	mustBeSound(t, c.s)
}

func TestASplitSessionIsTwo(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	first, session := c.exchange(key(say("1")), record.OutcomeComplete, "2")
	second, _ := c.exchange(with(key(say("other")), func(o *record.Opening) { o.Surface = codec.Responses }), record.OutcomeComplete, "x")
	c.session(key(say("other", "x", "y")), "z")
	ctx := context.Background()
	_, err := c.s.Archive().SplitSession(ctx, "acme", session, first)
	wantKind(t, err, codec.KindConflict)
	_, err = c.s.Archive().SplitSession(ctx, "other", session, second)
	wantKind(t, err, codec.KindNotFound)
	split, err := c.s.Archive().SplitSession(ctx, "acme", session, second)
	if err != nil {
		t.Fatal(err)
	}
	c.settle()
	if got, want := c.timeline(split.ID), "0 u:other a:x\n1 after 0 u:y a:z"; got != want {
		t.Errorf("the new session is\n%s\nwant\n%s", got, want)
	}
	if got, want := c.timeline(session), "0 u:1 a:2"; got != want {
		t.Errorf("the old session is\n%s\nwant\n%s", got, want)
	}
	next := with(say("more"), func(o *record.Opening) { o.PreviousResponse = "resp_" + second })
	if got := c.session(next, "w"); got != split.ID {
		t.Errorf("the moved response leads to %s, want %s", got, split.ID)
	}
	mustBeSound(t, c.s)
}

func TestASessionOfAnEarlierRunCanBeSplit(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	mustAccount(t, s, "acme")
	c := &talk{t, s}
	key := func(o *record.Opening) { o.ChatKey = "k" }
	_, session := c.exchange(with(say("1"), key), record.OutcomeComplete, "2")
	second, _ := c.exchange(with(say("1", "2", "3"), key), record.OutcomeComplete, "4")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c = &talk{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	split, err := c.s.Archive().SplitSession(t.Context(), "acme", session, second)
	if err != nil || split.Exchanges != 1 {
		t.Fatalf("the session that was split off is %+v, %v", split, err)
	}
	c.settle()
	mustBeSound(t, c.s)
}

// leaver is the context of a caller who leaves as soon as a move is on record.
type leaver struct {
	context.Context
	leave context.CancelFunc
	begun func() bool
}

func (l *leaver) Done() <-chan struct{} {
	if l.begun() {
		l.leave()
	}
	return l.Context.Done()
}

func TestAMoveThatHasBegunEndsWhetherOrNotItsCallerWaits(t *testing.T) {
	c := newConversation(t)
	key := func(k string, o *record.Opening) *record.Opening { o.ChatKey = k; return o }
	a := c.session(key("a", say("1")), "2")
	b := c.session(key("b", say("3")), "4")
	second, _ := c.exchange(key("b", say("3", "4", "5")), record.OutcomeComplete, "6")
	of := func(session string) context.Context {
		id, _ := kv.ParseSessionID(session)
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		return &leaver{ctx, leave, func() bool {
			return c.s.db.View(func(tx *badger.Txn) error {
				_, err := tx.Get(append(kv.SpaceKeyOf(kv.SpaceMove, 1), id[:]...))
				return err
			}) == nil
		}}
	}
	split, err := c.s.Archive().SplitSession(of(b), "acme", b, second)
	if err != nil || split.Exchanges != 1 {
		t.Errorf("the session that was split off is %+v, %v", split, err)
	}
	merged, err := c.s.Archive().MergeSession(of(b), "acme", b, a)
	if err != nil || merged.Exchanges != 2 {
		t.Errorf("the merged session is %+v, %v", merged, err)
	}
	c.settle()
	mustBeSound(t, c.s)
}

func TestAnInterruptedMoveContinuesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	mustAccount(t, s, "acme")
	c := &talk{t, s}
	a := c.session(with(say("1"), func(o *record.Opening) { o.ChatKey = "a" }), "2")
	b := c.session(with(say("3"), func(o *record.Opening) { o.ChatKey = "b" }), "4")
	last := c.session(with(say("5"), func(o *record.Opening) { o.ChatKey = "c" }), "6")
	ids := [3]kv.SessionID{}
	for i, text := range []string{a, b, last} {
		ids[i], _ = kv.ParseSessionID(text)
	}
	err := s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error {
		return errors.Join(upkeep.BeginMerge(g, w, kv.SessionRef{Account: 1, ID: ids[2]}, ids[1]), upkeep.BeginMerge(g, w, kv.SessionRef{Account: 1, ID: ids[1]}, ids[0]))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c = &talk{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	deadline := time.Now().Add(timeout)
	for {
		merged, err := c.s.Archive().Session("acme", a)
		if err != nil {
			t.Fatal(err)
		}
		if merged.Exchanges == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("session is %+v", merged)
		}
		time.Sleep(time.Millisecond)
	}
	c.settle()
	mustBeSound(t, c.s)
}

func TestAnIDOfTheOtherKindIsNamedInTheError(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	const exchange, session = "exch_06h085v1jpcfq3dqbt40266p4w", "sess_06h085v1jpcfq3dqbt40266p50"
	if _, err := s.Archive().Session("acme", exchange); err == nil || !strings.Contains(err.Error(), "the id of an exchange") {
		t.Errorf("a session is asked for by %s: %v", exchange, err)
	}
	if _, err := s.Archive().Exchange("acme", session); err == nil || !strings.Contains(err.Error(), "the id of a session") {
		t.Errorf("an exchange is asked for by %s: %v", session, err)
	}
}

// A decoded session record in the cache is dropped with the record that replaces it.
func TestADeletedSessionIsNotRemembered(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	x, err := s.Archive().Exchange("acme", capture(t, s, "acme", `{"n":1}`, "one"))
	if err != nil {
		t.Fatal(err)
	}
	id, _ := kv.ParseSessionID(x.Session)
	err = s.writer.Update(t.Context(), func(g *writing.Group, w *commit.Op) error {
		ref := kv.SessionRef{Account: 1, ID: id}
		if g.Sessions.At(ref) == nil {
			t.Error("the session is not there")
		}
		if g.Put(w, kv.SessionKey(ref.Account, ref.ID), nil); g.Sessions.At(ref) != nil {
			t.Error("a deleted session is still there")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
