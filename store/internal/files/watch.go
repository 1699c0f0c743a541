package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// Check checks the files of the database while it is open, and reports what was noted when it was opened. It settles the
// notes by which nothing is lost.
func (d *Database) Check(ctx context.Context, found func(Damage)) error {
	if err := d.checkNotes(ctx, found); err != nil {
		return err
	}
	for _, info := range d.Tables() {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := tableName(info.ID)
		t, err := salvage.ReadTable(d.path(name), func(*salvage.Entry) error { return nil })
		switch {
		case err == nil && t.Whole():
		case !d.tables.has(name): // compacted in the meantime, and truncated before it was removed
		case errors.Is(err, fs.ErrNotExist):
			found(*newDamage(filepath.Join(DatabaseDir, name), "it is missing"))
		case err != nil:
			return err
		default:
			found(*newDamage(filepath.Join(DatabaseDir, name), "%s; salvage what is readable with mneme recover", t.Problem()))
		}
	}
	logs, err := filepath.Glob(d.path("*.vlog"))
	if err != nil {
		return err
	}
	for _, path := range logs {
		l, err := readQuietLog(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // rewritten in the meantime
		}
		if err != nil {
			return err
		}
		if len(l.Bad) > 0 || l.Header {
			found(*newDamage(filepath.Join(DatabaseDir, filepath.Base(path)), "%s", logProblem(l)))
		}
	}
	return nil
}

func (d *Database) path(name string) string { return filepath.Join(d.dir, DatabaseDir, name) }

// readQuietLog reads a log that may be written concurrently: damage that is only momentary does not count.
func readQuietLog(ctx context.Context, path string) (*salvage.Log, error) {
	for tries := 3; ; tries-- {
		l, err := salvage.ReadLog(path, func(*salvage.Record) error { return ctx.Err() })
		if err != nil || len(l.Bad) == 0 || tries == 1 {
			return &l, err
		}
	}
}

// ReadNext checks one of the queued tables for damage, and reports whether there was one.
func (d *Database) ReadNext() bool { return d.tables.readNext() }

// QueueDaily queues all tables if the last time was a day ago.
func (d *Database) QueueDaily(now time.Time) { d.tables.queueDaily(now) }

// QueueAll queues all tables for reading.
func (d *Database) QueueAll(now time.Time) { d.tables.queueAll(now) }

// Damaged returns the file of a damaged table; "": there is none.
func (d *Database) Damaged() string { return d.tables.damage() }

// SoundToRewrite reports whether the value logs of which more than a share is dead are completely readable: a rewrite
// would lose everything after damage. It reads each once, since they do not grow any more.
func (d *Database) SoundToRewrite(share float64) bool {
	counts, err := os.ReadFile(d.path(discardFile))
	if err != nil {
		d.log.Error("space could not be given back", "error", err)
		return false
	}
	for at := 0; at+16 <= len(counts); at += 16 {
		number, dead := binary.BigEndian.Uint64(counts[at:]), binary.BigEndian.Uint64(counts[at+8:])
		if number == 0 {
			break // the rest of the file is empty: tens of thousands of counts
		}
		name := fmt.Sprintf("%06d.vlog", number)
		info, err := os.Stat(d.path(name))
		if err != nil || float64(dead) < share*float64(info.Size())/2 { // the counts grow in the meantime
			continue
		}
		if _, done := d.sound.Load(name); done {
			continue
		}
		l, err := salvage.ReadLog(d.path(name), func(*salvage.Record) error { return nil })
		if err != nil || !l.Whole() {
			d.log.Error("space is not given back: a value log is damaged; salvage what is readable with mneme recover", "file", d.path(name), "error", err)
			return false
		}
		d.sound.Store(name, true)
	}
	return true
}

// RunValueLogGC rewrites a value log, and removes it once what was moved out of it is on disk: after a power failure the
// values would be in neither log.
func (d *Database) RunValueLogGC(share float64) error { return d.rewriteLog(share, d.Sync) }

func (d *Database) rewriteLog(share float64, sync func() error) error {
	tx := d.NewTransaction(false)
	defer tx.Discard()
	it := tx.NewIterator(badger.IteratorOptions{}) // while there is one, Badger removes no log
	defer it.Close()
	if err := d.DB.RunValueLogGC(share); err != nil {
		return err
	}
	return sync()
}
