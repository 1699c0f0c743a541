package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// FuzzDamagedRecord puts any value in the place of any record, as a broken disk or a foreign hand might. Whatever is read
// then is given, or refused as damaged; nothing else fails, and what cannot be read any more is found by a check.
func FuzzDamagedRecord(f *testing.F) {
	s := openStore(f, Options{Digest: digestTest})
	mustAccount(f, s, "acme")
	c := &talk{f, s}
	long := strings.Repeat("a text that is long enough to be kept apart. ", 100)
	first, session := c.exchange(say(long), record.OutcomeComplete, "answer "+long)
	second, _ := c.exchange(say(long, "answer "+long, "and then?"), record.OutcomeComplete, "the end")
	c.exchange(say("say it in pieces"), record.OutcomeComplete, string(repeatingStream(20)))
	small, _ := c.exchange(say(numbered("say it in short", 150)), record.OutcomeComplete, numbered("it is said in short", 300))
	s.Notes().Keep("acme", "call_1", []byte("signature"))
	number, err := s.accounts.Number("acme")
	if err != nil {
		f.Fatal(err)
	}
	if _, err := s.Archive().Erase(f.Context(), "acme", record.Selection{Exchanges: []string{second}}, true); err != nil {
		f.Fatal(err)
	}

	var keys, values [][]byte
	if err := s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if item.Key()[0] == kv.SpaceMeta || item.Key()[0] == kv.SpaceAccount || item.Key()[0] == kv.SpaceChange {
				continue // read when the store is opened, or without a value
			}
			value, err := item.ValueCopy(nil)
			if err != nil {
				return err
			}
			keys, values = append(keys, item.KeyCopy(nil)), append(values, value)
		}
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	if !slices.ContainsFunc(values, func(value []byte) bool {
		var info record.ExchangeInfo
		return record.Decode(value, &info) == nil && len(info.Part) > 0 && info.Part[0] == blob.EncodingFrames
	}) {
		f.Fatal("no answer is kept by the form of its events")
	}
	for _, space := range []byte{kv.SpaceRequest, kv.SpaceResponse} {
		if value, _ := kept(f, s, space, small); value[0] != firstByteOfShortTexts {
			f.Fatalf("%c of the small exchange is not kept as a short text", space)
		}
	}
	for i, value := range values {
		f.Add(uint16(i), value)
		if len(value) > 0 {
			f.Add(uint16(i), value[:len(value)/2])
			f.Add(uint16(i), append([]byte{value[0] + 1}, value[1:]...))
		}
	}
	set := func(t testing.TB, key, value []byte) {
		if err := s.db.Update(func(tx *badger.Txn) error { return tx.Set(key, bytes.Clone(value)) }); err != nil {
			t.Fatal(err)
		}
	}

	f.Fuzz(mutant.Each(5, func(t *testing.T, which uint16, value []byte) {
		i := int(which) % len(keys)
		if len(value) > 1<<16 {
			return
		}
		set(t, keys[i], value)
		defer set(t, keys[i], values[i])

		damaged := false
		read := func(what string, err error) {
			var known *codec.Error
			switch {
			case err == nil:
			case !errors.As(err, &known):
				t.Errorf("key %q, value %q: %s: %v", keys[i], value, what, err)
			case known.Kind == codec.KindStorage || known.Kind == codec.KindNotFound:
				damaged = true
			default:
				t.Errorf("key %q, value %q: %s: %s %v", keys[i], value, what, known.Kind, err)
			}
		}
		for _, id := range []string{first, second, small} {
			x, err := s.Archive().Exchange("acme", id)
			read("exchange", err)
			if err == nil {
				_, err = json.Marshal(x.ExchangeInfo)
				read("JSON", err)
			}
		}
		page, err := s.Archive().Exchanges("acme", record.ExchangeQuery{})
		read("exchanges", err)
		damaged = damaged || slices.ContainsFunc(page.Data, func(x record.ExchangeInfo) bool { return x.Outcome == record.OutcomeDamaged })
		_, err = s.Archive().Sessions("acme", record.SessionQuery{})
		read("sessions", err)
		_, err = s.Archive().Session("acme", session)
		read("session", err)
		_, err = s.Archive().Timeline("acme", session, record.TimelineQuery{})
		read("timeline", err)
		_, err = s.Feed().TurnAt(number, first)
		read("turn", err)
		for _, err := range s.Archive().Export(context.Background(), "acme", record.Selection{All: true}) {
			read("export", err)
		}
		_, err = s.Archive().Usage(context.Background(), "acme")
		read("usage", err)
		s.Notes().Recall("acme", "call_1")

		report, err := s.Upkeep().Check(context.Background(), false, func(Finding) {})
		if err != nil {
			t.Errorf("key %q, value %q: the check fails: %v", keys[i], value, err)
		}
		if damaged && report.Findings == 0 {
			t.Errorf("key %q, value %q: not to be read, and the check finds nothing", keys[i], value)
		}
	}))
}

