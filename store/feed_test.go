package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// beganToDigest opens a store and waits for the digester's first look: what ends before that is in the log with its end, too.
func beganToDigest(t *testing.T, opts Options) *talk {
	c := &talk{t, openStore(t, opts)}
	mustAccount(t, c.s, "acme")
	c.idle()
	return c
}

// next returns the next changes for a stage, some hundred at most.
func (c *talk) next(s Stage) *Batch {
	c.t.Helper()
	b, err := c.s.Feed().Next(s, math.MaxUint64, 100)
	if err != nil {
		c.t.Fatal(err)
	}
	if b == nil {
		return &Batch{}
	}
	return b
}

// do makes a stage do everything, and returns the exchanges, or the sessions for the session stage.
func (c *talk) do(s Stage) (done []string) {
	c.t.Helper()
	for b := c.next(s); len(b.Changes) > 0; b = c.next(s) {
		for _, change := range b.Changes {
			if s == StageSessions {
				done = append(done, change.Session)
			} else if change.Exchange != "" {
				done = append(done, change.Exchange)
			}
		}
		c.s.Feed().Done(s, b)
		c.confirm(s, b)
	}
	return done
}

func (c *talk) confirm(s Stage, b *Batch) {
	c.t.Helper()
	if err := c.s.Feed().Confirm(c.t.Context(), s, b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *talk) follow(all ...Stage) {
	c.t.Helper()
	for _, s := range all {
		if _, err := c.s.Feed().Follow(c.t.Context(), s); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *talk) reopen(opts Options) {
	c.t.Helper()
	if err := c.s.Close(); err != nil {
		c.t.Fatal(err)
	}
	c.s = openStore(c.t, opts)
}

// A stage gets every turn once it is committed, again after a restart if it has not confirmed it, and its erasure.
func TestStagesLoseNoChange(t *testing.T) {
	opts := Options{Dir: t.TempDir(), Digest: digestTest}
	c := beganToDigest(t, opts)
	c.follow(StageWords)
	first, _ := c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	c.settle()
	second, session := c.exchange(say("where is the lock taken?", "in pkg/lock", "and released?"), record.OutcomeComplete, "there, too")
	c.settle()
	b := c.next(StageWords)
	if len(b.Changes) != 2 || b.Changes[0].Exchange != first || b.Changes[1].Exchange != second || b.Changes[0].Seq >= b.Changes[1].Seq {
		t.Fatalf("changes %+v, want those of %s and %s in this order", b.Changes, first, second)
	}
	c.s.Feed().Done(StageWords, b)
	if b := c.next(StageWords); len(b.Changes) != 0 {
		t.Fatalf("%d changes come again that are done", len(b.Changes))
	}
	c.reopen(opts)
	c.follow(StageWords)
	if done := c.do(StageWords); !slices.Equal(done, []string{first, second}) {
		t.Fatalf("after a restart %q are to be done, want what was not confirmed: %s and %s", done, first, second)
	}
	entry, err := c.s.Feed().TurnAt(1, second)
	if err != nil || entry.Turn == nil || entry.Exchange.Session != session {
		t.Fatalf("turn %+v, error %v", entry, err)
	}
	c.reopen(opts)
	c.follow(StageWords)
	if done := c.do(StageWords); len(done) != 0 {
		t.Fatalf("%q are to be done again, after they were confirmed", done)
	}

	erase(t, c.s, "acme", record.Selection{Exchanges: []string{second}})
	if done := c.do(StageWords); !slices.Equal(done, []string{second}) {
		t.Fatalf("after the erasure %q are to be done, want %s", done, second)
	}
	_, err = c.s.Feed().TurnAt(1, second)
	wantKind(t, err, codec.KindNotFound)
	if n, err := c.s.Feed().Repeat(t.Context(), StageWords); err != nil || n != 1 {
		t.Fatalf("%d turns to be done again, %v; want the one that is left", n, err)
	}
	if done := c.do(StageWords); !slices.Equal(done, []string{first}) {
		t.Fatalf("a stage that starts again does %q, want the turn that is left: %s", done, first)
	}
}

// Stages read one log, each at its own pace. It contains only what at least one of them has yet to do; a new stage
// begins at its end.
func TestTheLogHoldsWhatStagesHaveYetToDo(t *testing.T) {
	opts := Options{Dir: t.TempDir(), Digest: digestTest}
	c := beganToDigest(t, opts)
	c.follow(StageWords, StageSessions)
	say := func() string {
		id, _ := c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
		c.settle()
		return id
	}
	before := say()
	c.follow(StageVectors)
	after := say()
	if done := c.do(StageWords); !slices.Equal(done, []string{before, after}) {
		t.Errorf("words are done of %q, want %s and %s", done, before, after)
	}
	if done := c.do(StageSessions); len(done) != 2 {
		t.Errorf("the sessions %q have changed, want two", done)
	}
	if left := count(t, c.s, kv.SpaceChange); left == 0 {
		t.Error("the log is empty, and the vectors have done nothing")
	}
	if done := c.do(StageVectors); !slices.Equal(done, []string{after}) {
		t.Errorf("vectors are made of %q, want %s, which came after they began", done, after)
	}
	if left := count(t, c.s, kv.SpaceChange); left != 0 {
		t.Errorf("%d records are left in the log after all was done", left)
	}
	last := say()
	if err := c.s.Feed().Leave(t.Context(), StageVectors); err != nil {
		t.Fatal(err)
	}
	if done := c.do(StageWords); !slices.Equal(done, []string{last}) {
		t.Errorf("words are done of %q, want %s", done, last)
	}
	c.do(StageSessions)
	if left := count(t, c.s, kv.SpaceChange); left != 0 {
		t.Errorf("%d records are left in the log for a stage that is not there any more", left)
	}
}

// A session has to be done again as long as a change of it is unconfirmed: also if it changes again before that, and
// after a restart.
func TestChangesOfSessionsAreNotLost(t *testing.T) {
	opts := Options{Dir: t.TempDir(), Digest: digestTest}
	c := beganToDigest(t, opts)
	c.follow(StageSessions)
	_, session := c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	c.settle()
	b := c.next(StageSessions)
	if len(b.Changes) != 1 || b.Changes[0].Session != session {
		t.Fatalf("%+v have changed, want %s", b.Changes, session)
	}
	c.s.Feed().Done(StageSessions, b)
	title := "locks"
	if _, err := c.s.Archive().DescribeSession("acme", session, record.Description{Title: &title}); err != nil {
		t.Fatal(err)
	}
	c.confirm(StageSessions, b)
	c.reopen(opts)
	c.follow(StageSessions)
	if done := c.do(StageSessions); !slices.Equal(done, []string{session}) {
		t.Fatalf("%q have changed since, want %s", done, session)
	}
	if n, err := c.s.Feed().Repeat(t.Context(), StageSessions); err != nil || n != 1 {
		t.Fatalf("%d sessions are to be done again, %v", n, err)
	}
	if done := c.do(StageSessions); !slices.Equal(done, []string{session}) {
		t.Fatalf("%q are done again, want %s", done, session)
	}
	erase(t, c.s, "acme", record.Selection{Sessions: []string{session}})
	if done := slices.Compact(c.do(StageSessions)); !slices.Equal(done, []string{session}) { // it has lost its turn, and is gone
		t.Fatalf("%q have changed, want %s, which was erased", done, session)
	}
}

// Changes happen, and stages do, confirm, put aside and retry them, in any order and with restarts in between. Each
// stage is left with exactly its unconfirmed changes.
func TestEachStageKeepsItsUnconfirmedChanges(t *testing.T) {
	s := openStore(t, Options{})
	f := s.Feed()
	made := 0
	rapid.Check(t, func(rt *rapid.T) {
		follow := func() {
			for _, of := range feed.Stages {
				if _, err := f.Follow(t.Context(), of); err != nil {
					rt.Fatal(err)
				}
			}
		}
		follow()
		want := make(map[Stage]map[string]bool) // not confirmed
		for _, of := range feed.Stages {
			want[of] = make(map[string]bool)
		}
		undigested := make(map[string]bool)   // where other stages find nothing to do; that of digests sees what it has done
		var undone [len(feed.Stages)][]*Batch // done, and not confirmed
		id := func(of Stage, c *Change) string {
			if of == StageSessions {
				return c.Session
			}
			return c.Exchange
		}
		confirm := func(rt *rapid.T, i, n int) {
			if err := f.Confirm(t.Context(), feed.Stages[i], undone[i][:n]...); err != nil {
				rt.Fatal(err)
			}
			for _, b := range undone[i][:n] {
				for _, c := range b.Changes {
					if !slices.Contains(b.Later, c) {
						delete(want[feed.Stages[i]], id(feed.Stages[i], c))
					}
				}
			}
			undone[i] = undone[i][n:]
		}
		actions := map[string]func(*rapid.T){
			"happen": func(rt *rapid.T) {
				many := rapid.IntRange(1, 5).Draw(rt, "many")
				err := s.writer.Update(t.Context(), func(g *writing.Group, _ *commit.Op) error {
					for range many {
						var exchange kv.ExchangeID
						made++
						binary.BigEndian.PutUint64(exchange[:], uint64(made))
						if rapid.Bool().Draw(rt, "ended") {
							c := g.Sessions.Changes.NoteEnded(kv.SessionRef{Account: 1, ID: kv.SessionID(exchange)}, exchange)
							undigested[c.Exchange], undigested[c.Session] = true, true
							want[StageDigest][c.Exchange] = true
							continue
						}
						c := g.Sessions.Changes.Note(kv.SessionRef{Account: 1, ID: kv.SessionID(exchange)}, exchange)
						for _, of := range feed.Stages[1:] {
							want[of][id(of, c)] = true
						}
					}
					return nil
				})
				if err != nil {
					rt.Fatal(err)
				}
			},
			"do": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(feed.Stages)-1).Draw(rt, "stage")
				b, err := f.Next(feed.Stages[i], math.MaxUint64, rapid.IntRange(1, 7).Draw(rt, "limit"))
				if err != nil {
					rt.Fatal(err)
				}
				if b == nil {
					return
				}
				for _, c := range b.Changes {
					if rapid.IntRange(0, 3).Draw(rt, "fate") == 0 {
						b.Later = append(b.Later, c)
					}
				}
				if undone[i] = append(undone[i], b); feed.Stages[i] == StageDigest && (len(b.Later) > 0 || b.WasAside()) {
					confirm(rt, i, 1) // as others confirm what is done of this one
				}
				f.Done(feed.Stages[i], b)
				if feed.Stages[i] == StageDigest {
					undone[i] = nil
					for _, c := range b.Changes {
						if !slices.Contains(b.Later, c) {
							delete(want[StageDigest], c.Exchange)
						}
					}
				}
			},
			"confirm": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(feed.Stages)-1).Draw(rt, "stage")
				confirm(rt, i, rapid.IntRange(0, len(undone[i])).Draw(rt, "batches"))
			},
			"retry": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(feed.Stages)-1).Draw(rt, "stage")
				if len(undone[i]) == 0 {
					f.Retry(feed.Stages[i])
				}
			},
			"restart": func(rt *rapid.T) { // what a process has in memory is gone
				err := s.writer.Update(t.Context(), func(*writing.Group, *commit.Op) error { return s.openFeed() })
				f = s.Feed()
				if err != nil {
					rt.Fatal(err)
				}
				follow()
				undone = [len(feed.Stages)][]*Batch{}
			},
		}
		rt.Repeat(actions)
		actions["restart"](rt)
		for _, of := range feed.Stages {
			left := make(map[string]bool)
			for {
				b, err := f.Next(of, math.MaxUint64, 3)
				if err != nil {
					rt.Fatal(err)
				}
				if b == nil {
					break
				}
				for _, c := range b.Changes {
					left[id(of, c)] = true
				}
				f.Done(of, b)
				if err := f.Confirm(context.Background(), of, b); err != nil {
					rt.Fatal(err)
				}
			}
			for id := range want[of] {
				if !left[id] {
					rt.Errorf("stage %c lost %s", of, id)
				}
			}
			for id := range left {
				if !want[of][id] && !undigested[id] && of != StageDigest {
					rt.Errorf("stage %c does %s again, which it had confirmed", of, id)
				}
			}
			if lag, _ := f.Lag(of); lag != 0 {
				rt.Errorf("stage %c has done everything and is %d behind", of, lag)
			}
		}
		if left := count(t, s, kv.SpaceChange); left != 0 {
			rt.Errorf("%d records are left in the log", left)
		}
	})
}

