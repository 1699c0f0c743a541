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

// Backup writes the state of this moment to w, while the store is in use, and gives the mark for an incremental backup
// on top of it. Since is 0 for a full backup, or the mark of the last one. The master key is not part of a backup:
// without it, the accounts' provider credentials in it cannot be read.
func (s Upkeep) Backup(ctx context.Context, w io.Writer, since uint64) (mark uint64, err error) {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	return backup.Write(ctx, tx, w, since)
}

// Restore makes a store in opts.Dir out of a full backup, where there is none yet, or takes one that was just restored
// on to an incremental backup that builds on it. The store must not be open. A restore that is cut short leaves a
// store that refuses to open. clearDerived removes what was derived from a store that is no longer there, an index of its turns;
// it is called once the backup is known to fit and nothing has changed yet. nil: there is nothing of the kind.
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
	if err = s.openDatabase(); err == nil { // without what a store in use has around it
		err = backup.Begin(s.db.DB, header, clearDerived)
	}
	if err == nil {
		err = backup.Restore(ctx, s.db.DB, in, header)
	}
	return header, errors.Join(err, s.release())
}
