package identity

import (
	"fmt"
	"sync"
	"testing"
)

// Credentials that were looked up are remembered; a caller that changes one must not meet the earlier one afterwards.
func TestAChangedCredentialIsTheOneThatTheNextRequestGets(t *testing.T) {
	s := openHarness(t, options{})
	s.mustAccount(t, "acme")
	expect := func(secret string) {
		t.Helper()
		if got, ok, err := s.credentials.Get("acme", "openai"); got != secret || ok != (secret != "") || err != nil {
			t.Fatalf("the credential is %q, %v, %v; want %q", got, ok, err, secret)
		}
	}
	stop := make(chan struct{})
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _ = s.credentials.Get("acme", "openai")
				}
			}
		})
	}
	defer askers.Wait()
	defer close(stop)
	expect("")
	for i := range 30 {
		secret := fmt.Sprintf("secret-%d", i)
		if err := s.credentials.Set("acme", "openai", secret); err != nil {
			t.Fatal(err)
		}
		expect(secret)
		if i%3 != 0 {
			continue
		}
		if err := s.credentials.Remove("acme", "openai"); err != nil {
			t.Fatal(err)
		}
		expect("")
	}
}

// A look into the database that began before a change may end after it.
func TestWhatWasReadBeforeAChangeIsNotRemembered(t *testing.T) {
	var o openedCredentials
	name := credentialName{account: 1, provider: "openai"}
	_, changes, _ := o.look(name)
	o.forget(name)
	o.keep(name, openedCredential{secret: "old", set: true}, changes)
	if c, _, known := o.look(name); known {
		t.Errorf("%q is remembered", c.secret)
	}
}
