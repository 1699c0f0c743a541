package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// generationsKey is the key of the list of generations; there are never more than a few.
var generationsKey = kv.NameKey(kv.SpaceMeta, "generations")

func vectorKey(account kv.AccountNumber, generation uint32, id kv.ExchangeID) []byte {
	return append(vectorPrefix(account, generation), id[:]...)
}

func vectorPrefix(account kv.AccountNumber, generation uint32) []byte {
	return binary.BigEndian.AppendUint32(kv.SpaceKeyOf(kv.SpaceVector, account), generation)
}

func splitVectorKey(key []byte) (generation uint32, id kv.ExchangeID, ok bool) {
	if len(key) != 1+4+4+len(id) {
		return 0, id, false
	}
	return binary.BigEndian.Uint32(key[5:]), kv.ExchangeID(key[9:]), true
}

// generations returns the list as seen by the commit group.
func (g *commitGroup) generations() (list []record.Generation) {
	if value := g.Get(generationsKey); value != nil && g.Err() == nil {
		g.Fail(record.Decode(value, &list))
	}
	return list
}

// Generations returns all generations in the order of their numbers.
func (s Vectors) Generations() (list []record.Generation, err error) {
	err = s.view(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, generationsKey)
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
	err = s.update(ctx, func(g *commitGroup, w *commit.Op) error {
		g.Put(w, generationsKey, value)
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
	err := s.update(ctx, func(g *commitGroup, w *commit.Op) error {
		kept := slices.ContainsFunc(g.generations(), func(o record.Generation) bool { return o.Number == generation && !o.Retired })
		for _, v := range vectors {
			id, ok := kv.ParseExchangeID(v.Exchange)
			if account := v.Account; ok && kept && g.Has(kv.ExchangeKey(kv.SpaceTurn, account, id)) {
				g.Put(w, vectorKey(account, generation, id), v.Value)
			}
		}
		return g.Err()
	})
	if err != nil {
		return kv.AsStorageError(err, "vectors could not be stored")
	}
	return nil
}

// eraseVectors deletes the vectors of a turn.
func (g *commitGroup) eraseVectors(w *commit.Op, account kv.AccountNumber, id kv.ExchangeID) {
	for _, generation := range g.generations() {
		if key := vectorKey(account, generation.Number, id); g.Has(key) {
			g.Put(w, key, nil)
		}
	}
}

// At returns the vector of a turn; nil if there is none.
func (s Vectors) At(account record.AccountNumber, generation uint32, exchange string) (value []byte, err error) {
	id, ok := kv.ParseExchangeID(exchange)
	if !ok {
		return nil, nil
	}
	err = s.view(func(tx *badger.Txn) (err error) {
		value, err = kv.Get(tx, vectorKey(account, generation, id))
		return err
	})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return nil, kv.StorageError(err, "a vector cannot be read; run mneme check")
	}
	return value, nil
}

// Each visits the vectors of an account in a generation. The bytes are valid until visit returns.
func (s Vectors) Each(ctx context.Context, account record.AccountNumber, generation uint32, visit func(id [16]byte, value []byte)) error {
	err := s.view(func(tx *badger.Txn) error {
		return kv.EachValue(ctx, tx, vectorPrefix(account, generation), func(key, value []byte) error {
			if _, id, ok := splitVectorKey(key); ok {
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
	err = s.view(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, vectorPrefix(account, generation), func(item *badger.Item) error {
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
			err = s.update(ctx, func(g *commitGroup, w *commit.Op) error {
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
	err = s.view(func(tx *badger.Txn) error {
		for item := range kv.Items(tx, []byte{kv.SpaceVector}, from) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if of, _, ok := splitVectorKey(item.Key()); !ok || of != generation {
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
	err = f.store.view(func(tx *badger.Txn) error {
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
	err = f.store.view(func(tx *badger.Txn) error {
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
