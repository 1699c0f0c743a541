package search

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// A turn whose record is damaged is not found. All others are, of every account, also when the index is rebuilt.
func TestADamagedTurnHoldsNoOtherUp(t *testing.T) {
	m := openMemory(t, t.TempDir())
	damaged := m.capture("acme", talk("where is the lock", "here"))
	second := m.capture("acme", talk("where is the key", "there"))
	other := m.capture("globex", talk("where is the key", "there"))
	m.found("acme", "key")
	number, err := m.store.Accounts().Number("acme")
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
	number, err := m.store.Accounts().Number("acme")
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
		_, err := m.store.Archive().DescribeSession("acme", id, record.Description{Tags: []string{"work"}})
		m.ok(err)
	}
	if found := m.sessionsFound("acme", Request{Query: "lock"}); len(found) != 2 {
		t.Fatalf("found %q", found)
	}
	number, err := m.store.Accounts().Number("acme")
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

// allDamages makes the test of damaged files go through many places; without it each file is harmed at a few (make damage).
const allDamages = "MNEME_TEST_DAMAGE"

// indexHarm is something that happens to a file.
type indexHarm struct {
	name string
	do   func(path string) error
}

// indexHarms returns what can happen to a file of a size. Places is how many bits, and how many cuts, are tried.
func indexHarms(size int64, places int) []indexHarm {
	change := func(at, length int64, with func(byte) byte) func(string) error {
		return func(path string) error {
			file, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i := at; i < min(at+length, int64(len(file))); i++ {
				file[i] = with(file[i])
			}
			return os.WriteFile(path, file, 0o600)
		}
	}
	cut := func(at int64) func(string) error { return func(path string) error { return os.Truncate(path, at) } }
	harms := []indexHarm{
		{"deleted", os.Remove},
		{"garbage at the end", func(path string) error {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteString(strings.Repeat("garbage", 100))
			return errors.Join(err, file.Close())
		}},
		{"three bytes", change(size*2/5, 3, func(b byte) byte { return b ^ 0x5a })},
		{"a page of zeros", change(size/3, 4096, func(byte) byte { return 0 })},
		{"of other bytes", change(0, size, func(b byte) byte { return b ^ 0x55 })},
		{"zeros from the first quarter on", change(size/4, size, func(byte) byte { return 0 })},
		{"empty", cut(0)},
		{"cut in half", cut(size / 2)},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range int64(places) {
		part := max(1, size/int64(places))
		at, bit := n*part+random.Int64N(part), byte(1)<<random.IntN(8)
		harms = append(harms,
			indexHarm{fmt.Sprintf("bit %#x of byte %d", bit, at), change(at, 1, func(b byte) byte { return b ^ bit })},
			indexHarm{fmt.Sprintf("cut at %d", at), cut(at)})
	}
	return harms
}

// Where any file of the index is damaged in any way while the store is closed, that is noticed and the file is named: by
// examining the files, in the log and by a check. The index is built again and all is found that was said; a search
// meanwhile finds or fails, and the process goes on.
func TestNoDamageOfAnIndexFileIsHidden(t *testing.T) {
	places, whole := 2, os.Getenv(allDamages) != ""
	if whole {
		places = 100
	}
	m := openMemory(t, t.TempDir())
	said := map[string][]string{}
	for i := range 30 { // several segments, and some turns of them are gone again
		account := []string{"acme", "globex"}[i%2]
		id := m.capture(account, talk(fmt.Sprintf("where is lock %d", i), "here"))
		if i%7 == 3 {
			m.erase(account, id)
			continue
		}
		said[account] = append(said[account], id)
		if i%10 == 9 {
			m.untilConfirmed(store.StageWords)
		}
	}
	left := t.TempDir()
	m.reopen(func() { m.ok(os.CopyFS(left, os.DirFS(m.dir))) })
	try := func(name string, h indexHarm) {
		t.Run(name+" "+h.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(left)); err != nil {
				t.Fatal(err)
			}
			if err := h.do(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			h.findsAllIn(t, dir, name, said)
		})
	}
	kinds := indexFiles(t, left)
	if names := slices.Sorted(maps.Keys(kinds)); !slices.Equal(names, []string{".seg", completeMark, "segments"}) {
		t.Fatalf("the index has files of the kinds %v", names)
	}
	for _, files := range kinds {
		for i, name := range files {
			info, err := os.Stat(filepath.Join(left, name))
			m.ok(err)
			for j, h := range indexHarms(info.Size(), places) {
				if !whole && j%len(files) != i { // each harm comes to some file
					continue
				}
				try(name, h)
			}
		}
	}
}