func TestATurnThatCannotBeReadIsDigestedAgain(t *testing.T) {
	c := newConversation(t)
	id, session := c.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	exchange, _ := kv.ParseExchangeID(id)
	number, err := c.s.accounts.Number("acme")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.s.db.Update(func(tx *badger.Txn) error {
		return tx.Set(kv.ExchangeKey(kv.SpaceTurn, number, exchange), []byte("damaged"))
	}); err != nil {
		t.Fatal(err)
	}
	check := func(repair bool) CheckReport {
		report, err := c.s.Upkeep().Check(t.Context(), repair, func(f Finding) {
			if f.Subject != id || f.Repaired != repair {
				t.Errorf("%+v", f)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	if found := check(true).Repaired; found != 1 {
		t.Fatalf("%d repaired", found)
	}
	c.settle()
	if left := check(false).Findings; left != 0 {
		t.Errorf("%d left", left)
	}
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Turn == nil || page.Data[0].Turn.Answer[0].Parts[0].Text != "in pkg/lock" {
		t.Errorf("%+v, %v", page.Data, err)
	}
}

// damageExchange makes the record of an exchange unreadable.
func damageExchange(t *testing.T, s *Store, account, id string) {
	t.Helper()
	number, err := s.accounts.Number(account)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := kv.ParseExchangeID(id)
	damage(t, s, kv.ExchangeKey(kv.SpaceExchange, number, key), []byte("damaged"))
}

// Paging from either end skips an exchange whose record is damaged, and names it.
func TestPagesContinueAfterADamagedExchange(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) { o.ChatKey = "k" }
	first, session := c.exchange(with(say("hi"), key), record.OutcomeComplete, "a")
	second, _ := c.exchange(with(say("hi", "a", "more"), key), record.OutcomeComplete, "b")
	third, _ := c.exchange(with(say("hi", "a", "more", "b", "again"), key), record.OutcomeComplete, "c")
	c.settle()
	damageExchange(t, c.s, "acme", second)

	want := []string{first, second, third}
	check := func(what string, seen []record.ExchangeInfo) {
		t.Helper()
		if got := idsOf(seen); !slices.Equal(got, want) {
			t.Fatalf("%s: %q, want %q", what, got, want)
		}
		for i, x := range seen {
			damaged := x.ID == second
			if (x.Outcome == record.OutcomeDamaged) != damaged || (x.Error != nil) != damaged || x.Session != session || x.Account != "acme" || x.Started.IsZero() {
				t.Errorf("%s: exchange %d is %+v", what, i, x)
			}
		}
	}
	for _, account := range []string{"acme", ""} {
		var seen []record.ExchangeInfo
		for q, more := (record.ExchangeQuery{Limit: 1, Ascending: true}), true; more; q.After = seen[len(seen)-1].ID {
			page, err := c.s.Archive().Exchanges(account, q)
			if err != nil || len(page.Data) != 1 {
				t.Fatalf("%+v gives %+v, %v", q, page, err)
			}
			seen, more = append(seen, page.Data...), page.HasMore
		}
		check("exchanges", seen)
	}
	var seen []record.ExchangeInfo
	for q, more := (record.TimelineQuery{Limit: 1, Descending: true}), true; more; q.After = seen[0].ID {
		page, err := c.s.Archive().Timeline("acme", session, q)
		if err != nil || len(page.Data) != 1 {
			t.Fatalf("%+v gives %+v, %v", q, page, err)
		}
		seen, more = append([]record.ExchangeInfo{page.Data[0].Exchange}, seen...), page.HasMore
	}
	check("timeline", seen)
}

func idsOf(list []record.ExchangeInfo) (ids []string) {
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	return ids
}

func TestATimelineShowsADamagedTurnAsSuch(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) { o.ChatKey = "k" }
	first, session := c.exchange(with(say("hi"), key), record.OutcomeComplete, "a")
	c.exchange(with(say("hi", "a", "more"), key), record.OutcomeComplete, "b")
	c.settle()
	number, _ := c.s.accounts.Find("acme")
	id, _ := kv.ParseExchangeID(first)
	damage(t, c.s, kv.ExchangeKey(kv.SpaceTurn, number, id), []byte("damaged"))
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil || len(page.Data) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if broken := page.Data[0]; broken.Exchange.ID != first || broken.Exchange.Outcome != record.OutcomeComplete || broken.Turn == nil || broken.Turn.Error == "" {
		t.Errorf("the first is %+v with turn %+v", broken.Exchange, broken.Turn)
	}
	if whole := page.Data[1].Turn; whole == nil || whole.Error != "" || len(whole.Answer) != 1 {
		t.Errorf("the second has turn %+v", whole)
	}
}

// A session whose record is damaged is listed with what its id tells, where nothing else is asked for, and its exchanges can
// be read.
func TestSessionsAreListedDespiteADamagedOne(t *testing.T) {
	c := newConversation(t)
	id, broken := c.exchange(with(say("hi"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "a")
	_, whole := c.exchange(with(say("hello"), func(o *record.Opening) { o.ChatKey = "l" }), record.OutcomeComplete, "b")
	c.settle()
	number, _ := c.s.accounts.Find("acme")
	key, _ := kv.ParseSessionID(broken)
	damage(t, c.s, kv.SessionKey(number, key), []byte("damaged"))
	page, err := c.s.Archive().Sessions("acme", record.SessionQuery{Ascending: true})
	if err != nil || len(page.Data) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if s := page.Data[0]; s.ID != broken || s.Error == nil || s.Account != "acme" || s.Created.IsZero() {
		t.Errorf("the damaged one is %+v", s)
	}
	if s := page.Data[1]; s.ID != whole || s.Error != nil || s.ChatKey != "l" {
		t.Errorf("the other one is %+v", s)
	}
	if page, err := c.s.Archive().Sessions("acme", record.SessionQuery{ChatKey: "l"}); err != nil || len(page.Data) != 1 {
		t.Errorf("by its key there is %+v, %v", page, err)
	}
	if page, err := c.s.Archive().Timeline("acme", broken, record.TimelineQuery{}); err != nil || len(page.Data) != 1 || page.Data[0].Exchange.ID != id {
		t.Errorf("its timeline is %+v, %v", page, err)
	}
}

func TestADamagedExchangeCanBeErased(t *testing.T) {
	for name, sel := range map[string]func(id, session string) record.Selection{
		"by its id":      func(id, _ string) record.Selection { return record.Selection{Exchanges: []string{id}} },
		"by its session": func(_, session string) record.Selection { return record.Selection{Sessions: []string{session}} },
		"by its age":     func(string, string) record.Selection { return record.Selection{Until: time.Now().Add(time.Hour)} },
		"with all":       func(string, string) record.Selection { return record.Selection{All: true} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			id, session := c.exchange(say("hi"), record.OutcomeComplete, "a")
			damageExchange(t, c.s, "acme", id)
			asked, err := c.s.Archive().Erase(t.Context(), "acme", sel(id, session), true)
			if err != nil || asked.Exchanges != 1 {
				t.Errorf("a dry run gives %+v, %v", asked, err)
			}
			if e := erase(t, c.s, "acme", sel(id, session)); e.Exchanges != 1 {
				t.Errorf("receipt is %+v", e)
			}
			if n := count(t, c.s, kv.SpaceExchange, kv.SpaceRequest, kv.SpaceResponse, kv.SpaceBlock, kv.SpaceTurn, kv.SpaceMember, kv.SpaceBelongs, kv.SpaceSession); n != 0 {
				t.Errorf("%d records are left", n)
			}
		})
	}
}

func TestADamagedExchangeOfOneKeyIsNotErasedForAnother(t *testing.T) {
	c := newConversation(t)
	id, _ := c.exchange(with(say("hi"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "a")
	damageExchange(t, c.s, "acme", id)
	if e := erase(t, c.s, "acme", record.Selection{ChatKey: "other"}); e.Exchanges != 0 {
		t.Errorf("receipt is %+v", e)
	}
}

func TestAnAccountWithADamagedExchangeCanBeDeleted(t *testing.T) {
	c := newConversation(t)
	id, _ := c.exchange(say("hi"), record.OutcomeComplete, "a")
	damageExchange(t, c.s, "acme", id)
	number, _ := c.s.accounts.Find("acme")
	if _, err := c.s.Accounts().Delete(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	waitGone(t, c.s, number)
}

func TestRetentionContinuesAfterADamagedExchange(t *testing.T) {
	c := newConversation(t)
	first, _ := c.exchange(say("hi"), record.OutcomeComplete, "a")
	c.exchange(say("hello"), record.OutcomeComplete, "b")
	damageExchange(t, c.s, "acme", first)
	if err := c.s.Accounts().SetRetention(t.Context(), "acme", &Retention{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := c.s.keeper.Retention.Enforce(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, c.s, kv.SpaceExchange); n != 0 {
		t.Errorf("%d exchanges are left", n)
	}
}

// A sweep that cannot determine what a request refers to frees nothing, and so its erasure does not complete.
func TestAFailingErasureBlocksNothingElse(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	harmed, _ := kv.ParseExchangeID(capture(t, s, "acme", "q", "a"))
	capture(t, s, "other", "q", "a")
	acme, _ := s.accounts.Find("acme")
	other, _ := s.accounts.Find("other")
	damage(t, s, kv.ExchangeKey(kv.SpaceRequest, acme, harmed), []byte{blob.Version, 0xff})
	failing, err := s.Archive().Erase(t.Context(), "acme", record.Selection{Until: time.Now().Add(-time.Hour)}, false)
	if err != nil {
		t.Fatal(err)
	}
	for failing.State == record.ErasureQueued { // it has been tried once it runs
		if failing, err = s.Archive().Erasure("acme", failing.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Accounts().Delete(t.Context(), "other", false); err != nil {
		t.Fatal(err)
	}
	waitGone(t, s, other)
	if failing, err = s.Archive().Erasure("acme", failing.ID); err != nil || failing.State != record.ErasureRunning {
		t.Errorf("the erasure is %+v, %v", failing, err)
	}
}

func TestAStoreOpensWithADamagedExchangeThatWasInterrupted(t *testing.T) {
	for _, space := range []byte{kv.SpaceExchange, kv.SpaceResponse} {
		dir := t.TempDir()
		s := openStore(t, Options{Dir: dir})
		mustAccount(t, s, "acme")
		open, err := s.Begin(t.Context(), &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte("q")})
		if err != nil {
			t.Fatal(err)
		}
		if err := open.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
		account, _ := s.accounts.Find("acme")
		key := kv.ExchangeKey(space, account, idOf(open))
		if space == kv.SpaceResponse {
			key = kv.PartKey(space, account, idOf(open), 0)
		}
		damage(t, s, key, []byte("damaged"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, Options{Dir: dir})
		if e := erase(t, s, "acme", record.Selection{Exchanges: []string{open.ID()}}); e.Exchanges != 1 || e.Open != 0 {
			t.Errorf("%c: receipt is %+v", space, e)
		}
	}
}

func TestARepairLeavesDataOfADamagedExchangeAlone(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) { o.ChatKey = "k" }
	id, session := c.exchange(with(say("hi"), key), record.OutcomeComplete, "a")
	c.exchange(with(say("hi", "a", "more"), key), record.OutcomeComplete, "b")
	number, _ := c.s.accounts.Find("acme")
	exchange, _ := kv.ParseExchangeID(id)
	place := kv.ExchangeKey(kv.SpaceExchange, number, exchange)
	var stored []byte
	if err := c.s.db.View(func(tx *badger.Txn) (err error) { stored, err = kv.Get(tx, place); return err }); err != nil {
		t.Fatal(err)
	}
	damage(t, c.s, place, append([]byte{kv.RecordFields + 1}, stored[1:]...)) // as a newer mneme would have written it
	report, err := c.s.Upkeep().Check(t.Context(), true, func(f Finding) {
		if f.Subject != id || f.Repaired {
			t.Errorf("%+v", f)
		}
	})
	if err != nil || report.Findings != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	damage(t, c.s, place, stored)
	mustBeSound(t, c.s)
	if page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{}); err != nil || len(page.Data) != 2 {
		t.Errorf("the session has %d exchanges, %v", len(page.Data), err)
	}
}

func TestARepairDoesNotUndoLaterChanges(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) { o.ChatKey = "k" }
	_, session := c.exchange(with(say("hi"), key), record.OutcomeComplete, "a")
	id, _ := kv.ParseSessionID(session)
	number, _ := c.s.accounts.Find("acme")
	stored := record.Encode(&record.StoredSession{Session: record.Session{ID: session, Account: "acme", ChatKey: "k", Exchanges: 7}})
	damage(t, c.s, kv.SessionKey(number, id), stored)
	repair := func(tell func(Finding)) {
		t.Helper()
		if _, err := c.s.Upkeep().Check(t.Context(), true, tell); err != nil {
			t.Fatal(err)
		}
	}
	title := "named meanwhile"
	repair(func(Finding) {
		c.exchange(with(say("hi", "a", "more"), key), record.OutcomeComplete, "b")
		if _, err := c.s.Archive().DescribeSession("acme", session, record.Description{Title: &title}); err != nil {
			t.Error(err)
		}
	})
	repair(func(Finding) {})
	mustBeSound(t, c.s)
	if s, err := c.s.Archive().Session("acme", session); err != nil || s.Exchanges != 2 || s.Completed != 2 || s.Title != title {
		t.Errorf("the session is %+v, %v", s, err)
	}
}

func TestACheckNamesMalformedKeys(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	number, _ := s.accounts.Find("acme")
	spaces := []byte{kv.SpaceExchange, kv.SpaceMember, kv.SpaceBelongs, kv.SpaceSession, kv.SpaceLink, kv.SpaceSummary, kv.SpaceVector, kv.SpaceBlock, kv.SpaceNode, kv.SpaceTurn, kv.SpaceOpen, kv.SpaceUnsummarized}
	for _, space := range spaces {
		damage(t, s, append(kv.SpaceKeyOf(space, number), 1), []byte("x"))
		damage(t, s, kv.SpaceKeyOf(space, number), []byte("x"))
	}
	report, err := s.Upkeep().Check(t.Context(), true, func(f Finding) {
		if !strings.Contains(f.Problem, "malformed key") {
			t.Errorf("%+v", f)
		}
	})
	if err != nil || report.Findings < int64(2*len(spaces)) {
		t.Errorf("%+v, %v", report, err)
	}
}

// repeatingStream is a streamed answer of n pieces of text.
func repeatingStream(n int) []byte {
	var answer bytes.Buffer
	for i, word := range strings.SplitAfterN(newAgent(3).words(12*n), " ", n) {
		fmt.Fprintf(&answer, "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1795168000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}],\"sequence_number\":%d}\n\n", word, i)
	}
	return answer.Bytes()
}
