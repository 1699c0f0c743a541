package store

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

func (c *conversation) changes(f Follower) []Change {
	c.t.Helper()
	changes, err := c.s.Feed().Changes(f, 0, 1000)
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
		<-c.s.Feed().Changed(FollowLexical)
	}
	changes := c.changes(FollowLexical)
	if changes[0].Exchange != first || changes[1].Exchange != second || changes[0].Seq >= changes[1].Seq {
		t.Fatalf("changes %+v, want those of %s and %s in this order", changes, first, second)
	}
	if err := c.s.Feed().ConfirmChanges(t.Context(), FollowLexical, changes[:1]); err != nil {
		t.Fatal(err)
	}
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}

	c.s = openStore(t, Options{Dir: dir, Digest: digestTest})
	if changes := c.changes(FollowLexical); len(changes) != 1 || changes[0].Exchange != second {
		t.Fatalf("after a restart the log holds %+v, want what was not confirmed: %s", changes, second)
	}
	entry, err := c.s.Feed().TurnAt(changes[1].Account, second)
	if err != nil || entry.Turn == nil || entry.Exchange.Session != session {
		t.Fatalf("turn %+v, error %v", entry, err)
	}

	last := c.s.Feed().LastChange()
	if _, err := c.s.Archive().Erase(context.Background(), "acme", Selection{Exchanges: []string{second}}, false); err != nil {
		t.Fatal(err)
	}
	for c.s.Feed().LastChange() == last {
		<-c.s.Feed().Changed(FollowLexical)
	}
	changes, err = c.s.Feed().Changes(FollowLexical, last, 10)
	if err != nil || len(changes) != 1 || changes[0].Exchange != second {
		t.Fatalf("after the erasure: %+v, %v", changes, err)
	}
	_, err = c.s.Feed().TurnAt(changes[0].Account, second)
	wantKind(t, err, codec.KindNotFound)
	if n, err := c.s.Feed().RepeatChanges(t.Context(), FollowLexical); err != nil || n != 1 {
		t.Fatalf("%d turns repeated, %v; want the one that is left", n, err)
	}
	if changes := c.changes(FollowLexical); len(changes) != 1 || changes[0].Exchange == second {
		t.Fatalf("for a follower that starts afresh the log holds %+v, want one change of the turn that is left", changes)
	}
}

// Changes that are committed together share a record of the log. Each can be confirmed alone, in any order, and what is
// left keeps its number.
func TestChangesAreConfirmedOneByOne(t *testing.T) {
	dir := t.TempDir()
	c := &conversation{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	mustAccount(t, c.s, "acme")
	const turns = 2*changesPerRecord + 5
	for range turns {
		c.exchange(say("where is the lock taken?"), OutcomeComplete, "in pkg/lock")
	}
	c.settle()
	if err := c.s.Feed().ConfirmChanges(t.Context(), FollowLexical, c.changes(FollowLexical)); err != nil {
		t.Fatal(err)
	}
	if left := c.changes(FollowLexical); len(left) > 0 {
		t.Fatalf("%d changes are left after all were confirmed", len(left))
	}
	if n, err := c.s.Feed().RepeatChanges(t.Context(), FollowLexical); err != nil || n != turns {
		t.Fatalf("%d turns repeated, %v", n, err)
	}
	all := c.changes(FollowLexical)
	if len(all) != turns {
		t.Fatalf("%d changes, want %d", len(all), turns)
	}
	if some, err := c.s.Feed().Changes(FollowLexical, all[9].Seq, 7); err != nil || len(some) != 7 || some[0] != all[10] {
		t.Fatalf("seven behind the tenth: %+v, %v", some, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		if n := rapid.IntRange(0, len(all)).Draw(t, "changes"); n > 0 {
			from := rapid.IntRange(0, len(all)-n).Draw(t, "from")
			if err := c.s.Feed().ConfirmChanges(context.Background(), FollowLexical, all[from:from+n]); err != nil {
				t.Fatal(err)
			}
			all = slices.Delete(all, from, from+n)
		}
		if left := c.changes(FollowLexical); !slices.Equal(left, all) {
			t.Fatalf("left are\n%v, want\n%v", left, all)
		}
	})
	want := c.changes(FollowLexical)
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	c.s = openStore(t, Options{Dir: dir, Digest: digestTest})
	if left := c.changes(FollowLexical); !slices.Equal(left, want) {
		t.Fatalf("after a restart %d changes are left, want %d", len(left), len(want))
	}
}

// A turn that has just been digested comes from memory as it is in the store, once; and what nobody takes does not add up.
func TestFreshTurnsComeFromMemoryAsTheyAreStored(t *testing.T) {
	c := &conversation{t, openStore(t, Options{Digest: digestTest, Indexed: true})}
	mustAccount(t, c.s, "acme")
	c.idle() // what the first look at the outbox finds is read back
	c.exchange(say("where is the lock taken?"), OutcomeComplete, "in pkg/lock")
	c.exchange(say("where is the lock taken?", "in pkg/lock", "and released?"), OutcomeComplete, "there, too")
	c.settle()
	for _, change := range c.changes(FollowLexical) {
		first, fresh, err := c.s.Feed().TurnOf(change)
		if err != nil || !fresh {
			t.Fatalf("the turn of %s: fresh %v, %v", change.Exchange, fresh, err)
		}
		again, fresh, err := c.s.Feed().TurnOf(change)
		if err != nil || fresh {
			t.Fatalf("the turn of %s for the second time: fresh %v, %v", change.Exchange, fresh, err)
		}
		first.Turn.Continued = again.Turn.Continued // what goes on from it came later
		memory, stored := asJSON(t, first), asJSON(t, again)
		if memory != stored {
			t.Errorf("in memory\n%s, in the store\n%s", memory, stored)
		}
	}
	held := &c.s.changes.fresh
	if len(held.byChange) > 0 || held.size != 0 {
		t.Errorf("%d turns of %d bytes are held after all were taken", len(held.byChange), held.size)
	}
	for seq := range uint64(20) {
		held.add([]freshTurn{{seq: seq, size: mostFresh / 3}})
		if held.size > mostFresh || len(held.byChange) > 3 {
			t.Fatalf("%d turns of %d bytes are held", len(held.byChange), held.size)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
