package store

import (
	"context"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func (c *conversation) changes(f Follower) []Change {
	c.t.Helper()
	changes, err := c.s.Changes(f, 0, 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	return changes
}

// A follower hears of every turn once it is committed, again after a restart if it has not confirmed it, and of the
// erasure too.
func TestFollowersLoseNoChange(t *testing.T) {
	dir := t.TempDir()
	c := &conversation{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	mustAccount(t, c.s, "acme")
	first, _ := c.exchange(say("where is the lock taken?"), OutcomeComplete, "in pkg/lock")
	second, session := c.exchange(say("where is the lock taken?", "in pkg/lock", "and released?"), OutcomeComplete, "there, too")
	for len(c.changes(FollowLexical)) < 2 {
		<-c.s.Changed(FollowLexical)
	}
	changes := c.changes(FollowLexical)
	if changes[0].Exchange != first || changes[1].Exchange != second || changes[0].Seq >= changes[1].Seq {
		t.Fatalf("changes %+v, want those of %s and %s in this order", changes, first, second)
	}
	if err := c.s.ConfirmChanges(t.Context(), FollowLexical, changes[:1]); err != nil {
		t.Fatal(err)
	}
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}

	c.s = openStore(t, Options{Dir: dir, Digest: digestTest})
	if changes := c.changes(FollowLexical); len(changes) != 1 || changes[0].Exchange != second {
		t.Fatalf("after a restart the log holds %+v, want what was not confirmed: %s", changes, second)
	}
	entry, err := c.s.TurnAt(changes[1].Account, second)
	if err != nil || entry.Turn == nil || entry.Exchange.Session != session {
		t.Fatalf("turn %+v, error %v", entry, err)
	}

	last := c.s.LastChange()
	if _, err := c.s.Erase(context.Background(), "acme", Selection{Exchanges: []string{second}}, false); err != nil {
		t.Fatal(err)
	}
	for c.s.LastChange() == last {
		<-c.s.Changed(FollowLexical)
	}
	changes, err = c.s.Changes(FollowLexical, last, 10)
	if err != nil || len(changes) != 1 || changes[0].Exchange != second {
		t.Fatalf("after the erasure: %+v, %v", changes, err)
	}
	_, err = c.s.TurnAt(changes[0].Account, second)
	wantKind(t, err, codec.KindNotFound)
	if n, err := c.s.RepeatChanges(t.Context(), FollowLexical); err != nil || n != 1 {
		t.Fatalf("%d turns repeated, %v; want the one that is left", n, err)
	}
}
