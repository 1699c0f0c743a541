package files

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// Open opens the database of a store of a format once its files are accounted for. key is nil if it is unknown.
func (d *Database) Open(o badger.Options, format int, key Key) error {
	d.format = format
	found, err := examine(d.dir, atStart)
	if err == nil {
		err = found.settle()
	}
	if err == nil {
		err = d.commits.open(d.dir)
	}
	if err == nil {
		err = d.noteInUse(key)
	}
	if err != nil {
		return err
	}
	d.tables = newTableWatch(d.dir, d.log, found.unread)
	if d.DB, err = openBadger(o.WithLogger(badgerLog{d.log, d.tables.readAll, &d.judging}), badger.Open); err != nil {
		return err
	}
	d.tables.db.Store(d.DB)
	found.report(d)
	return errors.Join(d.noteCommits(), d.NoteSettled())
}

// Close closes the database and notes the state of its files, with the proof of the key.
func (d *Database) Close(proof []byte) error {
	tables := d.tables.sound()
	err := errors.Join(d.DB.Close(), d.commits.close(), keepPrivate(d.dir))
	if err == nil {
		err = d.noteStop(proof, tables)
	}
	if err == nil { // leftovers were not needed
		err = os.RemoveAll(filepath.Join(d.dir, leftoverDir))
	}
	return err
}
