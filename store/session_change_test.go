package store

import (
	"testing"
	"time"
)

// A session is marked as long as a change of it is not confirmed: also when it changes again between the reading and the
// confirming, and over a restart.
func TestChangesOfSessionsAreNotLost(t *testing.T) {
	dir := t.TempDir()
	c := &conversation{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	mustAccount(t, c.s, "acme")
	marked := func(want int) (changes []SessionChange) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			changes, err := c.s.Feed().SessionChanges(t.Context(), 0, time.Now(), 10, nil)
			if err != nil {
				t.Fatal(err)
			}
			if waiting, err := c.s.Upkeep().Undigested("acme"); err == nil && len(waiting) == 0 && len(changes) == want || time.Now().After(deadline) {
				if len(changes) != want {
					t.Fatalf("%d sessions are marked, want %d", len(changes), want)
				}
				return changes
			}
		}
	}
	confirm := func(changes []SessionChange) {
		t.Helper()
		if err := c.s.Feed().ConfirmSessionChanges(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	_, session := c.exchange(say("where is the lock taken?"), OutcomeComplete, "in pkg/lock")
	first := marked(1)
	if first[0].Session != session {
		t.Fatalf("%s is marked, want %s", first[0].Session, session)
	}
	title := "locks"
	if _, err := c.s.Archive().DescribeSession("acme", session, &title, nil); err != nil {
		t.Fatal(err)
	}
	confirm(first) // it has changed again since
	again := marked(1)
	if !again[0].Since.Equal(first[0].Since) {
		t.Errorf("the change began at %v, want %v", again[0].Since, first[0].Since)
	}
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	c.s = openStore(t, Options{Dir: dir, Digest: digestTest})
	confirm(marked(1))
	marked(0)
	if err := c.s.Feed().RepeatSessionChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	confirm(marked(1))
	if _, err := c.s.Archive().Erase(t.Context(), "acme", Selection{Sessions: []string{session}}, false); err != nil {
		t.Fatal(err)
	}
	marked(1)
}

// A mark that is damaged is of a session that has changed, and keeps no other one from being read.
func TestADamagedMarkOfASessionIsTakenUpAndGone(t *testing.T) {
	c := newConversation(t)
	_, first := c.exchange(with(say("hi"), func(o *Opening) { o.ChatKey = "k" }), OutcomeComplete, "a")
	_, second := c.exchange(with(say("hello"), func(o *Opening) { o.ChatKey = "l" }), OutcomeComplete, "b")
	c.settle()
	number, _ := c.s.accounts.number("acme")
	id, _ := parseSessionID(first)
	damage(t, c.s, sessionChangeKey(number, id), []byte("damaged"))
	damage(t, c.s, spaceKeyOf(spaceSessionChange, number), []byte("no session"))
	changes, err := c.s.Feed().SessionChanges(t.Context(), 0, time.Now(), 10, nil)
	if err != nil || len(changes) != 2 || changes[0].Session != first || changes[1].Session != second {
		t.Fatalf("the sessions that have changed are %+v, %v", changes, err)
	}
	if err := c.s.Feed().ConfirmSessionChanges(t.Context(), changes); err != nil {
		t.Fatal(err)
	}
	if changes, err = c.s.Feed().SessionChanges(t.Context(), 0, time.Now(), 10, nil); err != nil || len(changes) != 0 {
		t.Errorf("%+v is left, %v", changes, err)
	}
}