// A turn that has just been digested comes from memory in the same form as from the store, and turns that nobody takes
// do not accumulate.
func TestFreshTurnsComeFromMemoryAsTheyAreStored(t *testing.T) {
	c := newConversation(t)
	c.idle() // what has ended before the first look is read back
	c.follow(StageWords)
	c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	c.exchange(say("where is the lock taken?", "in pkg/lock", "and released?"), record.OutcomeComplete, "there, too")
	c.settle()
	b := c.next(StageWords)
	if len(b.Changes) != 2 {
		t.Fatalf("%d changes, want 2", len(b.Changes))
	}
	for _, change := range b.Changes {
		if change.Turn == nil || !change.Fresh {
			t.Fatalf("the turn of %s is not in memory", change.Exchange)
		}
		stored, err := c.s.Feed().TurnAt(change.Account, change.Exchange)
		if err != nil {
			t.Fatal(err)
		}
		change.Turn.Turn.Continued = stored.Turn.Continued // what goes on from it came later
		if memory, stored := asJSON(t, change.Turn), asJSON(t, stored); memory != stored {
			t.Errorf("in memory\n%s, in the store\n%s", memory, stored)
		}
	}
	c.s.Feed().Done(StageWords, b)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The work that each stage has to do, and has done, is counted.
func TestStagesAreCounted(t *testing.T) {
	c := newConversation(t)
	c.idle()
	c.follow(StageWords)
	c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	c.settle()
	words := func() StageStats {
		t.Helper()
		for _, s := range c.s.Feed().Stats() {
			if s.Stage == "words" {
				return s
			}
		}
		t.Fatal("the words are not among the stages")
		return StageStats{}
	}
	if s := words(); s.Lag == 0 || s.Unconfirmed == 0 {
		t.Errorf("before anything is done: %+v", s)
	}
	b := c.next(StageWords)
	c.s.Feed().Worked(StageWords, len(b.Changes), time.Now())
	c.s.Feed().Done(StageWords, b)
	if s := words(); s.Lag != 0 || s.Unconfirmed == 0 || s.Done != 1 {
		t.Errorf("when all is done: %+v", s)
	}
	c.confirm(StageWords, b)
	if s := words(); s.Unconfirmed != 0 {
		t.Errorf("when all is confirmed: %+v", s)
	}
}

// Changes that one stage puts aside get a number like any change. In the commit of a change, other stages do not have
// to do them.
func TestNothingIsUnconfirmedOnceAllIsDone(t *testing.T) {
	c := beganToDigest(t, Options{Digest: digestTest})
	c.follow(StageWords, StageSessions)
	_, session := c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	c.settle()
	c.do(StageWords)
	c.do(StageSessions)
	id, _ := kv.ParseSessionID(session)
	err := c.s.writer.Update(t.Context(), func(g *writing.Group, w *commit.Op) error {
		change := g.Sessions.Changes.Note(kv.SessionRef{Account: 1, ID: id}, kv.ExchangeID{})
		g.Sessions.Changes.PutAside(w, StageSessions, []*Change{change}, make(map[uint64]int))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.do(StageWords)
	if lag, unconfirmed := c.s.Feed().Lag(StageWords); lag > 0 || unconfirmed > 0 {
		t.Errorf("%d changes are to be done and %d to be confirmed, after all were", lag, unconfirmed)
	}
}

// Exchanges that were open when the process was killed end with changes of the next start.
func TestNoChangeIsCommittedThatIsNotComing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	beginTogether(t, s, "acme", "acme")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := openAlone(t, Options{Dir: dir, Digest: digestTest}).feed
	if f.Last() < 2 || f.Coming() != f.Last() {
		t.Errorf("the last change is %d, and %d is coming", f.Last(), f.Coming())
	}
}
