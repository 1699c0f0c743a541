package files

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// unlistedTables are tables that the manifest neither lists nor calls removed, with their entries that have not been found
// elsewhere. Such a table is normal after a kill if all its entries are elsewhere too.
type unlistedTables struct {
	tables []*unlistedTable
	holder map[uint64]*unlistedTable // of entries that have not been found, by hash
	seed   maphash.Seed
	buffer []byte
}

type unlistedTable struct {
	name        string
	first, last []byte // keys
	missing     int    // entries
}

func newUnlistedTables() *unlistedTables {
	return &unlistedTables{holder: make(map[uint64]*unlistedTable), seed: maphash.MakeSeed()}
}

// add reads a table.
func (u *unlistedTables) add(path, name string) error {
	t := &unlistedTable{name: name}
	_, err := salvage.ReadTable(path, func(e *salvage.Entry) error {
		if t.first == nil {
			t.first = bytes.Clone(e.Key)
		}
		t.last = append(t.last[:0], e.Key...)
		hash := u.hash(e)
		if _, twice := u.holder[hash]; !twice {
			u.holder[hash] = t
			t.missing++
		}
		return nil
	})
	u.tables = append(u.tables, t)
	return err
}

// hash returns a hash of an entry. It includes the value, because garbage collection writes a key again under the same
// version, and only one of the two entries leads to a value. That two hashes are equal is much less likely than damage
// that no checksum shows.
func (u *unlistedTables) hash(e *salvage.Entry) uint64 {
	u.buffer = binary.LittleEndian.AppendUint64(u.buffer[:0], e.Version)
	u.buffer = binary.LittleEndian.AppendUint32(u.buffer, uint32(len(e.Key)))
	u.buffer = append(append(u.buffer, e.Key...), e.Value...)
	return maphash.Bytes(u.seed, u.buffer)
}

// strike notes that an entry was found elsewhere.
func (u *unlistedTables) strike(e *salvage.Entry) {
	if len(u.holder) == 0 {
		return
	}
	hash := u.hash(e)
	if t := u.holder[hash]; t != nil {
		delete(u.holder, hash)
		t.missing--
	}
}

// mayHold reports whether a block between two keys may hold a missing entry. There is no upper limit if next is nil.
func (u *unlistedTables) mayHold(first, next []byte) bool {
	for _, t := range u.tables {
		if t.missing > 0 && bytes.Compare(first, t.last) <= 0 && (next == nil || bytes.Compare(t.first, next) <= 0) {
			return true
		}
	}
	return false
}

// rest returns the name of a table with missing entries; "": all were found.
func (u *unlistedTables) rest() string {
	for _, t := range u.tables {
		if t.missing > 0 {
			return t.name
		}
	}
	return ""
}