// findsAllIn opens a store whose index has a harmed file, and looks that the harm is named and that all is found.
func (h *indexHarm) findsAllIn(t *testing.T, dir, name string, said map[string][]string) {
	// The mark has no content, and without it the index is built again like one that was not begun whole.
	harmless := filepath.Base(name) == completeMark
	examined, findings := 0, 0
	examine := func() {
		if err := Examine(t.Context(), filepath.Join(dir, "index"), func(d lexical.Damage) {
			if examined++; !strings.HasSuffix(d.File, name) {
				t.Errorf("examining names %s", d.Error())
			}
		}); err != nil {
			t.Error(err)
		}
	}
	examine()
	log := &lines{}
	m := openMemoryWith(t, dir, Options{Log: slog.New(log)})
	_, _ = m.index.Search(t.Context(), "acme", &Request{Query: "lock"}) // may fail
	_, err := m.check(t.Context(), false, func(f store.Finding) {
		if findings++; !f.Repaired || !strings.HasSuffix(name, f.Subject) {
			t.Errorf("the check finds %+v", f)
		}
	})
	m.ok(err)
	logged := log.count("the search index is damaged")
	if harmless && examined+findings+logged > 0 || !harmless && (examined == 0 || findings == 0 || logged == 0) {
		t.Errorf("%d by examining, %d by a check, %d in the log", examined, findings, logged)
	}
	said = maps.Clone(said)
	said["acme"] = append(slices.Clone(said["acme"]), m.capture("acme", talk("where is lock 99", "there")))
	for account, want := range said {
		found := exchangesOf(m.search(account, Request{Query: "lock", Limit: 100}))
		slices.Sort(found)
		if !slices.Equal(found, want) {
			t.Errorf("%s finds %q of %q", account, found, want)
		}
	}
	examined = 0
	if m.reopen(examine); examined > 0 {
		t.Errorf("%d files are damaged still", examined)
	}
}

// Files of an index in use that are damaged are found by a check, which names them, and by what fails on them; the process
// goes on, and all is found soon.
func TestDamageOfAnIndexInUseIsNoticed(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"other bytes": func(path string) error {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteAt([]byte("garbage"), 20)
			return errors.Join(err, file.Close())
		},
		"deleted": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			m := openMemory(t, t.TempDir())
			id := m.capture("acme", talk("where is the lock", "here"))
			m.wantFound("acme", "lock", id)
			m.untilConfirmed(store.StageWords)
			m.reopen(func() {})
			m.until("another index", func() bool {
				for _, file := range indexFiles(t, m.dir)[".seg"] {
					if err := harm(filepath.Join(m.dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) { // merged meanwhile
						t.Error(err)
					}
				}
				_, _ = m.index.Search(t.Context(), "acme", &Request{Query: "lock"}) // may fail
				found := 0
				_, err := m.check(t.Context(), false, func(f store.Finding) {
					if found++; !f.Repaired || !strings.HasPrefix(f.Subject, "index"+string(filepath.Separator)) {
						t.Errorf("the check finds %+v", f)
					}
				})
				return err == nil && found > 0
			})
			m.until("the turn", func() bool {
				answer, err := m.index.Search(t.Context(), "acme", &Request{Query: "lock"})
				return err == nil && slices.Equal(exchangesOf(answer), []string{id})
			})
		})
	}
}

