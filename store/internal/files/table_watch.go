package files

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// tableWatch checks the tables of an open database for damage, each before Badger merges it with others. A merge ends a
// table at the first unreadable block and then removes the file, so unnoticed damage would cost the rest of the table,
// including entries that delete others, and leave no trace.
//
// It reads the tables that the start has skipped, and once a day all of them: bits lost by a volume show when the
// kernel rereads a page.
type tableWatch struct {
	dir string // the store's
	log *slog.Logger
	db  atomic.Pointer[badger.DB] // nil until it is open

	mu      sync.Mutex          // held while a table is read, so that no merge ends in the meantime
	unread  []string            // tables
	damaged map[string]struct{} // tables
	queued  time.Time           // when all tables were last read, or added to unread
}

// readTablesEvery is how long a table is assumed to stay intact.
const readTablesEvery = 24 * time.Hour

func newTableWatch(dir string, log *slog.Logger, unread []string) *tableWatch {
	return &tableWatch{dir: dir, log: log, unread: unread, damaged: make(map[string]struct{}), queued: time.Now()}
}

// queueAll queues all tables for reading.
func (w *tableWatch) queueAll(now time.Time) {
	tables := w.db.Load().Tables()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued, w.unread = now, w.unread[:0]
	for i := range tables {
		w.unread = append(w.unread, tableName(tables[i].ID))
	}
}

// queueDaily is queueAll if the last time was a day ago.
func (w *tableWatch) queueDaily(now time.Time) {
	w.mu.Lock()
	due := now.Sub(w.queued) >= readTablesEvery
	w.mu.Unlock()
	if due {
		w.queueAll(now)
	}
}

// readNext reads one of the queued tables, and reports whether there was one.
func (w *tableWatch) readNext() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unread) == 0 {
		return false
	}
	w.read(w.unread[0])
	w.unread = w.unread[1:]
	return true
}

// readAll reads the queued tables. It returns when all have been read, by whichever goroutine.
func (w *tableWatch) readAll() {
	for w.readNext() {
	}
}

// read keeps a copy of a damaged table, and reports it.
func (w *tableWatch) read(name string) {
	t, err := salvage.ReadTable(filepath.Join(w.dir, DatabaseDir, name), func(*salvage.Entry) error { return nil })
	if errors.Is(err, fs.ErrNotExist) || err == nil && t.Whole() || !w.has(name) {
		return // a merged table is truncated before it is removed
	}
	if _, known := w.damaged[name]; known {
		return
	}
	problem := fmt.Sprint(err)
	if err == nil {
		problem = t.Problem()
	}
	d := newDamage(filepath.Join(DatabaseDir, name), "%s. Stop mneme and salvage what is readable with mneme recover: "+
		"once the database merges this table with others, only the kept copy has what follows the damage", problem)
	if err := d.keepCopy(w.dir); err != nil {
		w.log.Error("a damaged file could not be kept aside", "file", d.File, "error", err)
	}
	w.damaged[name] = struct{}{}
	d.report(w.dir, w.log)
}

// has reports whether the database still has a table. Before it is open, it removes none that has not been read.
func (w *tableWatch) has(name string) bool {
	db := w.db.Load()
	return db == nil || slices.ContainsFunc(db.Tables(), func(t badger.TableInfo) bool { return tableName(t.ID) == name })
}

// sound returns the tables without known damage.
func (w *tableWatch) sound() []badger.TableInfo {
	tables := w.db.Load().Tables()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(tables, func(t badger.TableInfo) bool {
		_, damaged := w.damaged[tableName(t.ID)]
		return damaged
	})
}

// damage returns one of the damaged tables that the database still has; "": none.
func (w *tableWatch) damage() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.damaged {
		if w.has(name) {
			return name
		}
	}
	return ""
}

// badgerLog logs what needs a person's attention. Badger also logs here, from its own goroutine, that it merges tables,
// after it has read them and before it removes them: the tables are then checked first. TestNoTableIsMergedUnread fails
// if Badger changes that.
type badgerLog struct {
	log     *slog.Logger
	merging func()
	judging *atomic.Bool // an unreadable value is reported by its reader
}

func (l badgerLog) Errorf(format string, args ...any) {
	if l.judging.Load() && (strings.HasPrefix(format, "Unable to read: Key") || strings.HasPrefix(format, "Key: ")) {
		return
	}
	l.log.Error(fmt.Sprintf(format, args...))
}

func (l badgerLog) Warningf(format string, args ...any) { l.log.Warn(fmt.Sprintf(format, args...)) }

func (badgerLog) Infof(string, ...any) {}

func (l badgerLog) Debugf(format string, _ ...any) {
	if strings.HasPrefix(format, "Discard stats: ") {
		l.merging()
	}
}
