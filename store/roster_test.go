package store

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// follow makes an edge apply everything in the centre's roster.
func follow(t *testing.T, edge, centre *Store) error {
	t.Helper()
	entries, err := centre.Roster().Entries()
	if err != nil {
		t.Fatal(err)
	}
	return edge.Roster().Follow(t.Context(), entries, true)
}

func openWithMasterKey(t *testing.T, dir string, key, previous byte) *Store {
	t.Helper()
	opts := Options{Dir: dir, MasterKey: bytes.Repeat([]byte{key}, 32)}
	if previous != 0 {
		opts.PreviousMasterKey = bytes.Repeat([]byte{previous}, 32)
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // once more
	return s
}

// made ends the test where something could not be done.
func made(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAccountsAndKeysOfTheCentreApplyOnTheEdge(t *testing.T) {
	dir := t.TempDir()
	centre, edge := openWithMasterKey(t, t.TempDir(), 1, 0), openWithMasterKey(t, dir, 1, 0)
	for _, name := range []string{"other", "acme"} { // so that numbers differ
		made(t)(centre.Accounts().Create(name))
	}
	made(t)(edge.Accounts().Create("own"))
	own, _, err := edge.Keys().Create("own", ScopeWrite, "made here before")
	if err != nil {
		t.Fatal(err)
	}
	secret, key, err := centre.Keys().Create("acme", ScopeWrite, "a", func(k *Key) { k.Limits.RequestsPerMinute = 7 })
	if err != nil {
		t.Fatal(err)
	}
	if err := centre.Credentials().Set("acme", "openai", "sk-secret"); err != nil {
		t.Fatal(err)
	}
	if err := centre.Accounts().SetRetention(t.Context(), "acme", &Retention{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	edge.Roster().Begin()
	for range 2 { // the second changes nothing
		if err := follow(t, edge, centre); err != nil {
			t.Fatal(err)
		}
	}
	if who, err := edge.Keys().Authenticate(secret); err != nil || who.Account != "acme" || who.KeyID != key.ID || who.Limits.RequestsPerMinute != 7 {
		t.Errorf("the key is %+v (%v)", who, err)
	}
	if text, ok, err := edge.Credentials().Get("acme", "openai"); text != "sk-secret" || !ok || err != nil {
		t.Errorf("the credential is %q, %v (%v)", text, ok, err)
	}
	if r := edge.Archive().RetentionOf("acme"); r.MaxAge != time.Hour {
		t.Errorf("the retention is %+v", r)
	}

	// Nothing of it is changed on the edge.
	_, _, creating := edge.Keys().Create("acme", ScopeWrite, "")
	_, accounting := edge.Accounts().Create("more")
	_, deleting := edge.Accounts().Delete(t.Context(), "acme", false)
	for _, err := range []error{
		creating, accounting, deleting, edge.Keys().Revoke(key.ID), edge.Credentials().Set("acme", "openai", "x"), edge.Credentials().Remove("acme", "openai"),
		edge.Accounts().SetRetention(t.Context(), "acme", nil),
	} {
		if codec.AsError(err, "").Kind != codec.KindConflict {
			t.Errorf("on the edge: %v", err)
		}
	}

	// What is revoked, removed and deleted there opens nothing here, and stays so.
	gone, _, err := centre.Keys().Create("other", ScopeRead, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := follow(t, edge, centre); err != nil {
		t.Fatal(err)
	}
	if _, err := edge.Keys().Authenticate(gone); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(centre.Keys().Revoke(key.ID), centre.Credentials().Remove("acme", "openai")); err != nil {
		t.Fatal(err)
	}
	made(t)(centre.Accounts().Delete(t.Context(), "other", false))
	if err := follow(t, edge, centre); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, s := range []string{secret, gone} {
			if who, err := edge.Keys().Authenticate(s); err == nil {
				t.Errorf("it still opens %+v", who)
			}
		}
		if _, ok, _ := edge.Credentials().Get("acme", "openai"); ok {
			t.Error("the credential is still there")
		}
		if _, err := edge.Keys().Authenticate(own); err != nil {
			t.Errorf("the key made here: %v", err)
		}
		if err := edge.Close(); err != nil {
			t.Fatal(err)
		}
		edge = openWithMasterKey(t, dir, 1, 0)
	}
}

// A name may be reused, but the second account is not the first.
func TestAnAccountNamedLikeADeletedOneDoesNotGetItsData(t *testing.T) {
	centre, edge := openWithMasterKey(t, t.TempDir(), 1, 0), openWithMasterKey(t, t.TempDir(), 1, 0)
	made(t)(centre.Accounts().Create("acme"))
	edge.Roster().Begin()
	if err := follow(t, edge, centre); err != nil {
		t.Fatal(err)
	}
	before, err := edge.Accounts().Number("acme")
	if err != nil {
		t.Fatal(err)
	}
	capture(t, edge, "acme", `{"q":1}`, "a secret")
	made(t)(centre.Accounts().Delete(t.Context(), "acme", false))
	if err := follow(t, edge, centre); err != nil {
		t.Fatal(err)
	}
	made(t)(centre.Accounts().Create("acme"))
	secret, _, err := centre.Keys().Create("acme", ScopeRead, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := centre.Credentials().Set("acme", "openai", "sk-of-the-new-one"); err != nil {
		t.Fatal(err)
	}
	if err := follow(t, edge, centre); err == nil {
		t.Errorf("the edge says %v", err)
	}
	if _, err := edge.Keys().Authenticate(secret); err == nil {
		t.Error("the new account's key opens the old one's data")
	}
	if _, ok, err := edge.Credentials().Get("acme", "openai"); ok || err != nil {
		t.Errorf("the old account has the new one's credential, or %v", err)
	}
	made(t)(edge.Accounts().Delete(t.Context(), "acme", false))
	if err := follow(t, edge, centre); err != nil {
		t.Fatal(err)
	}
	if who, err := edge.Keys().Authenticate(secret); err != nil || who.Account != "acme" {
		t.Errorf("once the old one is deleted here: %+v (%v)", who, err)
	}
	if text, ok, err := edge.Credentials().Get("acme", "openai"); text != "sk-of-the-new-one" || !ok || err != nil {
		t.Errorf("once the old one is deleted here, the credential is %q, %v (%v)", text, ok, err)
	}
	if after, err := edge.Accounts().Number("acme"); err != nil || after == before {
		t.Errorf("the second account has the number of the first (%v)", err)
	}
}

func TestCredentialsUnderAnotherMasterKeyAreNotMixed(t *testing.T) {
	centreDir := t.TempDir()
	centre, edge := openWithMasterKey(t, centreDir, 1, 0), openWithMasterKey(t, t.TempDir(), 2, 0)
	made(t)(centre.Accounts().Create("acme"))
	secret, _, err := centre.Keys().Create("acme", ScopeWrite, "")
	if err == nil {
		err = centre.Credentials().Set("acme", "openai", "sk-secret")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := follow(t, edge, centre); !errors.Is(err, ErrOtherMasterKey) {
		t.Errorf("the edge says %v", err)
	}
	if _, err := edge.Keys().Authenticate(secret); err != nil {
		t.Error(err)
	}
	if _, ok, err := edge.Credentials().Get("acme", "openai"); ok || err != nil {
		t.Errorf("there is a credential, or %v", err)
	}

	// A change of the key reaches the nodes one after the other, edges first.
	edge = openWithMasterKey(t, t.TempDir(), 3, 1)
	for _, key := range []byte{1, 3} {
		if err := centre.Close(); err != nil {
			t.Fatal(err)
		}
		centre = openWithMasterKey(t, centreDir, key, 1)
		if err := follow(t, edge, centre); err != nil {
			t.Fatal(err)
		}
		if text, ok, err := edge.Credentials().Get("acme", "openai"); text != "sk-secret" || !ok || err != nil {
			t.Errorf("the credential is %q, %v (%v)", text, ok, err)
		}
	}
}

func TestKeysOfTheCentreExpireWithTheWordOfIt(t *testing.T) {
	centre, edge := openWithMasterKey(t, t.TempDir(), 1, 0), openWithMasterKey(t, t.TempDir(), 1, 0)
	made(t)(centre.Accounts().Create("acme"))
	made(t)(edge.Accounts().Create("own"))
	secret, _, err := centre.Keys().Create("acme", ScopeWrite, "")
	if err == nil {
		err = follow(t, edge, centre)
	}
	if err != nil {
		t.Fatal(err)
	}
	own, _, err := edge.Keys().Create("own", ScopeWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		expires time.Time
		opens   bool
	}{{time.Now().Add(time.Hour), true}, {time.Now().Add(-time.Second), false}, {time.Time{}, true}} {
		edge.Roster().Expire(c.expires)
		if _, err := edge.Keys().Authenticate(secret); (err == nil) != c.opens {
			t.Errorf("until %v: %v", c.expires, err)
		}
		if _, err := edge.Keys().Authenticate(own); err != nil {
			t.Errorf("the key made here, until %v: %v", c.expires, err)
		}
	}
}

func TestAChangeOfTheRosterIsSignaled(t *testing.T) {
	s := openWithMasterKey(t, t.TempDir(), 1, 0)
	signaled := func(what string) {
		t.Helper()
		select {
		case <-s.Roster().Changed():
		default:
			t.Errorf("%s is not signaled", what)
		}
	}
	made(t)(s.Accounts().Create("acme"))
	signaled("an account")
	_, key, err := s.Keys().Create("acme", ScopeWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	signaled("a key")
	if err := s.Keys().Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	signaled("a revocation")
	if err := s.Credentials().Set("acme", "openai", "x"); err != nil {
		t.Fatal(err)
	}
	signaled("a credential")
	if err := s.Accounts().SetRetention(t.Context(), "acme", &Retention{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	signaled("a retention rule")
	made(t)(s.Accounts().Delete(t.Context(), "acme", false))
	signaled("the deletion")
}
