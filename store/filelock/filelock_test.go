package filelock_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/store/filelock"
)

func TestALockHasOneHolder(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := filelock.Lock(name); !errors.Is(err, filelock.ErrHeld) {
		t.Errorf("a second holder: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := filelock.Lock(name)
	if err != nil {
		t.Fatalf("after it was given back: %v", err)
	}
	_ = again.Close()
}
