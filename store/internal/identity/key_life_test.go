package identity

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// hands are a clock that tests set.
type hands struct{ at time.Time }

func (h *hands) now() time.Time { return h.at }

func (h *hands) turn(d time.Duration) { h.at = h.at.Add(d) }

func newHands() *hands { return &hands{time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)} }

func mustKey(t *testing.T, s *harness, set ...func(*Key)) (secret string, key Key) {
	t.Helper()
	secret, key, err := s.keys.Keys().Create("acme", ScopeWrite, "laptop", set...)
	if err != nil {
		t.Fatal(err)
	}
	return secret, key
}

func TestAKeyExpires(t *testing.T) {
	clock := newHands()
	s := openHarness(t, options{clock: clock.now})
	s.mustAccount(t, "acme")
	secret, key := mustKey(t, s, func(k *Key) { k.Expires = clock.at.Add(time.Hour) })
	clock.turn(time.Hour - 1)
	if _, err := s.keys.Keys().Authenticate(secret); err != nil {
		t.Fatalf("just before it expires: %v", err)
	}
	clock.turn(1)
	_, err := s.keys.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)
	if !strings.Contains(err.Error(), "expired on Fri, 20 Nov 2026 13:00:30 UTC") {
		t.Errorf("an expired key is told %q", err)
	}
	if _, err := s.keys.Keys().Update(key.ID, func(k *Key) { k.Expires = time.Time{} }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.keys.Keys().Authenticate(secret); err != nil {
		t.Errorf("with the expiry taken away: %v", err)
	}
}

// A laptop may sleep for longer than a key lasts, and what holds the key wakes up no earlier than what uses it.
func TestAKeyThatIsHeldOutlastsItsExpiryAndNotItsRevocation(t *testing.T) {
	clock := newHands()
	s := openHarness(t, options{clock: clock.now})
	s.mustAccount(t, "acme")
	secret, key := mustKey(t, s, func(k *Key) { k.Expires = clock.at.Add(time.Hour) })
	release, err := s.keys.Keys().Hold(key.ID)
	if err != nil {
		t.Fatal(err)
	}
	clock.turn(72 * time.Hour)
	if _, err := s.keys.Keys().Authenticate(secret); err != nil {
		t.Errorf("while it is held: %v", err)
	}
	release()
	release()
	_, err = s.keys.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)

	again, err := s.keys.Keys().Hold(key.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer again()
	if _, err := s.keys.Keys().Authenticate(secret); err != nil {
		t.Errorf("held again: %v", err)
	}
	if err := s.keys.Keys().Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.keys.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)
	_, err = s.keys.Keys().Hold(key.ID)
	wantKind(t, err, codec.KindConflict)
	_, err = s.keys.Keys().Hold("key_unknown")
	wantKind(t, err, codec.KindNotFound)
}

func TestWhatChangesAboutAKeyStaysAndTheRestDoesNotChange(t *testing.T) {
	dir := t.TempDir()
	s := openHarness(t, options{dir: dir})
	s.mustAccount(t, "acme")
	secret, key := mustKey(t, s)
	limits := Limits{RequestsPerMinute: 60, TokensPerMinute: Unlimited, Concurrent: 3, TokensPerMonth: 1e6}
	_, err := s.keys.Keys().Update(key.ID, func(k *Key) {
		k.Label, k.Limits, k.TrustTrace = "desk", limits, true
		k.ID, k.Account, k.Scopes, k.Revoked = "key_other", "other", AllScopes, time.Now()
	})
	if err != nil {
		t.Fatal(err)
	}
	s.close(t)
	s = openHarness(t, options{dir: dir})
	got, err := identify(s, secret)
	want := Identity{Account: "acme", KeyID: key.ID, Label: "desk", Scopes: ScopeWrite, Limits: limits, TrustTrace: true}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the key speaks for %+v (%v), want %+v", got, err, want)
	}
	if keys := s.keys.Keys().List("acme"); len(keys) != 1 || keys[0].Label != "desk" || !keys[0].Revoked.IsZero() {
		t.Errorf("keys are %+v", keys)
	}
	_, err = s.keys.Keys().Update(key.ID, func(k *Key) { k.Limits.Concurrent = -2 })
	wantKind(t, err, codec.KindInvalidRequest)
	_, err = s.keys.Keys().Update("key_unknown", func(*Key) {})
	wantKind(t, err, codec.KindNotFound)
	if err := s.keys.Keys().Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.keys.Keys().Update(key.ID, func(*Key) {})
	wantKind(t, err, codec.KindConflict)
}

