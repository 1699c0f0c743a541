package search

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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

// Where files of the index are damaged as a whole the proxy starts, all is found that was said, and capturing goes on.
func TestADamagedIndexIsBuiltAnew(t *testing.T) {
	for name, harm := range map[string]func([]byte) []byte{
		"cut short": func(file []byte) []byte { return file[:len(file)/2] },
		"empty":     func([]byte) []byte { return nil },
		"of zeros": func(file []byte) []byte {
			clear(file[len(file)/4:])
			return file
		},
		"of other bytes": func(file []byte) []byte {
			for i := range file { // a few in the middle of a file are not seen by opening it
				file[i] ^= 0x55
			}
			return file
		},
	} {
		for _, kind := range []string{"root.bolt", ".zap"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel() // most of the time an index gathers what it writes
				m := openMemory(t, t.TempDir())
				var said []string
				for i := range 3 {
					said = append(said, m.capture("acme", talk(fmt.Sprintf("where is lock %d", i), "here")))
				}
				m.found("acme", "lock")
				m.until("all on disk", func() bool { return m.logged() == 0 })
				m.reopen(func() { m.harmIndex(kind, harm) })
				said = append(said, m.capture("acme", talk("where is lock 4", "there")))
				found := m.found("acme", "lock")
				slices.Sort(found)
				if !slices.Equal(found, said) {
					t.Errorf("found %q of %q", found, said)
				}
			})
		}
	}
}

// harmIndex changes files of the index whose names end so, while the store is closed.
func (m *memory) harmIndex(suffix string, harm func([]byte) []byte) {
	m.t.Helper()
	harmed := 0
	m.ok(filepath.WalkDir(filepath.Join(m.dir, "index"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		harmed++
		return os.WriteFile(path, harm(file), 0o600)
	}))
	if harmed == 0 {
		m.t.Fatalf("there is no %s", suffix)
	}
}

// An index that cannot be opened, nor built, at the start is tried again; meanwhile everything is captured, and searches say
// why they find nothing.
func TestAnIndexThatCannotBeOpenedAtTheStartIsTriedAgain(t *testing.T) {
	log := &lines{}
	m := openMemoryWith(t, t.TempDir(), Options{Log: slog.New(log)})
	first := m.capture("acme", talk("where is the lock", "here"))
	m.wantFound("acme", "lock", first)
	dir := filepath.Join(m.dir, "index")
	m.reopen(func() {
		m.ok(os.RemoveAll(dir))
		m.ok(os.WriteFile(dir, nil, 0o600)) // a file where the directory should be
	})
	second := m.capture("acme", talk("where is the key", "there"))
	for _, granularity := range []Granularity{Exchanges, Sessions} {
		if _, err := Of(m.store).Search(t.Context(), "acme", &Request{Query: "lock", Granularity: granularity}); !errors.Is(err, errMissing) {
			t.Errorf("a search without an index gives %v", err)
		}
	}
	if status, err := Of(m.store).Status(t.Context(), "acme"); err != nil || status.Error == "" {
		t.Errorf("its status is %+v, %v", status, err)
	}
	if err := Of(m.store).Wait(t.Context(), "acme"); !errors.Is(err, errMissing) {
		t.Errorf("waiting for an index that is not there gives %v", err)
	}
	if n := log.count("cannot be built"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	m.ok(os.Remove(dir))
	m.until("an index", func() bool { return Of(m.store).Wait(t.Context(), "acme") == nil })
	m.wantFound("acme", "lock", first)
	m.wantFound("acme", "key", second)
}

// damage makes the record of an exchange or a session unreadable, while the store is closed, and gives what it was; see
// FORMAT.md for the kinds.
func (m *memory) damage(kind byte, account store.AccountNumber, id string) (former []byte) {
	m.t.Helper()
	if former = m.put(kind, account, id, []byte("damage")); former == nil {
		m.t.Fatalf("there is no %c of %s", kind, id)
	}
	return former
}

// put puts a record in the place of another one, while the store is closed; nil takes it away.
func (m *memory) put(kind byte, account store.AccountNumber, id string, record []byte) (former []byte) {
	m.t.Helper()
	_, bare, _ := strings.Cut(id, "_")
	parsed, ok := store.ParseExchangeID("exch_" + bare) // ids of all kinds are written alike
	if !ok {
		m.t.Fatalf("%s is no id", id)
	}
	key := append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(account)), parsed[:]...)
	_ = os.Remove(filepath.Join(m.dir, "stop.json")) // which says what the files were like
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(m.dir, "badger")).WithLogger(nil))
	m.ok(err)
	m.ok(db.Update(func(tx *badger.Txn) error {
		switch item, err := tx.Get(key); {
		case err == nil:
			if former, err = item.ValueCopy(nil); err != nil {
				return err
			}
		case !errors.Is(err, badger.ErrKeyNotFound):
			return err
		}
		if record == nil {
			return tx.Delete(key)
		}
		return tx.Set(key, record)
	}))
	m.ok(db.Close())
	return former
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

