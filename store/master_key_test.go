package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// sealedStore is a store with credentials of several accounts, and their number.
func sealedStore(t *testing.T, opts Options) (*Store, int) {
	t.Helper()
	s := openStore(t, opts)
	const accounts, each = 2, 3
	for a := range accounts {
		mustAccount(t, s, fmt.Sprintf("acme-%d", a))
		for p := range each {
			if err := s.Credentials().Set(fmt.Sprintf("acme-%d", a), fmt.Sprintf("provider-%d", p), fmt.Sprintf("secret-%d-%d", a, p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s, accounts * each
}

// credentials fails unless every credential can be read.
func credentials(t *testing.T, s *Store, count int) {
	t.Helper()
	for i := range count {
		a, p := i/3, i%3
		got, ok, err := s.Credentials().Get(fmt.Sprintf("acme-%d", a), fmt.Sprintf("provider-%d", p))
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
	s, count := sealedStore(t, Options{Dir: dir})
	before := keyFile(t, dir, masterKeyFile)
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
		if err := s.Upkeep().RotateMasterKey(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	if err := s.Credentials().Set("acme-0", "provider-0", "secret-0-0"); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(keyFile(t, dir, masterKeyFile), before) {
		t.Error("the master key is the old one")
	}
	if _, err := os.Stat(filepath.Join(dir, nextKeyFile)); err == nil {
		t.Error("the next key was left behind")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	credentials(t, s, count)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, masterKeyFile), before, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(Options{Dir: dir}); err == nil {
		_ = s.Close()
		t.Error("the old master key still opens the store")
	}
}

// A rotation is cut wherever a process may end: before anything is sealed anew, with one part of it, and with all of it but
// before the new key has taken the old one's place.
func TestARotationThatWasCutIsBroughtToItsEnd(t *testing.T) {
	for name, sealed := range map[string]int{"before the first": 0, "in the middle": 4, "behind the last": 7} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, count := sealedStore(t, Options{Dir: dir})
			next, err := writeKey(filepath.Join(dir, nextKeyFile))
			if err != nil {
				t.Fatal(err)
			}
			old, err := readKey(filepath.Join(dir, masterKeyFile))
			if err != nil {
				t.Fatal(err)
			}
			both, err := newSealer(next, old)
			if err != nil {
				t.Fatal(err)
			}
			err = s.update(t.Context(), func(g *gathering, w *write) error {
				done := 0
				return s.eachSealed(g.read(), func(key []byte, place string) error {
					if done++; done > sealed {
						return nil
					}
					fresh, err := both.reseal(g.get(key), place)
					g.put(w, key, fresh)
					return err
				})
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			s = openStore(t, Options{Dir: dir})
			credentials(t, s, count)
			if got, err := readKey(filepath.Join(dir, masterKeyFile)); err != nil || !bytes.Equal(got, next) {
				t.Errorf("the master key is not the new one (%v)", err)
			}
			if _, err := os.Stat(filepath.Join(dir, nextKeyFile)); err == nil {
				t.Error("the rotation has not come to its end")
			}
		})
	}
}

func TestAMasterKeyFromOutsideIsChangedFromOutside(t *testing.T) {
	dir, first, second := t.TempDir(), bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	s, count := sealedStore(t, Options{Dir: dir, MasterKey: first})
	wantKind(t, s.Upkeep().RotateMasterKey(), codec.KindConflict)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, opts := range []Options{
		{Dir: dir, MasterKey: second, PreviousMasterKey: first},
		{Dir: dir, MasterKey: second, PreviousMasterKey: first}, // again, as a process manager would
		{Dir: dir, MasterKey: second},
	} {
		s = openStore(t, opts)
		credentials(t, s, count)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Open(Options{Dir: dir, MasterKey: first}); err == nil {
		_ = s.Close()
		t.Error("the first key still opens the store")
	}
}

// A credential that nothing opens keeps both keys, so that the others stay readable.
func TestACredentialThatCannotBeOpenedStopsARotation(t *testing.T) {
	dir := t.TempDir()
	s, count := sealedStore(t, Options{Dir: dir})
	number, _ := s.accounts.number("acme-1")
	err := s.update(t.Context(), func(g *gathering, w *write) error {
		g.put(w, credentialKey(number, "zzz"), []byte("damaged"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.Upkeep().RotateMasterKey(), codec.KindStorage)
	credentials(t, s, count)
	if err := s.Credentials().Remove("acme-1", "zzz"); err != nil {
		t.Fatal(err)
	}
	if err := s.Upkeep().RotateMasterKey(); err != nil {
		t.Errorf("with it removed: %v", err)
	}
	credentials(t, s, count)
}
