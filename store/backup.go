package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A backup is one line of JSON, and then a zstd stream of every key of the store in order, as of one moment. A full
// backup has a value with each key. An incremental one has values only with keys that were written since the backup it
// builds on; the others are named without, and what is not named is gone. FORMAT.md describes the bytes.

// BackupHeader is the first line of a backup.
type BackupHeader struct {
	Format  string    `json:"format"`  // "mneme backup"
	Version int       `json:"version"` // of this layout
	Since   uint64    `json:"since"`   // the mark of the backup it builds on; 0: a full backup
	Mark    uint64    `json:"mark"`    // what an incremental backup on top of it is given as since
	Created time.Time `json:"created"`
}

const (
	backupFormat  = "mneme backup"
	backupVersion = 1

	entryEnd    = 0 // no more keys; the BLAKE3 hash of the stream so far follows
	entryFull   = 1 // key, mark byte, value
	entryBefore = 2 // key; its value is in the backup before
)

// Backup writes the state of this moment to w, while the store is in use, and gives the mark for an incremental backup
// on top of it. Since is 0 for a full backup, or the mark of the last one. The master key is not part of a backup:
// without it, the accounts' provider credentials in it cannot be read.
func (s Upkeep) Backup(ctx context.Context, w io.Writer, since uint64) (mark uint64, err error) {
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	mark = tx.ReadTs()
	header, err := json.Marshal(BackupHeader{Format: backupFormat, Version: backupVersion, Since: since, Mark: mark, Created: time.Now().UTC()})
	if err != nil {
		return 0, err
	}
	if _, err := w.Write(append(header, '\n')); err != nil {
		return 0, err
	}
	packed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return 0, err
	}
	sum := blake3.New()
	out := bufio.NewWriterSize(io.MultiWriter(packed, sum), 64<<10)
	err = kv.EachItem(ctx, tx, nil, func(item *badger.Item) error { return writeBackupEntry(out, item, since) })
	if err == nil {
		err = errors.Join(out.WriteByte(entryEnd), out.Flush())
	}
	if err == nil {
		_, err = packed.Write(sum.Sum(nil))
	}
	if err = errors.Join(err, packed.Close()); err != nil {
		return 0, fmt.Errorf("write the backup: %w", err)
	}
	return mark, nil
}

func writeBackupEntry(out *bufio.Writer, item *badger.Item, since uint64) error {
	if bytes.HasPrefix(item.Key(), kv.NameKey(kv.SpaceMeta, restoreMark)) {
		return nil
	}
	head := []byte{entryFull}
	if item.Version() <= since {
		head[0] = entryBefore
	}
	head = binary.AppendUvarint(head, uint64(len(item.Key())))
	head = append(head, item.Key()...)
	if head[0] == entryBefore {
		_, err := out.Write(head)
		return err
	}
	return item.Value(func(value []byte) error {
		head = append(head, item.UserMeta())
		head = binary.AppendUvarint(head, uint64(len(value)))
		if _, err := out.Write(head); err != nil {
			return err
		}
		_, err := out.Write(value)
		return err
	})
}

// restoreMark is the meta key that a store has between restores and its first opening: its value is the mark of the
// last backup restored into it, or nothing while a restore is under way.
const restoreMark = "restore"

// leaveRestore lets a restored store be used; no incremental backup can be restored on top from then on.
func leaveRestore(tx *badger.Txn, dir string) error {
	mark, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, restoreMark))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(mark) == 0 {
		return fmt.Errorf("a restore into %s was cut short: remove the directory and restore again", dir)
	}
	return tx.Delete(kv.NameKey(kv.SpaceMeta, restoreMark))
}

// Restore makes a store in opts.Dir out of a full backup, where there is none yet, or takes one that was just restored
// on to an incremental backup that builds on it. The store must not be open. A restore that is cut short leaves a
// store that refuses to open. clearDerived removes what was derived from a store that is no longer there, an index of its turns;
// it is called once the backup is known to fit and nothing has changed yet. nil: there is nothing of the kind.
func Restore(ctx context.Context, opts Options, r io.Reader, clearDerived func() error) (BackupHeader, error) {
	in := bufio.NewReader(r)
	header, err := readBackupHeader(in)
	if err != nil {
		return header, err
	}
	s, err := openForRestore(opts, header, clearDerived)
	if err != nil {
		return header, err
	}
	err = restoreInto(ctx, s.db.DB, in, header)
	return header, errors.Join(err, s.release())
}

func readBackupHeader(in *bufio.Reader) (header BackupHeader, err error) {
	line, err := in.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &header)
	}
	if err != nil || header.Format != backupFormat {
		return header, errors.New("this is not a backup of mneme")
	}
	if header.Version > backupVersion {
		return header, fmt.Errorf("this backup has version %d, this mneme reads up to %d: upgrade mneme", header.Version, backupVersion)
	}
	return header, nil
}

