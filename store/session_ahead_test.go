package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// storedVersion returns the commit that stored the record of a session last.
func storedVersion(t *testing.T, s *Store, session string) (version uint64) {
	t.Helper()
	id, _ := kv.ParseSessionID(session)
	err := s.db.View(func(tx *badger.Txn) error {
		item, err := tx.Get(kv.SessionKey(1, id))
		if err == nil {
			version = item.Version()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func sessionNow(t *testing.T, s *Store, id string) *record.Session {
	t.Helper()
	session, err := s.Archive().Session("acme", id)
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func TestASessionsRecordIsNotStoredWithEachExchange(t *testing.T) {
	c := newConversation(t)
	o := func() *record.Opening { return with(say("one"), func(o *record.Opening) { o.ChatKey = "k" }) }
	id := c.session(o(), "first")
	before := storedVersion(t, c.s, id)
	for n := int64(2); n < 20; n++ {
		c.exchange(o(), record.OutcomeComplete, "again")
		if now := sessionNow(t, c.s, id); now.Exchanges != n || now.Completed != n {
			t.Fatalf("after %d exchanges the session counts %d, %d of them complete", n, now.Exchanges, now.Completed)
		}
	}
	if storedVersion(t, c.s, id) != before {
		t.Error("the record was stored with an exchange that changes only its counts")
	}
	o2 := with(o(), func(o *record.Opening) { o.ExternalSession = "x" })
	if c.exchange(o2, record.OutcomeComplete, "with an id"); storedVersion(t, c.s, id) == before {
		t.Error("the record was not stored with the first exchange that brings another id")
	}
	mustBeSound(t, c.s)
}

// longSession captures exchanges of all kinds into one session, and leaves one open.
func longSession(t *testing.T, c *talk, many int) (session string) {
	t.Helper()
	for n := range many {
		o := with(say("one"), func(o *record.Opening) {
			o.ChatKey, o.ModelAsked, o.Project = "k", fmt.Sprintf("model-%d", n%5), fmt.Sprintf("/project/%d", n)
			if n%7 == 2 {
				o.Auxiliary = record.AuxiliaryTitle
			}
		})
		x, err := c.s.Begin(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
		if session = x.SessionID(); n == many-1 {
			break
		}
		closing := &record.Closing{Outcome: record.OutcomeComplete, Usage: codec.Usage{InputUncached: int64(100 + n), Output: 7}}
		if n%3 == 1 {
			closing.Outcome, closing.Cost = record.OutcomeUpstreamError, &record.Cost{USD: 5, Saved: 2}
		}
		if err := x.Finish(closing); err != nil {
			t.Fatal(err)
		}
	}
	c.settle()
	return session
}

// After a kill the record of a session says what it said before, although it was only in memory. Larger sessions than are
// counted again have stored records.
func TestSessionsSayTheSameAfterAKill(t *testing.T) {
	for _, many := range []int{1, 2, 60, sessions.MostRecounted + 20} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			c := newConversation(t)
			id := longSession(t, c, many)
			want := sessionNow(t, c.s, id)
			left := t.TempDir()
			copyStore(t, c.s.opts.Dir, left)
			began := time.Now()
			s := openStore(t, Options{Dir: left, Digest: digestTest})
			t.Logf("opened after %s", time.Since(began))
			if diff := cmp.Diff(want, sessionNow(t, s, id)); diff != "" {
				t.Errorf("the session says something else (-before +after):\n%s", diff)
			}
			mustBeSound(t, s)
		})
	}
}

// A reader whose view is from before a record was stored has the newest record, too.
func TestAnOlderViewHasTheNewestRecordOfASession(t *testing.T) {
	c := newConversation(t)
	text := longSession(t, c, 10)
	id, _ := kv.ParseSessionID(text)
	ref := kv.SessionRef{Account: 1, ID: id}
	err := c.s.db.View(func(tx *badger.Txn) error {
		if err := c.s.writer.Update(t.Context(), writing.StoreAll); err != nil {
			return err
		}
		stored, err := sessions.Stored(tx, ref)
		if err != nil {
			return err
		}
		newest, err := c.s.sessions.Get(tx, ref)
		if err != nil {
			return err
		}
		if stored.Exchanges >= newest.Exchanges || newest.Exchanges != 10 {
			t.Errorf("the session of 10 exchanges counts %d, in its stored record %d", newest.Exchanges, stored.Exchanges)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What the log of changes says of a session stays until the session's record is stored.
func TestTheLogIsTrimmedNoFurtherThanSessionsAreStored(t *testing.T) {
	c := newConversation(t)
	c.follow(StageWords, StageSessions)
	var id string
	for range 5 {
		id = c.session(with(say("one"), func(o *record.Opening) { o.ChatKey = "k" }), "answer")
	}
	c.do(StageWords)
	c.do(StageSessions)
	if n := count(t, c.s, kv.SpaceChange); n > 0 {
		t.Errorf("the log has %d records that all have done", n)
	}
	want := sessionNow(t, c.s, id)
	left := t.TempDir()
	copyStore(t, c.s.opts.Dir, left)
	s := openStore(t, Options{Dir: left, Digest: digestTest})
	if diff := cmp.Diff(want, sessionNow(t, s, id)); diff != "" {
		t.Errorf("the session says something else after a kill (-before +after):\n%s", diff)
	}
}

// Damage can take the end of an exchange that the record of its session counts. The exchange is then open again, and
// ends as interrupted.
func TestASessionDoesNotCountAnEndThatWasLost(t *testing.T) {
	dir := t.TempDir()
	c := &talk{t, openStore(t, Options{Dir: dir, Digest: digestTest})}
	mustAccount(t, c.s, "acme")
	id, session := c.exchange(say("one"), record.OutcomeComplete, "answer")
	c.idle()
	key, _ := kv.ParseExchangeID(id)
	info, err := c.s.Archive().ExchangeInfo("acme", id)
	if err != nil {
		t.Fatal(err)
	}
	info.Outcome, info.Session = record.OutcomeOpen, ""
	damage(t, c.s, kv.ExchangeKey(kv.SpaceExchange, 1, key), record.Encode(info))
	damage(t, c.s, kv.ExchangeKey(kv.SpaceOpen, 1, key), []byte{})
	if err := c.s.Close(); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	if now := sessionNow(t, s, session); now.Exchanges != 1 || now.Completed != 0 {
		t.Errorf("the session counts %d exchanges, %d of them complete", now.Exchanges, now.Completed)
	}
}

// The first answer of a conversation whose opening is its own is only in memory: it is found again after a crash, and
// links once another conversation opens with the same words.
func TestConversationsWithTheSameOpeningStayApart(t *testing.T) {
	opts := Options{Dir: t.TempDir(), Digest: digestTest}
	c := &talk{t, openStore(t, opts)}
	mustAccount(t, c.s, "acme")
	next := func(answer string) *record.Opening { return derived(say("hello", answer, "more"), "hello", answer) }
	first := c.session(derived(say("hello"), "hello"), "one")
	err := c.s.writer.Update(t.Context(), func(g *writing.Group, _ *commit.Op) error { g.Sessions.Lose(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	c.reopen(opts)
	if foreign := c.session(next("never said here"), "?"); foreign == first {
		t.Error("after a crash it is taken for the session of an answer that it never gave")
	}
	if got := c.session(next("one"), "and one"); got != first {
		t.Errorf("after a crash it goes on in %s", got)
	}
	second := c.session(derived(say("hello"), "hello"), "two")
	if second == first {
		t.Fatal("another conversation with the same opening is taken for the first one")
	}
	for answer, want := range map[string]string{"one": first, "two": second} {
		if got := c.session(next(answer), "and more"); got != want {
			t.Errorf("the conversation with the answer %q goes on in %s", answer, got)
		}
	}
}
