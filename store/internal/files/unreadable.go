package files

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// dangling is an entry that leads to an unreadable value. Garbage collection writes a value again under the same key and
// version, and the entry that leads to the removed log stays below the new one. So whether the value is lost depends on
// where the newest entry of the key leads, not on its version.
type dangling struct {
	key     []byte
	version uint64
	file    uint32
}

// unreadable returns the entries, one per key, that make the value of a key unreadable.
func (d *Database) unreadable(entries []dangling) (lost []dangling) {
	slices.SortFunc(entries, func(a, b dangling) int { // the newest of a key is first, and values move to newer logs
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(b.version, a.version), cmp.Compare(b.file, a.file))
	})
	entries = slices.CompactFunc(entries, func(a, b dangling) bool { return bytes.Equal(a.key, b.key) })
	d.judging.Store(true)
	defer d.judging.Store(false)
	_ = d.View(func(tx *badger.Txn) error {
		for _, e := range entries {
			if item, err := tx.Get(e.key); err == nil && item.Version() == e.version && !readable(item) {
				lost = append(lost, e)
			}
		}
		return nil
	})
	return lost
}

// readable reports whether the value of an item in a value log can be read. Badger returns no value where it fails.
func readable(item *badger.Item) bool {
	var whole bool
	err := item.Value(func(value []byte) error {
		whole = len(value) > 0 && !salvage.IsFiller(value)
		return nil
	})
	return err == nil && whole
}
