// Package backup writes backups of a database and restores them.
//
// A backup is one line of JSON followed by a zstd stream of every key of the store, in order, from one snapshot. A full
// backup has a value for each key. An incremental one has values only for keys written since the backup it builds on.
// It lists the other keys without a value; a key that is not listed was deleted. FORMAT.md describes the bytes.
package backup

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

// Header is the first line of a backup.
type Header struct {
	Format  string    `json:"format"`  // "mneme backup"
	Version int       `json:"version"` // of this layout
	Since   uint64    `json:"since"`   // the mark of the backup it builds on; 0: a full backup
	Mark    uint64    `json:"mark"`    // since for an incremental backup on top of it
	Created time.Time `json:"created"`
}

const (
	format  = "mneme backup"
	version = 1

	entryEnd    = 0 // no more keys; the BLAKE3 hash of the stream so far follows
	entryFull   = 1 // key, mark byte, value
	entryBefore = 2 // key; its value is in an earlier backup
)

// Write writes a transaction's view to w, and returns the mark for an incremental backup on top of it. since is 0 for a
// full backup, or the mark of the last one.
func Write(ctx context.Context, tx *badger.Txn, w io.Writer, since uint64) (mark uint64, err error) {
	mark = tx.ReadTs()
	header, err := json.Marshal(Header{Format: format, Version: version, Since: since, Mark: mark, Created: time.Now().UTC()})
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
	err = kv.EachItem(ctx, tx, nil, func(item *badger.Item) error { return writeEntry(out, item, since) })
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

func writeEntry(out *bufio.Writer, item *badger.Item, since uint64) error {
	if bytes.HasPrefix(item.Key(), MarkKey) {
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

// MarkKey exists in a store between restores and its first opening: its value is the mark of the last restored backup,
// or empty during a restore.
var MarkKey = kv.NameKey(kv.SpaceMeta, "restore")

// Leave makes a restored store in dir usable; no incremental backup can be restored on top of it after that.
func Leave(tx *badger.Txn, dir string) error {
	mark, err := kv.Get(tx, MarkKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(mark) == 0 {
		return fmt.Errorf("a restore into %s was cut short: remove the directory and restore again", dir)
	}
	return tx.Delete(MarkKey)
}

// ReadHeader reads the first line of a backup.
func ReadHeader(in *bufio.Reader) (header Header, err error) {
	line, err := in.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &header)
	}
	if err != nil || header.Format != format {
		return header, errors.New("this is not a backup of mneme")
	}
	if header.Version > version {
		return header, fmt.Errorf("this backup has version %d, this mneme reads up to %d: upgrade mneme", header.Version, version)
	}
	return header, nil
}

// Begin starts the restore of a backup if the database is in the state that it builds on. clear removes what was
// derived from another database; it is called once the backup is known to fit and before anything changes. nil: there
// is nothing.
func Begin(db *badger.DB, header Header, clear func() error) error {
	err := db.View(func(tx *badger.Txn) error { return mayRestore(tx, header) })
	if err == nil && clear != nil {
		err = clear()
	}
	if err != nil {
		return err
	}
	return db.Update(func(tx *badger.Txn) error { return tx.Set(MarkKey, nil) })
}

// mayRestore returns an error unless the database is in the state that the backup builds on.
func mayRestore(tx *badger.Txn, header Header) error {
	mark, err := kv.Get(tx, MarkKey)
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

// Restore brings the database to the state of the backup; in is positioned after its header. Both are in key order:
// keys of the database that are not in the backup are deleted.
func Restore(ctx context.Context, db *badger.DB, in io.Reader, header Header) error {
	unpacked, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blob.MaxDecoded))
	if err != nil {
		return err
	}
	defer unpacked.Close()
	e := &entryReader{in: bufio.NewReaderSize(unpacked, 64<<10), sum: blake3.New()}
	tx := db.NewTransaction(false)
	defer tx.Discard()
	it := tx.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	it.Rewind()
	b := db.NewWriteBatch()
	defer b.Cancel()
	dropBefore := func(key []byte) error {
		for ; it.Valid() && (key == nil || bytes.Compare(it.Item().Key(), key) < 0); it.Next() {
			if bytes.Equal(it.Item().Key(), MarkKey) {
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
			if err := e.atEnd(); err != nil {
				return err
			}
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
	if err := b.Set(MarkKey, binary.BigEndian.AppendUint64(nil, header.Mark)); err != nil {
		return err
	}
	return errors.Join(b.Flush(), db.Sync())
}

// entryReader reads the entries of a backup. The caller may keep key and value.
type entryReader struct {
	in    *bufio.Reader
	sum   *blake3.Hasher
	kind  byte
	key   []byte
	mark  byte
	value []byte
}

var errMalformed = errors.New("malformed entry")

// next reads one entry; false means the end, with the right hash.
func (r *entryReader) next() (more bool, err error) {
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
		return false, errMalformed
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

// atEnd returns an error if anything follows the backup, such as another one.
func (r *entryReader) atEnd() error {
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("there are bytes behind the end of the backup: restore each backup from a file of its own, without anything else in it")
	}
	return nil
}

func (r *entryReader) byte() (byte, error) {
	b, err := r.in.ReadByte()
	_, _ = r.sum.Write([]byte{b})
	return b, noEOF(err)
}

func (r *entryReader) bytes(limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return nil, noEOF(err)
	}
	if n > limit {
		return nil, errMalformed
	}
	_, _ = r.sum.Write(binary.AppendUvarint(nil, n))
	// Read in steps, so that a damaged length does not allocate memory that the file cannot fill.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r.in, int64(n)); err != nil {
		return nil, noEOF(err)
	}
	_, _ = r.sum.Write(b.Bytes())
	return b.Bytes(), nil
}

// noEOF turns an early end into an error that says so.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
