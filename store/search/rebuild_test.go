package search

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
)

// An index is rebuilt also while turns come without a pause.
func TestABusyIndexCanBeBuiltAgain(t *testing.T) {
	m := openMemory(t, t.TempDir())
	began := make(chan error, 1)
	m.capture("acme", talk("question", "answer"))
	go func() { began <- m.index.Rebuild(t.Context()) }()
	for i, deadline := 0, time.Now().Add(timeout); ; i++ { // a hundred come while a batch gathers
		m.capture("acme", talk(fmt.Sprintf("question %d", i), "answer"))
		select {
		case err := <-began:
			m.ok(err)
			return
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not begun behind %d turns", i)
		}
	}
}

// Where no new index can take the place of the old one the memory goes on without, and has one when the disk allows for it.
func TestAnIndexThatCannotBeBuiltIsTriedAgain(t *testing.T) {
	m := openMemory(t, t.TempDir())
	first := m.capture("acme", talk("where is the lock", "here"))
	m.wantFound("acme", "lock", first)
	m.untilConfirmed(store.StageWords)
	dir, aside := filepath.Join(m.dir, "index"), filepath.Join(m.dir, "aside")
	m.ok(os.Rename(dir, aside))
	m.ok(os.WriteFile(dir, nil, 0o600)) // a file where the directory should be
	if err := m.index.Rebuild(t.Context()); err == nil {
		t.Fatal("it is built where it cannot be")
	}
	second := m.capture("acme", talk("where is the key", "there"))
	if _, err := m.index.Search(t.Context(), "acme", &Request{Query: "lock"}); err == nil {
		t.Error("a search without an index finds something")
	}
	m.ok(os.Remove(dir))
	m.until("an index", func() bool { return m.index.Wait(t.Context(), "acme") == nil })
	m.wantFound("acme", "key", second)
	m.wantFound("acme", "lock", first)
}
