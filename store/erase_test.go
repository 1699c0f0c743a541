package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// An erasure is announced before anything is erased, also if the process is killed between its commit and that.
func TestAnAcceptedErasureIsAnnouncedAlsoAfterAKill(t *testing.T) {
	reached, on := make(chan string, 1), make(chan struct{})
	proceed := sync.OnceFunc(func() { close(on) })
	defer proceed()
	dir, left := t.TempDir(), t.TempDir()
	s := openStore(t, Options{Dir: dir, Accepted: func(_ string, e *record.Erasure) error {
		reached <- e.ID
		<-on
		return nil
	}})
	if _, err := s.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	id := capture(t, s, "acme", "hello", "{}")
	e, err := s.Archive().Erase(t.Context(), "acme", record.Selection{All: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-reached; got != e.ID {
		t.Errorf("announced is %s, accepted was %s", got, e.ID)
	}
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil { // what a kill leaves
		t.Fatal(err)
	}
	proceed()

	again := make(chan string, 2)
	killed := openStore(t, Options{Dir: left, Accepted: func(account string, e *record.Erasure) error {
		again <- account + " " + e.ID
		return nil
	}})
	if got := <-again; got != "acme "+e.ID {
		t.Errorf("after the kill %s is announced", got)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := killed.Archive().Exchange("acme", id); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not carried out")
		}
	}
}

// mustBeSound fails if the store's check finds anything.
func mustBeSound(t testing.TB, s *Store) CheckReport {
	t.Helper()
	report, err := s.Upkeep().Check(context.Background(), false, func(f Finding) {
		t.Errorf("check finds: %s %s: %s", f.Account, f.Subject, f.Problem)
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// erase erases and waits until it is done, and announced.
func erase(t testing.TB, s *Store, account string, sel record.Selection) *record.Erasure {
	t.Helper()
	e, err := s.Archive().Erase(context.Background(), account, sel, false)
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for e.State != record.ErasureDone {
		if time.Now().After(deadline) {
			t.Fatalf("the erasure is still %s", e.State)
		}
		time.Sleep(time.Millisecond)
		if e, err = s.Archive().Erasure(account, e.ID); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, s)
	return e
}

// count returns the number of records of a kind.
func count(t testing.TB, s *Store, spaces ...byte) (n int) {
	t.Helper()
	err := s.db.View(func(tx *badger.Txn) error {
		for _, space := range spaces {
			if err := kv.EachItem(context.Background(), tx, []byte{space}, func(*badger.Item) error { n++; return nil }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestErasingTheLastReferenceFreesTheBlocks(t *testing.T) {
	s := openStore(t, Options{Digest: digestTest})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	var ids []string
	a := newAgent(1)
	bodies := make(map[string][]byte)
	for range 8 {
		id := captureBody(t, s, "acme", a.request(), []byte("answer"))
		bodies[id] = a.request()
		ids = append(ids, id)
		a.turn()
	}
	theirs := captureBody(t, s, "other", bodies[ids[0]], []byte("answer"))
	mustBeSound(t, s)

	receipt := erase(t, s, "acme", record.Selection{Exchanges: ids[:4]})
	if receipt.Exchanges != 4 {
		t.Errorf("receipt is %+v", receipt)
	}
	report := mustBeSound(t, s)
	if report.Unreferenced != 0 {
		t.Errorf("%d blocks or nodes are left that nothing refers to", report.Unreferenced)
	}
	for i, id := range ids {
		x, err := s.Archive().Exchange("acme", id)
		if i < 4 {
			wantKind(t, err, codec.KindNotFound)
			continue
		}
		if err != nil || !bytes.Equal(x.RawRequest, bodies[id]) {
			t.Errorf("exchange %d is harmed: %v", i, err)
		}
	}
	receipt = erase(t, s, "acme", record.Selection{All: true})
	if receipt.Exchanges != 4 || receipt.Objects == 0 || receipt.Bytes == 0 {
		t.Errorf("receipt is %+v", receipt)
	}
	if _, err := s.Archive().Exchange("other", theirs); err != nil {
		t.Errorf("another account's exchange is harmed: %v", err)
	}
	erase(t, s, "other", record.Selection{Exchanges: []string{theirs}})
	if n := count(t, s, kv.SpaceBlock, kv.SpaceNode, kv.SpaceRequest, kv.SpaceResponse, kv.SpaceExchange, kv.SpaceSession, kv.SpaceMember, kv.SpaceBelongs, kv.SpaceLink, kv.SpaceTurn, kv.SpaceHistory); n != 0 {
		t.Errorf("%d records are left after everything was erased", n)
	}
}

func TestErasedExchangesAreSelectedAndCountedFirst(t *testing.T) {
	c := newConversation(t)
	key := func(k string) *record.Opening { return with(say("hi"), func(o *record.Opening) { o.ChatKey = k }) }
	session := c.session(key("a"), "1")
	c.session(key("a"), "2")
	c.session(key("b"), "3")
	ctx := context.Background()
	open, err := c.s.Begin(ctx, key("b"))
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Recorded(ctx); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		sel                       record.Selection
		exchanges, sessions, open int64
	}{
		{record.Selection{Sessions: []string{session}}, 2, 1, 0},
		{record.Selection{ChatKey: "b"}, 1, 0, 1},
		{record.Selection{All: true}, 3, 1, 1},
		{record.Selection{Until: time.Now().Add(-time.Hour)}, 0, 0, 0},
	} {
		e, err := c.s.Archive().Erase(ctx, "acme", step.sel, true)
		if err != nil {
			t.Fatal(err)
		}
		if e.Exchanges != step.exchanges || e.Sessions != step.sessions || e.Open != step.open {
			t.Errorf("%+v would erase %+v", step.sel, e)
		}
	}
	if page, err := c.s.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) != 4 {
		t.Errorf("a dry run left %d exchanges (%v)", len(page.Data), err)
	}
	_, err = c.s.Archive().Erase(ctx, "acme", record.Selection{}, false)
	wantKind(t, err, codec.KindInvalidRequest)

	e := erase(t, c.s, "acme", record.Selection{All: true})
	if e.Exchanges != 3 || e.Open != 1 || e.Sessions != 1 {
		t.Errorf("receipt is %+v", e)
	}
	if err := open.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Error(err)
	}
	c.settle()
	mustBeSound(t, c.s)
	_, err = c.s.Archive().Session("acme", session)
	wantKind(t, err, codec.KindNotFound)
	_, err = c.s.Archive().Erasure("other", e.ID)
	wantKind(t, err, codec.KindNotFound)
	if again := c.session(key("a"), "4"); again == session {
		t.Error("the erased session came back")
	}
}

func TestADryRunCountsAnExchangeOnceHoweverOftenItIsNamed(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) { o.ChatKey = "k" }
	id, session := c.exchange(with(say("hi"), key), record.OutcomeComplete, "a")
	c.exchange(with(say("hi", "a", "more"), key), record.OutcomeComplete, "b")
	for _, step := range []struct {
		sel                 record.Selection
		exchanges, sessions int64
	}{
		{record.Selection{Exchanges: []string{id, id}}, 1, 0},
		{record.Selection{Exchanges: []string{id}, Sessions: []string{session, session}}, 2, 1},
	} {
		e, err := c.s.Archive().Erase(t.Context(), "acme", step.sel, true)
		if err != nil || e.Exchanges != step.exchanges || e.Sessions != step.sessions {
			t.Errorf("%+v would erase %+v, %v", step.sel, e, err)
		}
	}
}

// TestErasingWhileTheSameHistoryIsSentAgainHarmsNothing erases all it can, over and over, while sessions go on that
// share blocks with what is erased.
func TestErasingWhileTheSameHistoryIsSentAgainHarmsNothing(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	ctx := context.Background()
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			a := newAgent(uint64(worker % 2)) // two and two say the same
			for turn := range 25 {
				body := a.request()
				c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Messages, Body: body, Spans: blocksOf(t, body), ChatKey: fmt.Sprint(worker)})
				if err != nil {
					t.Error(err)
					return
				}
				if err := c.Recorded(ctx); err != nil {
					t.Error(err)
				}
				x, err := s.Archive().Exchange("acme", c.ID()) // open, so not erased
				if err != nil || !bytes.Equal(x.RawRequest, body) {
					t.Errorf("worker %d, turn %d: %v", worker, turn, err)
				}
				if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
					t.Error(err)
				}
				a.turn()
			}
		})
	}
	stop := make(chan struct{})
	var eraser sync.WaitGroup
	rounds := 0
	eraser.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				erase(t, s, "acme", record.Selection{All: true})
				rounds++
			}
		}
	})
	group.Wait()
	close(stop)
	eraser.Wait()
	t.Logf("erased %d times", rounds)
	mustBeSound(t, s)
	erase(t, s, "acme", record.Selection{All: true})
	if n := count(t, s, kv.SpaceBlock, kv.SpaceNode, kv.SpaceRequest); n != 0 {
		t.Errorf("%d blocks, nodes and skeletons are left", n)
	}
}

func TestAnErasureContinuesAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	captureBody(t, s, "acme", newAgent(1).request(), []byte("x"))
	s.keeper.Stop()
	e, err := s.Archive().Erase(context.Background(), "acme", record.Selection{All: true}, false)
	if err != nil || e.State != record.ErasureQueued {
		t.Fatalf("receipt is %+v (%v)", e, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	deadline := time.Now().Add(timeout)
	for {
		done, err := s.Archive().Erasure("acme", e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if done.State == record.ErasureDone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("receipt is %+v", done)
		}
		time.Sleep(time.Millisecond)
	}
	if n := count(t, s, kv.SpaceBlock, kv.SpaceExchange); n != 0 {
		t.Errorf("%d records are left", n)
	}
}

func TestRetentionBoundsAgeAndBytes(t *testing.T) {
	s := openStore(t, Options{Retention: Retention{MaxAge: time.Hour}})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "keeps")
	ctx := context.Background()
	if err := s.Accounts().SetRetention(ctx, "keeps", &Retention{}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, account := range []string{"acme", "keeps"} {
		for _, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Minute} {
			c, err := s.Begin(ctx, &record.Opening{Account: account, Surface: codec.Chat, Started: now.Add(-age), Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.keeper.Retention.Enforce(ctx, now); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]int{"acme": 1, "keeps": 3} {
		if page, err := s.Archive().Exchanges(account, record.ExchangeQuery{}); err != nil || len(page.Data) != want {
			t.Errorf("%s keeps %d exchanges (%v), want %d", account, len(page.Data), err, want)
		}
	}
	var last string
	a := newAgentOf(1, 20)
	for range 40 {
		body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`, a.words(50_000))
		last = captureBody(t, s, "keeps", body, []byte(strings.Repeat("y", 1000)))
	}
	const limit = 80_000
	if err := s.Accounts().SetRetention(ctx, "keeps", &Retention{MaxBytes: limit}); err != nil {
		t.Fatal(err)
	}
	if used, _, err := s.usage.SizeOf(ctx, 2); err != nil || used < 2*limit {
		t.Fatalf("%d bytes are too few to tell (%v)", used, err)
	}
	if err := s.keeper.Retention.Enforce(ctx, now); err != nil {
		t.Fatal(err)
	}
	number, _ := s.accounts.Find("keeps")
	if used, left, err := s.usage.SizeOf(ctx, number); err != nil || used > limit || left == 0 {
		t.Errorf("%d exchanges take %d bytes (%v), the limit is %d", left, used, err, limit)
	}
	if _, err := s.Archive().Exchange("keeps", last); err != nil {
		t.Errorf("the newest exchange went before older ones: %v", err)
	}
	mustBeSound(t, s)
}

func TestCheckNamesADamagedBlockAndTheRestStaysReadable(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	a := newAgent(1)
	harmed := captureBody(t, s, "acme", a.request(), nil)
	sound := captureBody(t, s, "acme", newAgent(2).request(), nil)
	// The first messages of the first body: damage one block that only it has.
	var victim []byte
	err := s.db.View(func(tx *badger.Txn) error {
		id, _ := kv.ParseExchangeID(harmed)
		skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, 1, id))
		if err != nil {
			return err
		}
		refs, err := blob.References(nil, 1, skeleton)
		for _, ref := range refs {
			if ref.Space == kv.SpaceBlock {
				victim = ref.Key()
			}
		}
		return err
	})
	if err != nil || victim == nil {
		t.Fatalf("no block to damage: %v", err)
	}
	damage(t, s, victim, append([]byte{blob.EncodingRaw}, "not what it was"...))
	var found []string
	if _, err := s.Upkeep().Check(context.Background(), false, func(f Finding) { found = append(found, f.Subject+": "+f.Problem) }); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(found, "\n")
	if !strings.Contains(all, fmt.Sprintf("block %x", victim[5:])) || !strings.Contains(all, harmed) || strings.Contains(all, sound) {
		t.Errorf("check finds:\n%s", all)
	}
	_, err = s.Archive().Exchange("acme", harmed)
	wantKind(t, err, codec.KindStorage)
	if _, err := s.Archive().Exchange("acme", sound); err != nil {
		t.Error(err)
	}
}

func damage(t *testing.T, s *Store, key, value []byte) {
	t.Helper()
	err := s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error { g.Put(w, key, value); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckRepairsWhatFollowsFromTheExchanges(t *testing.T) {
	c := newConversation(t)
	id, session := c.exchange(with(say("hi"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "a")
	key, _ := kv.ParseSessionID(session)
	xid, _ := kv.ParseExchangeID(id)
	damage(t, c.s, kv.MemberKey(1, key, xid), nil)
	damage(t, c.s, record.LinkKey(1, record.Clue{Kind: record.ByChatKey, Value: "gone"}), make([]byte, 16))
	record := record.Encode(&record.StoredSession{Session: record.Session{ID: session, Account: "acme", ChatKey: "k", Exchanges: 7}})
	damage(t, c.s, kv.SessionKey(1, key), record)
	report, err := c.s.Upkeep().Check(context.Background(), true, func(Finding) {})
	if err != nil || report.Findings != 3 || report.Repaired != 3 {
		t.Errorf("check reports %+v (%v)", report, err)
	}
	mustBeSound(t, c.s)
	if s, err := c.s.Archive().Session("acme", session); err != nil || s.Exchanges != 1 || s.Completed != 1 {
		t.Errorf("the session is %+v (%v)", s, err)
	}
}