// indexFiles returns the files of an index, in the directory of the store, by kind.
func indexFiles(t *testing.T, dir string) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(dir, "index"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		kind := cmp.Or(filepath.Ext(name), filepath.Base(name))
		files[kind] = append(files[kind], name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
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
		if _, err := m.index.Search(t.Context(), "acme", &Request{Query: "lock", Granularity: granularity}); !errors.Is(err, errMissing) {
			t.Errorf("a search without an index gives %v", err)
		}
	}
	if status, err := m.index.Status(t.Context(), "acme"); err != nil || status.Error == "" {
		t.Errorf("its status is %+v, %v", status, err)
	}
	if err := m.index.Wait(t.Context(), "acme"); !errors.Is(err, errMissing) {
		t.Errorf("waiting for an index that is not there gives %v", err)
	}
	if n := log.count("cannot be built"); n != 1 {
		t.Errorf("the log says it %d times", n)
	}
	m.ok(os.Remove(dir))
	m.until("an index", func() bool { return m.index.Wait(t.Context(), "acme") == nil })
	m.wantFound("acme", "lock", first)
	m.wantFound("acme", "key", second)
}

// damage makes the record of an exchange or a session unreadable, while the store is closed, and gives what it was; see
// FORMAT.md for the kinds.
func (m *memory) damage(kind byte, account record.AccountNumber, id string) (former []byte) {
	m.t.Helper()
	if former = m.put(kind, account, id, []byte("damage")); former == nil {
		m.t.Fatalf("there is no %c of %s", kind, id)
	}
	return former
}

// put puts a record in the place of another one, while the store is closed; nil takes it away.
func (m *memory) put(kind byte, account record.AccountNumber, id string, stored []byte) (former []byte) {
	m.t.Helper()
	_, bare, _ := strings.Cut(id, "_")
	parsed, ok := record.ParseExchangeID("exch_" + bare) // ids of all kinds are written alike
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
		if stored == nil {
			return tx.Delete(key)
		}
		return tx.Set(key, stored)
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

// A turn that was damaged when words and vectors were made again is found by both once it is repaired.
func TestARepairedTurnIsFoundByItsWordsAndItsVector(t *testing.T) {
	m, damaged, _ := withDamagedTurn(t)
	report, err := m.check(t.Context(), true, func(store.Finding) {})
	if err != nil || report.Repaired != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	m.wantFoundAnyhow("acme", damaged)
}

// So is one that this mneme could not read, and the next one can.
func TestATurnThatCanBeReadAgainIsFoundByItsWordsAndItsVector(t *testing.T) {
	m, damaged, stored := withDamagedTurn(t)
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	m.reopen(func() { m.put('u', number, damaged, stored) })
	m.wantFoundAnyhow("acme", damaged)
}

// withDamagedTurn returns a memory whose words and vectors were made again while a turn about cars was damaged, and its record.
func withDamagedTurn(t *testing.T) (m *memory, damaged string, stored []byte) {
	t.Helper()
	m = openMemoryWith(t, t.TempDir(), Options{Embedder: newSpeaker("speaker/1", 1024)})
	damaged = m.capture("acme", talk("my car is broken", "bring the car to the garage"))
	other := m.capture("acme", talk("where is the lock", "here"))
	m.wantFound("acme", "car", damaged)
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	m.opts.Embedder = newSpeaker("speaker/2", 1024)
	m.reopen(func() {
		m.loseIndex()
		stored = m.damage('u', number, damaged)
	})
	m.untilComplete()
	m.wantFound("acme", "lock", other)
	if found := m.found("acme", "car"); slices.Contains(found, damaged) {
		t.Fatalf("a damaged turn is found among %q", found)
	}
	return m, damaged, stored
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
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	m.reopen(func() { m.put('x', number, gone, nil) })
	_, err = m.check(t.Context(), true, func(store.Finding) {})
	m.ok(err)
	m.until("words and vector are gone", func() bool {
		status, err := m.index.Status(t.Context(), "acme")
		m.ok(err)
		return status.Documents == 1 && status.Vectors.Documents == 1
	})
	report, err := m.check(t.Context(), false, func(f store.Finding) { t.Errorf("the repair has left %+v", f) })
	m.ok(err)
	if report.Exchanges != 1 {
		t.Errorf("the report is %+v", report)
	}
}
