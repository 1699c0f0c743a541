package catalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
)

var masterKey, otherKey = bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)

// seat is a centre of several on one database.
type seat struct {
	*store.Store
	kept *catalog.Catalog
}

// openSeat opens a centre with its data in a directory.
func openSeat(t *testing.T, dir, url string, key, before []byte) (seat, error) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, MinFreeDisk: -1, MasterKey: key, PreviousMasterKey: before, Digest: digest.Exchange})
	check(t, err)
	own, err := s.Shared().Centre()
	check(t, err)
	if own == "" {
		own = store.NewCentreID()
	}
	id, err := catalog.MakeCentre(t.Context(), url, own)
	check(t, err)
	check(t, s.Shared().Join(t.Context(), id))
	kept, err := catalog.Open(t.Context(), catalog.Options{
		URL: url, Centre: id, Cache: s.Shared(), Retention: s.Archive().RetentionOf, Digest: digest.Exchange,
	})
	if err != nil {
		return seat{}, errors.Join(err, s.Close())
	}
	closed := sync.OnceFunc(func() {
		kept.Close()
		check(t, s.Close())
	})
	t.Cleanup(closed)
	return seat{s, kept}, nil
}

func mustSeat(t *testing.T, dir, url string) seat {
	t.Helper()
	s, err := openSeat(t, dir, url, masterKey, nil)
	check(t, err)
	return s
}

// A data directory with accounts is given a database, and is lost later.
func TestACentreThatLosesItsDataDirectoryHasItsAccountsAndKeys(t *testing.T) {
	url, dir := postgrestest.Shared(t).Database(t), t.TempDir()
	before, err := store.Open(store.Options{Dir: dir, MinFreeDisk: -1, MasterKey: masterKey})
	check(t, err)
	for _, name := range []string{"gone", "acme"} {
		_, err = before.Accounts().Create(name)
		check(t, err)
	}
	_, err = before.Accounts().Delete(t.Context(), "gone", false)
	check(t, err)
	secret, key, err := before.Keys().Create("acme", store.ScopeRead, "first")
	check(t, err)
	check(t, before.Credentials().Set("acme", "openai", "sk-secret"))
	check(t, before.Accounts().SetRetention(t.Context(), "acme", &identity.Retention{MaxAge: 5}))
	check(t, before.Close())

	centre := mustSeat(t, dir, url)
	_, err = centre.Accounts().SetBudget(t.Context(), "acme", func(b *store.Budget) { b.Day = record.Dollar })
	check(t, err)
	second, _, err := centre.Keys().Create("acme", store.ScopeWrite, "second")
	check(t, err)
	_, err = centre.Accounts().Create("later")
	check(t, err)
	again := mustSeat(t, t.TempDir(), url)
	for _, s := range []string{secret, second} {
		if who, err := again.Keys().Authenticate(s); err != nil || who.Account != "acme" {
			t.Errorf("a key opens %+v (%v)", who, err)
		}
	}
	if got, _, err := again.Credentials().Get("acme", "openai"); err != nil || got != "sk-secret" {
		t.Errorf("the credential is %q (%v)", got, err)
	}
	if b := again.Accounts().Budget("acme"); b.Day != record.Dollar {
		t.Errorf("the budget is %+v", b)
	}
	if r := again.Archive().RetentionOf("acme"); r.MaxAge != 5 {
		t.Errorf("the retention is %+v", r)
	}
	check(t, again.Keys().Revoke(key.ID))
	check(t, centre.kept.Wait(t.Context(), "acme"))
	eventually(t, "the other centre refuses the revoked key", func() bool {
		_, err := centre.Keys().Authenticate(secret)
		return err != nil
	})
}