// A turn that was damaged when words and vectors were made anew is found by both once it is repaired.
func TestARepairedTurnIsFoundByItsWordsAndItsVector(t *testing.T) {
	m, damaged, _ := withDamagedTurn(t)
	report, err := m.store.Check(t.Context(), true, func(store.Finding) {})
	if err != nil || report.Repaired != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	m.wantFoundAnyhow("acme", damaged)
}

// So is one that this mneme could not read, and the next one can.
func TestATurnThatCanBeReadAgainIsFoundByItsWordsAndItsVector(t *testing.T) {
	m, damaged, record := withDamagedTurn(t)
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.reopen(func() { m.put('u', number, damaged, record) })
	m.wantFoundAnyhow("acme", damaged)
}

// withDamagedTurn gives a memory whose words and vectors were made anew while a turn about cars was damaged, and its record.
func withDamagedTurn(t *testing.T) (m *memory, damaged string, record []byte) {
	t.Helper()
	m = openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 1024)})
	damaged = m.capture("acme", talk("my car is broken", "bring the car to the garage"))
	other := m.capture("acme", talk("where is the lock", "here"))
	m.wantFound("acme", "car", damaged)
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.opts.Embedder = newSpeaker("speaker/2", 1024)
	m.reopen(func() {
		m.loseIndex()
		record = m.damage('u', number, damaged)
	})
	m.untilComplete()
	m.wantFound("acme", "lock", other)
	if found := m.found("acme", "car"); slices.Contains(found, damaged) {
		t.Fatalf("a damaged turn is found among %q", found)
	}
	return m, damaged, record
}

// wantFoundAnyhow wants a turn about cars to be found by its words, and by its vector.
func (m *memory) wantFoundAnyhow(account, id string) {
	m.t.Helper()
	for _, r := range []Request{{Query: "car", Mode: Lexical}, {Query: "automobile", Mode: Vector}} {
		if found := exchangesOf(m.search(account, r)); !slices.Contains(found, id) {
			m.t.Errorf("%s finds %q by %s", r.Query, found, r.Mode)
		}
	}
}

// A turn whose exchange is gone is taken away by a repair, and its words and its vector with it.
func TestARepairTakesWordsAndVectorOfWhatIsGone(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 1024)})
	gone := m.capture("acme", talk("my car is broken", "bring the car to the garage"))
	m.capture("acme", talk("where is the lock", "here"))
	m.wantFound("acme", "garage", gone)
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.reopen(func() { m.put('x', number, gone, nil) })
	_, err = m.store.Check(t.Context(), true, func(store.Finding) {})
	m.ok(err)
	m.until("words and vector are gone", func() bool {
		status, err := Of(m.store).Status(t.Context(), "acme")
		m.ok(err)
		return status.Documents == 1 && status.Vectors.Documents == 1
	})
	report, err := m.store.Check(t.Context(), false, func(f store.Finding) { t.Errorf("the repair has left %+v", f) })
	m.ok(err)
	if report.Exchanges != 1 {
		t.Errorf("the report is %+v", report)
	}
}
