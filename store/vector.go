package store

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Generations returns all generations in the order of their numbers.
func (s Vectors) Generations() (list []record.Generation, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, turns.GenerationsKey)
		if err != nil {
			return err
		}
		return record.Decode(value, &list)
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, kv.StorageError(err, "the generations of vectors cannot be read; run mneme check")
	}
	return list, nil
}

// PutGenerations replaces the list atomically.
func (s Vectors) PutGenerations(ctx context.Context, list []record.Generation) error {
	value, err := kv.EncodeRecord(list)
	if err != nil {
		return err
	}
	err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
		g.Put(w, turns.GenerationsKey, value)
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the generations of vectors could not be stored")
	}
	return nil
}

// Put stores vectors in a generation. It skips those of turns that no longer exist, and all of them if the generation
// does not, so that no data of an erased turn can be stored after its erasure.
func (s Vectors) Put(ctx context.Context, generation uint32, vectors []record.TurnVector) error {
	err := s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
		kept := slices.ContainsFunc(turns.Generations(g), func(o record.Generation) bool { return o.Number == generation && !o.Retired })
		for _, v := range vectors {
			id, ok := kv.ParseExchangeID(v.Exchange)
			if account := v.Account; ok && kept && g.Has(kv.ExchangeKey(kv.SpaceTurn, account, id)) {
				g.Put(w, turns.VectorKey(account, generation, id), v.Value)
			}
		}
		return g.Err()
	})
	if err != nil {
		return kv.AsStorageError(err, "vectors could not be stored")
	}
	return nil
}

// At returns the vector of a turn; nil if there is none.
func (s Vectors) At(account record.AccountNumber, generation uint32, exchange string) (value []byte, err error) {
	id, ok := kv.ParseExchangeID(exchange)
	if !ok {
		return nil, nil
	}
	err = s.db.View(func(tx *badger.Txn) (err error) {
		value, err = kv.Get(tx, turns.VectorKey(account, generation, id))
		return err
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return nil, kv.StorageError(err, "a vector cannot be read; run mneme check")
	}
	return value, nil
}

// Each visits the vectors of an account in a generation. The bytes are valid until visit returns.
func (s Vectors) Each(ctx context.Context, account record.AccountNumber, generation uint32, visit func(id [16]byte, value []byte)) error {
	err := s.db.View(func(tx *badger.Txn) error {
		return kv.EachValue(ctx, tx, turns.VectorPrefix(account, generation), func(key, value []byte) error {
			if _, id, ok := turns.SplitVectorKey(key); ok {
				visit(id, value)
			}
			return nil
		})
	})
	if err != nil {
		return kv.AsStorageError(err, "the vectors cannot be read; run mneme check")
	}
	return nil
}

// Usage counts the vectors of an account in a generation, and the bytes of their keys and values.
func (s Vectors) Usage(ctx context.Context, account record.AccountNumber, generation uint32) (vectors uint64, size int64, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, turns.VectorPrefix(account, generation), func(item *badger.Item) error {
			vectors++
			size += item.EstimatedSize()
			return nil
		})
	})
	if err != nil {
		return 0, 0, kv.AsStorageError(err, "the vectors cannot be counted; run mneme check")
	}
	return vectors, size, nil
}

// dropBatch is how many vectors are erased in one operation.
const dropBatch = 10_000

// Drop erases all vectors of a generation, in batches so that other work can continue.
func (s Vectors) Drop(ctx context.Context, generation uint32) error {
	for after := []byte{kv.SpaceVector}; after != nil; {
		keys, next, err := s.vectorKeys(ctx, generation, after)
		if err == nil && len(keys) > 0 {
			err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
				for _, key := range keys {
					g.Put(w, key, nil)
				}
				return nil
			})
		}
		if err != nil {
			return kv.AsStorageError(err, "the vectors of an earlier generation could not be erased")
		}
		after = next
	}
	return nil
}

// vectorKeys returns the keys of at most dropBatch vectors of a generation, beginning at a key, and the key to continue
// from; nil if these are the last.
func (s *core) vectorKeys(ctx context.Context, generation uint32, from []byte) (keys [][]byte, next []byte, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		for item := range kv.Items(tx, []byte{kv.SpaceVector}, from) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if of, _, ok := turns.SplitVectorKey(item.Key()); !ok || of != generation {
				continue
			}
			if len(keys) == dropBatch {
				next = item.KeyCopy(nil)
				return nil
			}
			keys = append(keys, item.KeyCopy(nil))
		}
		return nil
	})
	return keys, next, err
}

// TurnsAfter returns at most limit turns of all accounts after a cursor, and the cursor after them. A nil cursor is
// before the first turn; no turns means that the cursor is after the last.
func (f Feed) TurnsAfter(ctx context.Context, cursor []byte, limit int) (turns []*Change, next []byte, err error) {
	next = cursor
	err = f.store.db.View(func(tx *badger.Txn) error {
		for item := range kv.Items(tx, []byte{kv.SpaceTurn}, append([]byte{kv.SpaceTurn}, cursor...)) {
			if len(turns) >= limit {
				break
			}
			key := item.Key()
			if account, id, ok := kv.SplitExchangeKey(key); ok && !bytes.Equal(key[1:], cursor) {
				turns = append(turns, feed.NewChange(account, id, kv.SessionID{}))
				next = bytes.Clone(key[1:])
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, kv.AsStorageError(err, "the turns could not be listed; run mneme check")
	}
	return turns, next, nil
}

// CountTurns counts the turns of all accounts.
func (f Feed) CountTurns(ctx context.Context) (turns uint64, err error) {
	err = f.store.db.View(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, []byte{kv.SpaceTurn}, func(*badger.Item) error {
			turns++
			return nil
		})
	})
	if err != nil {
		return 0, kv.AsStorageError(err, "the turns could not be counted; run mneme check")
	}
	return turns, nil
}