func TestARotatedKeyAndItsSuccessorOverlap(t *testing.T) {
	clock, dir := newHands(), t.TempDir()
	s := openHarness(t, options{dir: dir, clock: clock.now})
	s.mustAccount(t, "acme")
	limits := Limits{TokensPerMonth: 1000}
	old, key := mustKey(t, s, func(k *Key) { k.Limits = limits })
	identity, err := s.keys.Keys().Authenticate(old)
	if err != nil {
		t.Fatal(err)
	}
	identity.Use.AddTokens(clock.at, 400)
	fresh, next, err := s.keys.Keys().Rotate(key.ID, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if next.Replaces != key.ID || next.Account != "acme" || next.Label != "laptop" || next.Limits != limits || next.MonthTokens != 400 {
		t.Errorf("the successor is %+v", next)
	}
	for range 2 { // also after a restart
		for _, secret := range []string{old, fresh} {
			if _, err := s.keys.Keys().Authenticate(secret); err != nil {
				t.Errorf("during the overlap: %v", err)
			}
		}
		s.close(t)
		s = openHarness(t, options{dir: dir, clock: clock.now})
	}
	clock.turn(time.Hour)
	if _, err := s.keys.Keys().Authenticate(old); err == nil {
		t.Error("the old key outlives the overlap")
	}
	if _, err := s.keys.Keys().Authenticate(fresh); err != nil {
		t.Errorf("the new key: %v", err)
	}
	_, _, err = s.keys.Keys().Rotate(key.ID, time.Hour)
	wantKind(t, err, codec.KindConflict)
	if _, _, err := s.keys.Keys().Rotate(next.ID, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.keys.Keys().Authenticate(fresh); err == nil {
		t.Error("without an overlap the old key stays valid")
	}
}

func TestAKeyIsNotLastUsedBeforeItWasCreated(t *testing.T) {
	clock := newHands() // half a minute past
	s := openHarness(t, options{clock: clock.now})
	s.mustAccount(t, "acme")
	secret, _ := mustKey(t, s)
	if _, err := s.keys.Keys().Authenticate(secret); err != nil {
		t.Fatal(err)
	}
	if k := s.keys.Keys().List("acme")[0]; !k.LastUsed.Equal(k.Created) {
		t.Errorf("created at %v and last used at %v", k.Created, k.LastUsed)
	}
}

// Nobody knows when the key of the environment was made: each run of the server finds it there.
func TestTheKeyOfTheEnvironmentKeepsItsLastUse(t *testing.T) {
	clock, dir, secret := newHands(), t.TempDir(), strings.Repeat("k", minStaticKey)
	for run := range 2 {
		s := openHarness(t, options{dir: dir, clock: clock.now})
		if err := s.keys.Keys().AddStatic(secret, "acme", AllScopes); err != nil {
			t.Fatal(err)
		}
		if run == 0 {
			if _, err := s.keys.Keys().Authenticate(secret); err != nil {
				t.Fatal(err)
			}
		}
		want := newHands().at.Truncate(time.Minute)
		if k := s.keys.Keys().List("acme")[0]; !k.Created.IsZero() || !k.LastUsed.Equal(want) {
			t.Errorf("run %d: created at %v and last used at %v, want %v", run, k.Created, k.LastUsed, want)
		}
		s.close(t)
		clock.turn(time.Hour)
	}
}

func TestTheUseOfAKeySurvivesARestartAndAMonthBeginsAgain(t *testing.T) {
	clock, dir := newHands(), t.TempDir()
	s := openHarness(t, options{dir: dir, clock: clock.now})
	s.mustAccount(t, "acme")
	secret, _ := mustKey(t, s)
	clock.turn(time.Minute)
	if use := s.keys.Keys().List("acme")[0]; !use.LastUsed.IsZero() || use.MonthTokens != 0 {
		t.Errorf("a new key has been used: %+v", use)
	}
	for range 3 {
		identity, err := s.keys.Keys().Authenticate(secret)
		if err != nil {
			t.Fatal(err)
		}
		identity.Use.AddTokens(clock.at, 100)
		s.close(t)
		s = openHarness(t, options{dir: dir, clock: clock.now})
	}
	use := s.keys.Keys().List("acme")[0]
	if want := clock.at.Truncate(time.Minute); !use.LastUsed.Equal(want) || use.Month != "2026-11" || use.MonthTokens != 300 {
		t.Errorf("the use is %v, %s %d; want %v, 2026-11 300", use.LastUsed, use.Month, use.MonthTokens, want)
	}
	identity, err := s.keys.Keys().Authenticate(secret)
	if err != nil {
		t.Fatal(err)
	}
	clock.at = NextMonth(clock.at)
	if n := identity.Use.Tokens(clock.at); n != 0 {
		t.Errorf("the new month begins with %d tokens", n)
	}
	identity.Use.AddTokens(clock.at, 7)
	if n := identity.Use.Tokens(clock.at); n != 7 {
		t.Errorf("the new month has %d tokens", n)
	}
}

// The use of a key is one write for the many uses of a minute.
func TestLastUseIsWrittenOnceAMinute(t *testing.T) {
	clock := newHands()
	s := openHarness(t, options{clock: clock.now})
	s.keys.Stop() // which would come for what has changed, too
	s.mustAccount(t, "acme")
	secret, _ := mustKey(t, s)
	for minute := range 3 {
		writes := 0
		for range 20 {
			if _, err := s.keys.Keys().Authenticate(secret); err != nil {
				t.Fatal(err)
			}
			writes += len(s.keys.changedUses())
		}
		if writes != 1 {
			t.Errorf("minute %d: %d writes", minute, writes)
		}
		clock.turn(time.Minute)
	}
}

// The use of keys is written behind the requests, so it may be on its way when their account is deleted.
func TestTheUseOfKeysGoesWithTheirAccount(t *testing.T) {
	s := openHarness(t, options{})
	s.keys.Stop()                   // which would come for what has changed, too
	keys := make(map[string]string) // of an account
	for _, account := range []string{"acme", "other"} {
		s.mustAccount(t, account)
		secret, key, err := s.keys.Keys().Create(account, AllScopes, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.keys.Keys().Authenticate(secret); err != nil {
			t.Fatal(err)
		}
		keys[account] = key.ID
	}
	s.keys.writeUses()
	if uses, err := loadUses(s.db); err != nil || uses[keys["acme"]] == nil || uses[keys["other"]] == nil {
		t.Fatalf("before the deletion there are %v, %v", uses, err)
	}
	for _, k := range s.keys.Keys().List("") {
		s.keys.byID[k.ID].use.AddTokens(time.Now(), 1)
	}
	onTheirWay := s.keys.changedUses()
	err := s.keys.Without("acme", func(ids []string) error {
		s.accounts.Remove("acme")
		return s.db.Update(t.Context(), func(tx kv.Txn) error {
			for _, id := range ids {
				tx.Put(kv.NameKey(kv.SpaceKey, id), nil)
				tx.Put(kv.NameKey(kv.SpaceKeyUse, id), nil)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.keys.putUses(onTheirWay)
	uses, err := loadUses(s.db)
	if err != nil || uses[keys["acme"]] != nil || uses[keys["other"]] == nil {
		t.Errorf("after the deletion there are %v, %v", uses, err)
	}
}

func TestKeysThatCouldNotBeDeletedOpenAgain(t *testing.T) {
	s := openHarness(t, options{})
	s.mustAccount(t, "acme")
	secret, _ := mustKey(t, s)
	failed := errors.New("no room")
	err := s.keys.Without("acme", func([]string) error {
		if _, err := s.keys.Keys().Authenticate(secret); err == nil {
			t.Error("it opens something meanwhile")
		}
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := s.keys.Keys().Authenticate(secret); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
