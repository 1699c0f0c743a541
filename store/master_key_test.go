package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/identity"
)

func TestAWrongMasterKeyIsReportedAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, identity.MasterKeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("master key file: %v, %v", info, err)
	}
	if _, err := Open(Options{Dir: dir, MasterKey: make([]byte, 32)}); err == nil || !strings.Contains(err.Error(), "master key is not the one") {
		t.Errorf("another master key gives %v", err)
	}
	if _, err := Open(Options{Dir: dir, MasterKey: []byte("short")}); err == nil || !strings.Contains(err.Error(), "must have 32") {
		t.Errorf("a short master key gives %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a lost master key gives %v", err)
	}
}

func TestAMasterKeyFromOptionsIsChangedByOptions(t *testing.T) {
	dir, first, second := t.TempDir(), bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	s := openStore(t, Options{Dir: dir, MasterKey: first})
	mustAccount(t, s, "acme")
	if err := s.Credentials().Set("acme", "provider", "secret"); err != nil {
		t.Fatal(err)
	}
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
		if got, ok, err := s.Credentials().Get("acme", "provider"); err != nil || !ok || got != "secret" {
			t.Errorf("the credential is %q, %v, %v", got, ok, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Open(Options{Dir: dir, MasterKey: first}); err == nil {
		_ = s.Close()
		t.Error("the first key still opens the store")
	}
}
