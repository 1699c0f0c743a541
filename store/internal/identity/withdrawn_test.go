package identity

import (
	"fmt"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

func TestAWithdrawnTokenStaysWithdrawn(t *testing.T) {
	opts := options{dir: t.TempDir()}
	s := openHarness(t, opts)
	until := time.Now().Add(time.Hour)
	check := func(key, id string, until time.Time, want bool) {
		t.Helper()
		if got, err := s.credentials.Withdrawn(key, id, until); err != nil || got != want {
			t.Errorf("%s of %s is withdrawn: %t, %v", id, key, got, err)
		}
	}
	withdraw := func(key, id string, until time.Time) {
		t.Helper()
		if err := s.credentials.WithdrawToken(key, id, until); err != nil {
			t.Fatal(err)
		}
	}
	check("key_a", "one", until, false)
	withdraw("key_a", "one", until)
	check("key_a", "one", until, true)
	check("key_a", "two", until, false)
	check("key_b", "one", until, false)
	s.close(t)
	s = openHarness(t, opts)
	check("key_a", "one", until, true)

	for n := range 3 * mostWithdrawn { // the others expire later
		withdraw("key_a", fmt.Sprint("other ", n), until.Add(time.Duration(n+1)*time.Second))
	}
	check("key_a", "one", until, true)
	check("key_a", fmt.Sprint("other ", 0), until.Add(time.Second), true)
	check("key_a", "older than those listed", until.Add(time.Second), true)
	check("key_a", "newer", until.Add(time.Hour), false)
	check("key_b", "two", until, false)
}

func TestWithdrawnTokensAreForgottenWhenTheyHaveExpired(t *testing.T) {
	s := openHarness(t, options{})
	for _, key := range []string{"key_a", "key_b"} {
		if err := s.credentials.WithdrawToken(key, "one", time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.credentials.WithdrawToken("key_c", "two", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	var kept []string
	err := kv.EachRecord(s.credentials.db, kv.NameKey(kv.SpaceMeta, withdrawnPrefix), func(name, _ []byte) error {
		kept = append(kept, string(name[1:]))
		return nil
	})
	if err != nil || len(kept) != 1 || kept[0] != "withdrawn-key_c" {
		t.Errorf("kept: %v, %v", kept, err)
	}
}
