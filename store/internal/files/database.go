package files

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Database is the database of a store directory that this process has locked. Its methods may be called from any
// goroutine once it is open.
type Database struct {
	*badger.DB // nil until [Database.Open]

	dir     string // the store's
	format  int    // of the store, for its notes
	log     *slog.Logger
	lock    *os.File // holds the lock on dir
	commits commitFile

	tables *tableWatch
	noted  []settledFile // by the last note of this process; nil: none, or the note was replaced
	sound  sync.Map      // names of value logs that were read completely

	judging atomic.Bool // values are read to find the unreadable ones
}

// Lock locks a store directory, creating it if necessary. The error is [ErrInUse] if another process has it.
func Lock(dir string, log *slog.Logger) (*Database, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the store directory: %w", err)
	}
	if err := keepPrivate(dir); err != nil {
		return nil, fmt.Errorf("keep the store directory private: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	d := &Database{dir: dir, log: log, lock: lock}
	d.keepDirPrivate()
	return d, nil
}

// Unlock releases the directory. The database must not be used afterwards.
func (d *Database) Unlock() error { return d.lock.Close() }

// Key is the key of a store. Its notes hold a proof of it, so that a wrong key is noticed before anything changes.
// Proofs of the same key differ.
type Key interface {
	Proof() []byte
	Check(proof []byte) error
	Changing() bool // the key is being changed, and the noted proof is of neither key
}

// OpenManaged opens a new database for a writer that sets the version of each key.
func OpenManaged(o badger.Options, log *slog.Logger) (*badger.DB, error) {
	return openBadger(o.WithLogger(badgerLog{log: log, merging: func() {}, judging: new(atomic.Bool)}), badger.OpenManaged)
}

// MergeMark is the key of an entry for [Database.MergeNew], which removes it.
var MergeMark = kv.NameKey(kv.SpaceMeta, "merging")

// MergeNew writes what is in memory to a table and merges the newest tables, however few they are: Badger does both where it
// drops a prefix that has entries, and nowhere else on request. Nothing must be committed meanwhile, and readers wait.
func (d *Database) MergeNew() error { return d.DropPrefix(MergeMark) }

// openBadger turns a panic into an error: Badger panics on files that it does not expect.
func openBadger(o badger.Options, open func(badger.Options) (*badger.DB, error)) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(p)), "\n")
			db, err = nil, fmt.Errorf("%s cannot be opened (%s): restore a backup with mneme restore, or salvage what is readable with mneme recover", o.Dir, line)
		}
	}()
	if db, err = open(o); err != nil {
		return nil, fmt.Errorf("open the database in %s: %w; restore a backup with mneme restore, or salvage what is readable with mneme recover", o.Dir, err)
	}
	return db, nil
}

func (d *Database) path(name string) string { return filepath.Join(d.dir, DatabaseDir, name) }
