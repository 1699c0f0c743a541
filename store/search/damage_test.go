package search

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store"
)

// A turn whose record is damaged is not found. All others are, of every account, also when the index is built anew.
func TestADamagedTurnHoldsNoOtherUp(t *testing.T) {
	m := openMemory(t, t.TempDir())
	damaged := m.capture("acme", talk("where is the lock", "here"))
	second := m.capture("acme", talk("where is the key", "there"))
	other := m.capture("globex", talk("where is the key", "there"))
	m.found("acme", "key")
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.reopen(func() {
		m.loseIndex()
		m.damage('u', number, damaged)
	})
	m.wantFound("acme", "key", second)
	m.wantFound("globex", "key", other)
	m.wantFound("acme", "lock")
	next := m.capture("acme", talk("where is the door", "over there"))
	m.wantFound("acme", "door", next)
}

// A session whose record is damaged is not found, and the log says so once. All others are, of every account, and so is
// what is said after.
func TestADamagedSessionHoldsNoOtherUp(t *testing.T) {
	log := &lines{}
	m := openMemoryWith(t, t.TempDir(), Options{Log: slog.New(log)})
	damaged, _ := m.said("acme", "one", talk("where is the lock", "here"))
	second, _ := m.said("acme", "two", talk("where is the lock", "there"))
	other, _ := m.said("globex", "one", talk("where is the lock", "there"))
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.reopen(func() {
		m.loseIndex()
		m.damage('s', number, damaged)
	})
	m.wantSessions("acme", "lock", second)
	m.wantSessions("globex", "lock", other)
	third, _ := m.said("acme", "three", talk("where is the door", "over there"))
	m.wantSessions("acme", "door", third)
	if n := log.count("a session cannot be read"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
}

// A session that is damaged when the index knows it already is left out of what is found, and the answer says so.
func TestADamagedSessionIsLeftOutOfWhatIsFound(t *testing.T) {
	m := openMemory(t, t.TempDir())
	damaged, _ := m.said("acme", "one", talk("where is the lock", "here"))
	second, turns := m.said("acme", "two", talk("where is the lock", "there"))
	for _, id := range []string{damaged, second} {
		_, err := m.store.DescribeSession("acme", id, nil, []string{"work"})
		m.ok(err)
	}
	if found := m.sessionsFound("acme", Request{Query: "lock"}); len(found) != 2 {
		t.Fatalf("found %q", found)
	}
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.reopen(func() { m.damage('s', number, damaged) })
	answer := m.search("acme", Request{Query: "lock", Granularity: Sessions})
	if len(answer.Data) != 1 || answer.Data[0].Session != second || !slices.Contains(answer.Degraded, damagedSessions) {
		t.Errorf("the sessions found are %+v", answer)
	}
	answer = m.search("acme", Request{Query: "lock", Filter: Filter{Field: "tag", Op: "eq", Value: "work"}})
	if !slices.Equal(exchangesOf(answer), turns) || !slices.Contains(answer.Degraded, damagedSessions) {
		t.Errorf("the turns found are %+v", answer)
	}
}

// damage makes the record of an exchange or a session unreadable, while the store is closed; see FORMAT.md for the kinds.
func (m *memory) damage(kind byte, account store.AccountNumber, id string) {
	m.t.Helper()
	_, bare, _ := strings.Cut(id, "_")
	parsed, ok := store.ParseExchangeID("exch_" + bare) // ids of all kinds are written alike
	if !ok {
		m.t.Fatalf("%s is no id", id)
	}
	key := append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(account)), parsed[:]...)
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(m.dir, "badger")).WithLogger(nil))
	m.ok(err)
	m.ok(db.Update(func(tx *badger.Txn) error {
		if _, err := tx.Get(key); err != nil {
			return err
		}
		return tx.Set(key, []byte("damage"))
	}))
	m.ok(db.Close())
}

// loseIndex takes the index away, while the store is closed.
func (m *memory) loseIndex() {
	m.t.Helper()
	m.ok(os.RemoveAll(filepath.Join(m.dir, "index")))
}

// lines is a log that counts what it is told.
type lines struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, r.Message)
	return nil
}

func (l *lines) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}
