package files

import (
	"bytes"
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
	counts, err := d.deadBytes()
	if err != nil {
		d.log.Error("space could not be given back", "error", err)
		return false
	}
	for name, dead := range counts {
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

// deadBytes returns how many bytes of each value log are dead, as far as the database knows.
func (d *Database) deadBytes() (map[string]uint64, error) {
	counts, err := os.ReadFile(d.path(discardFile))
	dead := make(map[string]uint64)
	for at := 0; at+16 <= len(counts); at += 16 {
		number := binary.BigEndian.Uint64(counts[at:])
		if number == 0 {
			break // the rest of the file is empty: tens of thousands of counts
		}
		dead[fmt.Sprintf("%06d.vlog", number)] = binary.BigEndian.Uint64(counts[at+8:])
	}
	return dead, err
}

// RunValueLogGC rewrites the value log with the most dead bytes, if these are more than a share of it. The log is removed
// once the moved values are on disk: after a power failure they would be in neither log. The error is
// [badger.ErrNoRewrite] if there is no such log.
//
// Badger also moves the former value of a deleted key if it is still in the tables. A later merge would drop the mark of
// the deletion together with the place where the value was, and the key would be back. Therefore erase deletes such
// keys again, unless they exist: before the rewrite, because merges keep the marks that are younger than an open
// transaction, and after it, so that there is a mark above each moved value.
func (d *Database) RunValueLogGC(ctx context.Context, share float64, erase func(keys [][]byte) error) error {
	return d.rewriteLog(ctx, share, erase, d.Sync)
}

func (d *Database) rewriteLog(ctx context.Context, share float64, erase func(keys [][]byte) error, sync func() error) error {
	tx := d.NewTransaction(false)
	defer tx.Discard()
	it := tx.NewIterator(badger.IteratorOptions{}) // while there is one, Badger removes no log
	defer it.Close()
	before, err := d.deadBytes()
	if err != nil {
		return err
	}
	most := ""
	for name, dead := range before {
		if most == "" || dead > before[most] {
			most = name
		}
	}
	info, err := os.Stat(d.path(most))
	if most == "" || err != nil || float64(before[most]) < share*float64(info.Size()) {
		return badger.ErrNoRewrite
	}
	if err := d.eraseHidden(ctx, most, erase); err != nil {
		return err
	}
	if err := d.DB.RunValueLogGC(share); err != nil {
		return err
	}
	after, err := d.deadBytes()
	if err != nil {
		return err
	}
	for name, dead := range before {
		if dead == 0 || after[name] > 0 {
			continue
		}
		if err := d.eraseHidden(ctx, name, erase); err != nil { // the rewritten log has no count any more
			return err
		}
	}
	return sync()
}

// erasedTogether is how many keys are erased at a time.
const erasedTogether = 1000

// eraseHidden erases the keys of a log that are deleted and of which the tables still have a value.
func (d *Database) eraseHidden(ctx context.Context, name string, erase func(keys [][]byte) error) error {
	tx := d.NewTransaction(false)
	defer tx.Discard()
	var keys [][]byte
	_, err := salvage.ReadLog(d.path(name), func(r *salvage.Record) error {
		if err := ctx.Err(); err != nil || !hasHiddenValue(tx, r.Key) {
			return err
		}
		keys = append(keys, bytes.Clone(r.Key))
		if len(keys) < erasedTogether {
			return nil
		}
		err := erase(keys)
		keys = nil
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(keys) > 0 {
		err = erase(keys)
	}
	return err
}

// hasHiddenValue reports whether a key is deleted and the tables still have a value of it.
func hasHiddenValue(tx *badger.Txn, key []byte) bool {
	if _, err := tx.Get(key); !errors.Is(err, badger.ErrKeyNotFound) {
		return false
	}
	it := tx.NewKeyIterator(key, badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if !it.Item().IsDeletedOrExpired() {
			return true
		}
	}
	return false
}
