// Package salvage reads the files of a Badger database without opening it: to check that they are intact before the
// database trusts them, and to extract what is readable if they are not. It changes none of them: [MendCommits] and
// [MendValues] write repaired copies.
//
// Badger itself truncates a log at the first bad record, deletes tables that its manifest does not list, and trusts the
// blocks of tables. So one flipped bit can cost everything after it.
package salvage

import (
	"encoding/binary"
	"math"
)

// Bits of an entry's meta byte.
const (
	metaDeleted = 1 << 0
	metaPointer = 1 << 1
	metaCommit  = 1 << 6 // in logs: the entry is part of a commit
	metaEnd     = 1 << 7 // in logs: the commit ends here
)

// versionBytes is the size of the version after each key on disk.
const versionBytes = 8

// Entry is one version of a key. Key and Value are valid until the next entry is read.
type Entry struct {
	Key      []byte
	Version  uint64
	Meta     byte
	UserMeta byte
	Value    []byte
}

// Deleted reports whether the entry deletes its key.
func (e *Entry) Deleted() bool { return e.Meta&metaDeleted != 0 }

// Pointer returns the place of the value if it is in a value log.
func (e *Entry) Pointer() (p Pointer, ok bool) {
	if e.Meta&metaPointer == 0 || e.Deleted() || len(e.Value) != 12 {
		return p, false
	}
	return Pointer{
		File:   binary.NativeEndian.Uint32(e.Value),
		Size:   binary.NativeEndian.Uint32(e.Value[4:]),
		Offset: binary.NativeEndian.Uint32(e.Value[8:]),
	}, true
}

// Pointer is the place of a record in a value log.
type Pointer struct {
	File, Size, Offset uint32
}

// Stretch is a range of bytes of a file.
type Stretch struct {
	From, To int64
}

func (s Stretch) size() int64 { return s.To - s.From }

// splitKey splits a key on disk into key and version.
func splitKey(key []byte) ([]byte, uint64) {
	n := len(key) - versionBytes
	if n < 0 {
		return key, 0
	}
	return key[:n], math.MaxUint64 - binary.BigEndian.Uint64(key[n:])
}

func joinKey(key []byte, version uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), key...), math.MaxUint64-version)
}