// openForRestore opens the database without what a store in use has around it.
func openForRestore(opts Options, header BackupHeader, clearDerived func() error) (*core, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	err = s.openDatabase()
	if err == nil {
		err = s.db.View(func(tx *badger.Txn) error { return mayRestore(tx, header) })
	}
	if err == nil && clearDerived != nil {
		err = clearDerived()
	}
	if err == nil {
		err = s.db.Update(func(tx *badger.Txn) error { return tx.Set(kv.NameKey(kv.SpaceMeta, restoreMark), nil) })
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// mayRestore reports whether the database is in the state that the backup builds on.
func mayRestore(tx *badger.Txn, header BackupHeader) error {
	mark, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, restoreMark))
	switch {
	case err != nil && !errors.Is(err, badger.ErrKeyNotFound):
		return err
	case err == nil && len(mark) == 0:
		return errors.New("an earlier restore was cut short: remove the store directory and restore again")
	case header.Since == 0:
		it := tx.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		if it.Rewind(); it.Valid() {
			return errors.New("there is a store already: a full backup is restored into an empty directory")
		}
		return nil
	case err != nil || len(mark) != 8 || binary.BigEndian.Uint64(mark) != header.Since:
		return errors.New("this incremental backup builds on another one: restore the full backup and those after it in order, and open the store only then")
	}
	return nil
}

// restoreInto brings the database to the state of the backup. Both are in the order of keys: what the database has
// between two keys of the backup is gone.
func restoreInto(ctx context.Context, db *badger.DB, in io.Reader, header BackupHeader) error {
	unpacked, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blob.MaxDecoded))
	if err != nil {
		return err
	}
	defer unpacked.Close()
	e := &backupReader{in: bufio.NewReaderSize(unpacked, 64<<10), sum: blake3.New()}
	tx := db.NewTransaction(false)
	defer tx.Discard()
	it := tx.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	it.Rewind()
	b := db.NewWriteBatch()
	defer b.Cancel()
	mark := kv.NameKey(kv.SpaceMeta, restoreMark)
	dropBefore := func(key []byte) error {
		for ; it.Valid() && (key == nil || bytes.Compare(it.Item().Key(), key) < 0); it.Next() {
			if bytes.Equal(it.Item().Key(), mark) {
				continue
			}
			if err := b.Delete(it.Item().KeyCopy(nil)); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	for {
		more, err := e.next()
		if err != nil {
			return fmt.Errorf("the backup is damaged or cut short: %w", err)
		}
		if !more {
			break
		}
		if err := dropBefore(e.key); err != nil {
			return err
		}
		there := it.Valid() && bytes.Equal(it.Item().Key(), e.key)
		if there {
			it.Next()
		}
		switch {
		case e.kind == entryFull:
			err = b.SetEntry(badger.NewEntry(e.key, e.value).WithMeta(e.mark))
		case !there:
			err = errors.New("the backup builds on another one than was restored")
		}
		if err != nil {
			return err
		}
	}
	if err := dropBefore(nil); err != nil {
		return err
	}
	if err := b.Set(mark, binary.BigEndian.AppendUint64(nil, header.Mark)); err != nil {
		return err
	}
	return errors.Join(b.Flush(), db.Sync())
}

// backupReader reads the entries of a backup. Key and value are its caller's to keep.
type backupReader struct {
	in    *bufio.Reader
	sum   *blake3.Hasher
	kind  byte
	key   []byte
	mark  byte
	value []byte
}

var errBackup = errors.New("malformed entry")

// next reads one entry; false means that the end was reached and the hash fits.
func (r *backupReader) next() (more bool, err error) {
	if r.kind, err = r.byte(); err != nil {
		return false, err
	}
	switch r.kind {
	case entryEnd:
		want := r.sum.Sum(nil)
		have := make([]byte, len(want))
		if _, err := io.ReadFull(r.in, have); err != nil {
			return false, err
		}
		if !bytes.Equal(have, want) {
			return false, errors.New("its hash does not fit")
		}
		return false, nil
	case entryFull, entryBefore:
	default:
		return false, errBackup
	}
	if r.key, err = r.bytes(1 << 10); err != nil || r.kind == entryBefore {
		return true, err
	}
	if r.mark, err = r.byte(); err != nil {
		return false, err
	}
	r.value, err = r.bytes(blob.MaxDecoded)
	return true, err
}

func (r *backupReader) byte() (byte, error) {
	b, err := r.in.ReadByte()
	_, _ = r.sum.Write([]byte{b})
	return b, noEOF(err)
}

func (r *backupReader) bytes(limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, noEOF(err)
	}
	if n > limit {
		return nil, errBackup
	}
	_, _ = r.sum.Write(binary.AppendUvarint(nil, n))
	// Read in steps, so that a damaged length does not claim memory that the file cannot fill.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r.in, int64(n)); err != nil {
		return nil, noEOF(err)
	}
	_, _ = r.sum.Write(b.Bytes())
	return b.Bytes(), nil
}

// noEOF makes an end that comes too early an error that says so.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
