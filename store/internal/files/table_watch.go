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

// tableWatch reads the tables of an open database for damage, each before Badger merges it with others. A merge ends a table
// at the first block that it cannot read and then removes the file, so that damage which nobody has seen would cost the rest
// of the table, entries that delete others among it, and leave no trace.
//
// Tables are read that the start has passed over, and once a day all of them: bits that a volume loses show when the
// kernel reads a page again.
type tableWatch struct {
	dir string // the store's
	log *slog.Logger
	db  atomic.Pointer[badger.DB] // nil until it is open

	mu      sync.Mutex          // held while a table is read, so that no merge ends meanwhile
	unread  []string            // tables
	damaged map[string]struct{} // tables
	queued  time.Time           // when all tables were last read, or put into unread
}

// readTablesEvery is how long a table is taken for as whole as it was.
const readTablesEvery = 24 * time.Hour

func newTableWatch(dir string, log *slog.Logger, unread []string) *tableWatch {
	return &tableWatch{dir: dir, log: log, unread: unread, damaged: make(map[string]struct{}), queued: time.Now()}
}

// queueAll has all tables read again.
func (w *tableWatch) queueAll(now time.Time) {
	tables := w.db.Load().Tables()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued, w.unread = now, w.unread[:0]
	for i := range tables {
		w.unread = append(w.unread, tableName(tables[i].ID))
	}
}

// queueDaily is queueAll where that was a day ago.
func (w *tableWatch) queueDaily(now time.Time) {
	w.mu.Lock()
	due := now.Sub(w.queued) >= readTablesEvery
	w.mu.Unlock()
	if due {
		w.queueAll(now)
	}
}

// readNext reads one of the tables that have yet to be read, and reports whether there was one.
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

// readAll reads what has yet to be read. It returns when all of that has been, by whichever goroutine.
func (w *tableWatch) readAll() {
	for w.readNext() {
	}
}

// read keeps a copy of a table that is damaged, and says so.
func (w *tableWatch) read(name string) {
	t, err := salvage.ReadTable(filepath.Join(w.dir, DatabaseDir, name), func(*salvage.Entry) error { return nil })
	if errors.Is(err, fs.ErrNotExist) || err == nil && t.Whole() || !w.has(name) {
		return // one that was merged meanwhile is cut to nothing before it is removed
	}
	if _, known := w.damaged[name]; known {
		return
	}
	problem := fmt.Sprint(err)
	if err == nil {
		problem = t.Problem()
	}
	d := newDamage(filepath.Join(DatabaseDir, name), "%s. Stop mneme and get out what can be read with mneme recover: "+
		"once the database merges this table with others, what stands behind the damage is in the kept copy alone", problem)
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

// sound gives the tables that no damage was found in.
func (w *tableWatch) sound() []badger.TableInfo {
	tables := w.db.Load().Tables()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(tables, func(t badger.TableInfo) bool {
		_, damaged := w.damaged[tableName(t.ID)]
		return damaged
	})
}

// damage gives one of the damaged tables that the database still has; "": there is none.
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

// badgerLog passes on what needs a person's attention. It is also where Badger says that it merges tables, in its
// goroutine, once it has read them and before it removes them: merging is called for then. TestNoTableIsMergedUnread fails
// if Badger comes to say it otherwise.
type badgerLog struct {
	log     *slog.Logger
	merging func()
}

func (l badgerLog) Errorf(format string, args ...any) { l.log.Error(fmt.Sprintf(format, args...)) }

func (l badgerLog) Warningf(format string, args ...any) { l.log.Warn(fmt.Sprintf(format, args...)) }

func (badgerLog) Infof(string, ...any) {}

func (l badgerLog) Debugf(format string, _ ...any) {
	if strings.HasPrefix(format, "Discard stats: ") {
		l.merging()
	}
}
