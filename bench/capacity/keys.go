package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// inLog is the minimum size in bytes of a value in the database's value log.
const inLog = 256

// written is what was stored under the keys of one kind, in all versions that still exist.
type written struct{ entries, keys, tree, log int }

// keysWritten counts the entries of a closed store by the first byte of their keys, which is their kind: see
// store/FORMAT.md.
func keysWritten(dir string) (kinds map[string]*written, err error) {
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "badger")).WithReadOnly(true).WithLogger(nil))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	kinds = make(map[string]*written)
	err = db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			kind := string(item.Key()[:1])
			if kinds[kind] == nil {
				kinds[kind] = new(written)
			}
			kinds[kind].add(len(item.Key()), int(item.ValueSize()))
		}
		return nil
	})
	return kinds, err
}

func (w *written) add(key, value int) {
	w.entries++
	w.keys += key
	if value < inLog {
		w.tree += value
	} else {
		w.log += value
	}
}

// listKeys prints how much an exchange writes under the keys of each kind.
func listKeys(dir string, exchanges int) error {
	kinds, err := keysWritten(dir)
	if err != nil {
		return err
	}
	per := func(n int) float64 { return float64(n) / float64(exchanges) }
	fmt.Println("         kind of key: entries; bytes of keys, of values in the tree, of values in the log; each exchange, before compression")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		w := kinds[kind]
		fmt.Printf("         %s %10.2f %8.0f %8.0f %8.0f\n", kind, per(w.entries), per(w.keys), per(w.tree), per(w.log))
	}
	return nil
}
