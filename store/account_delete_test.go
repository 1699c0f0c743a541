package store

import (
	"sync"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/upkeep"
	"github.com/mnemeproxy/mneme/store/record"
)

// left counts the keys of a store that belong to an account's data, by kind.
func left(t *testing.T, s *Store, account kv.AccountNumber) map[string]int {
	t.Helper()
	kinds := make(map[string]int)
	err := s.db.View(func(tx *badger.Txn) error {
		for _, space := range append(upkeep.Owned[:], kv.SpaceDeletion) {
			err := kv.EachItem(t.Context(), tx, kv.SpaceKeyOf(space, account), func(*badger.Item) error { kinds[string(space)]++; return nil })
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// waitGone waits until nothing of an account is left.
func waitGone(t *testing.T, s *Store, account kv.AccountNumber) {
	t.Helper()
	for deadline := time.Now().Add(timeout); len(left(t, s, account)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", left(t, s, account))
		}
	}
}

func TestADeletedAccountLeavesNothing(t *testing.T) {
	c := newConversation(t)
	s := c.s
	for range 60 {
		c.exchange(say("hello", "hi", "and again"), record.OutcomeComplete, "again")
	}
	other := say("hello")
	other.Account = "other"
	kept, _ := c.exchange(other, record.OutcomeComplete, "hi")
	secret, _, err := s.Keys().Create("acme", AllScopes, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Credentials().Set("acme", "openai", "x"); err != nil {
		t.Fatal(err)
	}
	s.Notes().Keep("acme", "call", []byte("state"))
	if err := s.Notes().Claim(t.Context(), "acme", "openai", "file-1"); err != nil {
		t.Fatal(err)
	}
	recollect(t, s, record.RecollectionKey{1}, kept)
	number, _ := s.accounts.Find("acme")
	running, err := s.Begin(t.Context(), &record.Opening{Account: "acme", Body: []byte("{}"), Surface: codec.Chat})
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Recorded(t.Context()); err != nil {
		t.Fatal(err)
	}

	asked, err := s.Accounts().Delete(t.Context(), "acme", true)
	if err != nil || asked.Exchanges != 61 || asked.Sessions == 0 || asked.Keys != 1 || asked.Credentials != 1 || asked.Bytes == 0 {
		t.Fatalf("a dry run gives %+v, %v", asked, err)
	}
	if _, err := s.Keys().Authenticate(secret); err != nil {
		t.Fatalf("after a dry run: %v", err)
	}
	if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Keys().Authenticate(secret); err == nil {
		t.Error("its key still opens something")
	}
	if _, err := s.Archive().Exchanges("acme", record.ExchangeQuery{}); err == nil {
		t.Error("its exchanges can still be listed")
	}
	if _, err := s.Begin(t.Context(), &record.Opening{Account: "acme", Body: []byte("{}")}); err == nil {
		t.Error("it can still begin an exchange")
	}
	if _, err := s.Accounts().Delete(t.Context(), "acme", false); err == nil {
		t.Error("it can be deleted twice")
	}
	mustAccount(t, s, "acme") // the name is free, and owns nothing
	if page, err := s.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) > 0 {
		t.Errorf("a new account of the name has %v, %v", page.Data, err)
	}
	if _, err := s.Keys().Authenticate(secret); err == nil {
		t.Error("a new account of the name takes the old key")
	}
	if err := running.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Errorf("what was running ends with %v", err)
	}
	waitGone(t, s, number)
	if _, err := s.Archive().Exchange("other", kept); err != nil {
		t.Errorf("another account lost an exchange: %v", err)
	}
	mustBeSound(t, s)
}

func TestADeletionContinuesAtTheNextStart(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, MinFreeDisk: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	capture(t, s, "acme", `{"model":"m"}`, "{}")
	secret, _, err := s.Keys().Create("acme", AllScopes, "")
	if err != nil {
		t.Fatal(err)
	}
	account, _ := s.accounts.Find("acme")
	s.keeper.Stop() // as far as a process comes that is killed right after the commit
	if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	if _, err := s.Keys().Authenticate(secret); err == nil {
		t.Error("its key opens something again")
	}
	waitGone(t, s, account)
}

// Accounts are deleted and made again under one name while keys are made for it. No key of a deleted account may open
// the account that has its name now, and no key may be left behind in the store.
func TestNoKeyOutlivesItsAccountUnderTheSameName(t *testing.T) {
	s := openStore(t, Options{})
	type made struct {
		secret, id string
	}
	for round := range 30 {
		mustAccount(t, s, "acme")
		var keys []made
		var making sync.WaitGroup
		stop := make(chan struct{})
		making.Go(func() {
			untilStopped(stop, func() {
				if secret, key, err := s.Keys().Create("acme", AllScopes, ""); err == nil {
					keys = append(keys, made{secret, key.ID})
				}
			})
		})
		if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
			t.Fatal(err)
		}
		close(stop)
		making.Wait()
		mustAccount(t, s, "acme")
		for _, k := range keys {
			if who, err := s.Keys().Authenticate(k.secret); err == nil {
				t.Fatalf("round %d: a key of the deleted account speaks for %+v", round, who)
			}
		}
		stored := 0
		err := kv.EachRecord(s.db, []byte{kv.SpaceKey}, func([]byte, []byte) error { stored++; return nil })
		if err != nil || stored > 0 {
			t.Fatalf("round %d: %d keys are left in the store, %v", round, stored, err)
		}
		if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAccountThatCannotBeDeletedKeepsItsKeys(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	secret, _, err := s.Keys().Create("acme", AllScopes, "")
	if err != nil {
		t.Fatal(err)
	}
	s.writer.Gate.Reserve = 1 << 62 // the volume is full
	if _, err := s.Accounts().Delete(t.Context(), "acme", false); err == nil {
		t.Fatal("it was deleted on a full volume")
	}
	s.writer.Gate.Reserve = 0
	if who, err := s.Keys().Authenticate(secret); err != nil || who.Account != "acme" {
		t.Errorf("its key gives %+v, %v", who, err)
	}
	if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
		t.Error(err)
	}
}

// Whatever is done to an account while it is deleted is done before, and goes with it, or not at all.
func TestNothingIsWrittenForADeletedAccount(t *testing.T) {
	s := openStore(t, Options{})
	session := &record.Session{ID: kv.SessionID(s.ids.Next(time.Now())).String()}
	for range 20 {
		mustAccount(t, s, "acme")
		number, err := s.Accounts().Number("acme")
		if err != nil {
			t.Fatal(err)
		}
		var busy sync.WaitGroup
		stop := make(chan struct{})
		for _, do := range []func(){
			func() { _ = s.Credentials().Set("acme", "openai", "x") },
			func() { _ = s.Accounts().SetRetention(t.Context(), "acme", &Retention{MaxAge: time.Hour}) },
			func() { s.Notes().Keep("acme", "call", []byte("state")) },
			func() { _, _ = s.Archive().Import(t.Context(), "acme", record.Exported{Session: session}) },
			func() { _, _ = s.Archive().Erase(t.Context(), "acme", record.Selection{All: true}, false) },
			func() {
				r := record.Recollection{Exchange: kv.ExchangeID(s.ids.Next(time.Now())).String(), Text: "text"}
				_, _ = s.Notes().Recollect(t.Context(), "acme", []record.RecollectionKey{{1}}, r)
			},
			func() { _ = s.Summaries().AddSummaryTokens(t.Context(), number, time.Now(), 1) },
		} {
			busy.Go(func() { untilStopped(stop, do) })
		}
		if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
			t.Fatal(err)
		}
		close(stop)
		busy.Wait()
		if len(s.Accounts().List()) > 0 {
			t.Fatal("the account is back")
		}
		waitGone(t, s, number)
	}
}

// untilStopped does something again and again, once at least.
func untilStopped(stop <-chan struct{}, do func()) {
	for {
		do()
		select {
		case <-stop:
			return
		default:
		}
	}
}

func TestADeletedAccountsCredentialIsGone(t *testing.T) {
	s := openStore(t, Options{Dir: t.TempDir()})
	mustAccount(t, s, "acme")
	if err := s.Credentials().Set("acme", "openai", "secret"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Credentials().Get("acme", "openai"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := s.Accounts().Delete(t.Context(), "acme", false); err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	if secret, ok, err := s.Credentials().Get("acme", "openai"); ok || err != nil {
		t.Errorf("a new account of that name has the credential %q, %v", secret, err)
	}
}