// Two centres with one database change the same at once.
func TestCentresThatChangeTheSameAtOnceLoseNoChange(t *testing.T) {
	url := postgrestest.Shared(t).Database(t)
	seats := []seat{mustSeat(t, t.TempDir(), url), mustSeat(t, t.TempDir(), url)}
	_, err := seats[0].Accounts().Create("acme")
	check(t, err)
	eventually(t, "the second has the account", func() bool { return len(seats[1].Accounts().List()) == 1 })
	_, key, err := seats[0].Keys().Create("acme", store.ScopeRead, "first")
	check(t, err)
	eventually(t, "the second has the key", func() bool { return len(seats[1].Keys().List("")) == 1 })

	const each = 20
	var changing sync.WaitGroup
	var mu sync.Mutex
	created := make(map[string]int)
	for i, s := range seats {
		changing.Go(func() {
			for n := range each {
				_, err := s.Accounts().Create(fmt.Sprint("account-", n))
				if err != nil && codec.AsError(err, "").Kind != codec.KindConflict {
					t.Error(err)
				}
				mu.Lock()
				if err == nil {
					created[fmt.Sprint("account-", n)]++
				}
				mu.Unlock()
				_, err = s.Keys().Update(key.ID, func(k *store.Key) { k.Label += string(rune('a' + i)) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	changing.Wait()
	for name, times := range created {
		if times != 1 {
			t.Errorf("%s was created %d times", name, times)
		}
	}
	for _, s := range seats {
		eventually(t, "a centre has all changes", func() bool {
			label := s.Keys().List("")[0].Label
			return strings.Count(label, "a") == each && strings.Count(label, "b") == each && len(s.Accounts().List()) == 1+each
		})
	}
	db, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer func() { _ = db.Close(t.Context()) }()
	var distinct int
	check(t, db.QueryRow(t.Context(), "select count(distinct number) from mneme.accounts").Scan(&distinct))
	if len(created) != each || distinct != 1+each {
		t.Errorf("%d accounts were created, and %d numbers given", len(created), distinct)
	}
}

// An account that one centre deletes is gone at the other one, with what that one has recorded for it.
func TestAnAccountThatWasDeletedAtAnotherCentreIsGoneHereAndItsNameIsFree(t *testing.T) {
	url := postgrestest.Shared(t).Database(t)
	here, there := mustSeat(t, t.TempDir(), url), mustSeat(t, t.TempDir(), url)
	_, err := here.Accounts().Create("acme")
	check(t, err)
	secret, _, err := here.Keys().Create("acme", store.ScopeRead, "")
	check(t, err)
	eventually(t, "the other has the key", func() bool {
		_, err := there.Keys().Authenticate(secret)
		return err == nil
	})
	former, err := there.Accounts().Number("acme")
	check(t, err)
	check(t, here.kept.DeleteAccount(t.Context(), "acme"))
	if _, err := here.Keys().Authenticate(secret); err == nil {
		t.Error("its key is valid where it was deleted")
	}
	_, err = here.Accounts().Create("acme")
	check(t, err)
	eventually(t, "the other has the later account, and not the key", func() bool {
		number, err := there.Accounts().Number("acme")
		_, invalid := there.Keys().Authenticate(secret)
		return err == nil && number != former && invalid != nil
	})
}

// Credentials are sealed with one master key, which a centre changes when it starts with the former one as well.
func TestACentreWithAnotherMasterKeyIsRefusedUnlessItChangesTheKey(t *testing.T) {
	url := postgrestest.Shared(t).Database(t)
	old := mustSeat(t, t.TempDir(), url)
	_, err := old.Accounts().Create("acme")
	check(t, err)
	check(t, old.Credentials().Set("acme", "openai", "sk-first"))
	if _, err := openSeat(t, t.TempDir(), url, otherKey, nil); err == nil || !strings.Contains(err.Error(), "MNEME_MASTER_KEY") {
		t.Fatalf("another master key is accepted, or the error does not say what to do: %v", err)
	}
	changed, err := openSeat(t, t.TempDir(), url, otherKey, masterKey)
	check(t, err)
	if got, _, err := changed.Credentials().Get("acme", "openai"); err != nil || got != "sk-first" {
		t.Errorf("the credential is %q (%v)", got, err)
	}
	if got, _, err := old.Credentials().Get("acme", "openai"); err != nil || got != "sk-first" {
		t.Errorf("the centre that runs with the former key has %q (%v)", got, err)
	}
	if err := old.Credentials().Set("acme", "openai", "sk-second"); err == nil {
		t.Error("a credential is sealed with the former key")
	}
	later, err := openSeat(t, t.TempDir(), url, otherKey, nil)
	check(t, err)
	if got, _, err := later.Credentials().Get("acme", "openai"); err != nil || got != "sk-first" {
		t.Errorf("with the new key alone the credential is %q (%v)", got, err)
	}
}

// Without its database a centre authenticates callers, and changes nothing.
func TestACentreWithoutItsDatabaseAuthenticatesAndChangesNothing(t *testing.T) {
	server := postgrestest.Start(t, false)
	dir := t.TempDir()
	centre := mustSeat(t, dir, server.Database(t))
	_, err := centre.Accounts().Create("acme")
	check(t, err)
	secret, key, err := centre.Keys().Create("acme", store.ScopeRead, "")
	check(t, err)
	server.Kill()
	if err := centre.Keys().Revoke(key.ID); codec.AsError(err, "").Kind != codec.KindStorage {
		t.Errorf("a key is revoked without the database: %v", err)
	}
	if _, err := centre.Keys().Authenticate(secret); err != nil {
		t.Errorf("the key is refused: %v", err)
	}
	centre.kept.Close()
	if err := centre.Keys().Revoke(key.ID); codec.AsError(err, "").Kind != codec.KindConflict {
		t.Errorf("a key is revoked in the data directory: %v", err)
	}
}
