package kv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/dgraph-io/badger/v4"
)

// Get returns a copy of the value of a key.
func Get(tx *badger.Txn, key []byte) ([]byte, error) {
	item, err := tx.Get(key)
	if err != nil {
		return nil, err
	}
	return item.ValueCopy(nil)
}

// Items returns the items whose key begins with prefix, in the order of their keys, from the key from on; nil: all. An
// item is valid until the next one.
func Items(tx *badger.Txn, prefix, from []byte) iter.Seq[*badger.Item] {
	return Scan(tx, badger.IteratorOptions{Prefix: prefix}, from)
}

// Scan is [Items] with other options.
func Scan(tx *badger.Txn, options badger.IteratorOptions, from []byte) iter.Seq[*badger.Item] {
	return func(yield func(*badger.Item) bool) {
		it := tx.NewIterator(options)
		defer it.Close()
		for it.Seek(from); it.Valid() && yield(it.Item()); it.Next() {
		}
	}
}

// LastNumber returns the highest of the numbers that follow prefix in keys; 0 if there is none.
func LastNumber(tx *badger.Txn, prefix []byte) uint64 {
	options := badger.IteratorOptions{Prefix: prefix, Reverse: true}
	for item := range Scan(tx, options, binary.BigEndian.AppendUint64(bytes.Clone(prefix), math.MaxUint64)) {
		if number := item.Key()[len(prefix):]; len(number) == 8 {
			return binary.BigEndian.Uint64(number)
		}
	}
	return 0
}

// ErrEnough ends a walk over records.
var ErrEnough = errors.New("everything of interest has been seen")

// EachRecord visits every record whose key begins with prefix. Key and record are valid only during the call.
func EachRecord(db Reader, prefix []byte, visit func(key, record []byte) error) error {
	return db.View(func(tx *badger.Txn) error {
		for item := range Items(tx, prefix, nil) {
			err := item.Value(func(record []byte) error { return visit(item.Key(), record) })
			if err != nil {
				return fmt.Errorf("record %q: %w", item.Key(), err)
			}
		}
		return nil
	})
}

// EachItem visits the items whose key begins with prefix, without prefetching their values.
func EachItem(ctx context.Context, tx *badger.Txn, prefix []byte, visit func(item *badger.Item) error) error {
	for item := range Items(tx, prefix, nil) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(item); err != nil {
			return err
		}
	}
	return nil
}

// EachValue visits records with their values, which it prefetches.
func EachValue(ctx context.Context, tx *badger.Txn, prefix []byte, visit func(key, value []byte) error) error {
	options := badger.DefaultIteratorOptions
	options.Prefix = prefix
	for item := range Scan(tx, options, nil) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := item.Value(func(value []byte) error { return visit(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}
