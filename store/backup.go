package store

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/mnemeproxy/mneme/store/internal/backup"
)

// BackupHeader is the first line of a backup.
type BackupHeader = backup.Header

// Backup writes a snapshot to w, while the store is in use, and returns the mark for an incremental backup on top of
// it. since is 0 for a full backup, or the mark of the last one. The master key is not included: without it, the
// accounts' provider credentials in the backup cannot be read.
func (s Upkeep) Backup(ctx context.Context, w io.Writer, since uint64) (mark uint64, err error) {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	return backup.Write(ctx, tx, w, since)
}

// Restore creates a store in opts.Dir from a full backup, if there is none yet, or applies an incremental backup to the
// store that was just restored from the backup it builds on. The store must not be open. An interrupted restore leaves
// a store that refuses to open. clearDerived removes data derived from an earlier store, such as an index of its turns;
// it is called once the backup is known to fit and before anything changes. nil: there is no such data.
func Restore(ctx context.Context, opts Options, r io.Reader, clearDerived func() error) (BackupHeader, error) {
	in := bufio.NewReader(r)
	header, err := backup.ReadHeader(in)
	if err != nil {
		return header, err
	}
	s, err := prepare(opts)
	if err != nil {
		return header, err
	}
	if err = s.openDatabase(); err == nil { // without the goroutines of a store in use
		err = backup.Begin(s.db.DB, header, clearDerived)
	}
	if err == nil {
		err = backup.Restore(ctx, s.db.DB, in, header)
	}
	return header, errors.Join(err, s.release())
}
