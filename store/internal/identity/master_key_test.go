package identity

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// sealedStore is a store with credentials of several accounts, and their number.
func sealedStore(t *testing.T, opts options) (*harness, int) {
	t.Helper()
	s := openHarness(t, opts)
	const accounts, each = 2, 3
	for a := range accounts {
		s.mustAccount(t, fmt.Sprintf("acme-%d", a))
		for p := range each {
			if err := s.credentials.Set(fmt.Sprintf("acme-%d", a), fmt.Sprintf("provider-%d", p), fmt.Sprintf("secret-%d-%d", a, p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, accounts * each
}

// credentials fails unless every credential can be read.
func credentials(t *testing.T, s *harness, count int) {
	t.Helper()
	for i := range count {
		a, p := i/3, i%3
		got, ok, err := s.credentials.Get(fmt.Sprintf("acme-%d", a), fmt.Sprintf("provider-%d", p))
		if want := fmt.Sprintf("secret-%d-%d", a, p); err != nil || !ok || got != want {
			t.Errorf("a credential is %q, %v, %v; want %q", got, ok, err, want)
		}
	}
}

func keyFile(t *testing.T, dir, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAMasterKeyIsChangedWhileCredentialsAreUsed(t *testing.T) {
	dir := t.TempDir()
	s, count := sealedStore(t, options{dir: dir})
	before := keyFile(t, dir, MasterKeyFile)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				credentials(t, s, count)
			}
		}
	})
	for range 3 {
		if err := s.master.Rotate(s.rotation()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	if err := s.credentials.Set("acme-0", "provider-0", "secret-0-0"); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(keyFile(t, dir, MasterKeyFile), before) {
		t.Error("the master key is the old one")
	}
	if _, err := os.Stat(filepath.Join(dir, NextKeyFile)); err == nil {
		t.Error("the next key was left behind")
	}
	s.close(t)
	s = openHarness(t, options{dir: dir})
	credentials(t, s, count)
	s.close(t)
	if err := os.WriteFile(filepath.Join(dir, MasterKeyFile), before, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := tryHarness(t, options{dir: dir}); err == nil {
		_ = s.closed()
		t.Error("the old master key still opens the store")
	}
}

// A process may end at any point of a rotation: before any credential is sealed again, after some of them, and after all of them
// but before the new key replaces the old one.
func TestARotationThatWasCutIsBroughtToItsEnd(t *testing.T) {
	for name, sealed := range map[string]int{"before the first": 0, "in the middle": 4, "behind the last": 7} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, count := sealedStore(t, options{dir: dir})
			next, err := MakeKey(filepath.Join(dir, NextKeyFile))
			if err != nil {
				t.Fatal(err)
			}
			old, err := ReadKey(filepath.Join(dir, MasterKeyFile))
			if err != nil {
				t.Fatal(err)
			}
			both, err := newSealer(next, old)
			if err != nil {
				t.Fatal(err)
			}
			err = s.db.Update(t.Context(), func(tx kv.Txn) error {
				done := 0
				r := s.rotation()
				return r.eachSealed(tx.Committed(), func(key []byte, place string) error {
					if done++; done > sealed {
						return nil
					}
					fresh, err := both.reseal(tx.Get(key), place)
					tx.Put(key, fresh)
					return err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			s.close(t)

			s = openHarness(t, options{dir: dir})
			credentials(t, s, count)
			if got, err := ReadKey(filepath.Join(dir, MasterKeyFile)); err != nil || !bytes.Equal(got, next) {
				t.Errorf("the master key is not the new one (%v)", err)
			}
			if _, err := os.Stat(filepath.Join(dir, NextKeyFile)); err == nil {
				t.Error("the rotation has not come to its end")
			}
		})
	}
}

// A credential that nothing opens keeps both keys, so that the others stay readable.
func TestACredentialThatCannotBeOpenedStopsARotation(t *testing.T) {
	dir := t.TempDir()
	s, count := sealedStore(t, options{dir: dir})
	number, _ := s.accounts.Find("acme-1")
	err := s.db.Update(t.Context(), func(tx kv.Txn) error {
		tx.Put(credentialKey(number, "zzz"), []byte("damaged"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.master.Rotate(s.rotation()), codec.KindStorage)
	credentials(t, s, count)
	if err := s.credentials.Remove("acme-1", "zzz"); err != nil {
		t.Fatal(err)
	}
	if err := s.master.Rotate(s.rotation()); err != nil {
		t.Errorf("with it removed: %v", err)
	}
	credentials(t, s, count)
}
