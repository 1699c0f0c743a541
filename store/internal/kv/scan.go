package kv

import (
	"context"
	"fmt"

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

// EachRecord visits every record whose key begins with prefix. Key and record are valid only during the call.
func EachRecord(db Reader, prefix []byte, visit func(key, record []byte) error) error {
	return db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
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
	it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(it.Item()); err != nil {
			return err
		}
	}
	return nil
}

// EachValue visits records with their values, which it prefetches.
func EachValue(ctx context.Context, tx *badger.Txn, prefix []byte, visit func(key, value []byte) error) error {
	options := badger.DefaultIteratorOptions
	options.Prefix = prefix
	it := tx.NewIterator(options)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		item := it.Item()
		if err := item.Value(func(value []byte) error { return visit(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}
