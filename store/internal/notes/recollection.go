package notes

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

func recollectionKey(account kv.AccountNumber, key record.RecollectionKey) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceRecollection, account), key[:]...)
}

// quotedKey returns the key that leads from an exchange to a recollection that quotes it.
func quotedKey(account kv.AccountNumber, id kv.ExchangeID, key record.RecollectionKey) []byte {
	return append(kv.ExchangeKey(kv.SpaceQuoted, account, id), key[:]...)
}

// Recollections returns what was decided at places of an account's conversations, nil for those without a decision.
// They must not be changed.
func (n *Notes) Recollections(account string, keys []record.RecollectionKey) ([]*record.Recollection, error) {
	number, err := n.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	found := make([]*record.Recollection, len(keys))
	missing, erasures := n.recollected.find(number, keys, found)
	if len(missing) == 0 {
		return found, nil
	}
	err = n.db.View(func(tx *badger.Txn) error {
		for _, i := range missing {
			item, err := tx.Get(recollectionKey(number, keys[i]))
			if errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			r := new(record.Recollection)
			if err := item.Value(func(value []byte) error { return record.Decode(value, r) }); err != nil {
				return err
			}
			if found[i], err = standing(tx, number, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, kv.StorageError(err, "what was recalled cannot be read; run mneme check")
	}
	for _, i := range missing {
		if found[i] != nil {
			n.recollected.add(number, keys[i], found[i], erasures)
		}
	}
	return found, nil
}

// standing returns the recollection, or silence if an exchange that it quotes is gone: it may have been erased in the
// very commit that kept the recollection.
func standing(tx *badger.Txn, account kv.AccountNumber, r *record.Recollection) (*record.Recollection, error) {
	for _, text := range r.Quotes {
		id, _ := kv.ParseExchangeID(text)
		_, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
		if errors.Is(err, badger.ErrKeyNotFound) {
			erased := r.Erased()
			return &erased, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Recollect stores what was decided at a place, under each of its keys, and returns the valid decision: the first one,
// if there was one before. If a quoted exchange is gone in the meantime, silence is stored, and nothing if the exchange
// itself was erased at a centre. It returns after the commit.
func (n *Notes) Recollect(ctx context.Context, account string, keys []record.RecollectionKey, r record.Recollection) (*record.Recollection, error) {
	number, err := n.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	own, _ := kv.ParseExchangeID(r.Exchange)
	holds := new(record.Recollection)
	err = n.db.UpdateOf(ctx, number, func(tx kv.Txn) error {
		if first := tx.Get(recollectionKey(number, keys[0])); first != nil {
			return record.Decode(first, holds)
		}
		*holds = r
		quoted := make([]kv.ExchangeID, 0, len(r.Quotes)+1)
		for _, text := range r.Quotes {
			id, ok := kv.ParseExchangeID(text)
			if !ok || !tx.Has(kv.ExchangeKey(kv.SpaceExchange, number, id)) {
				*holds = r.Erased()
				quoted = quoted[:0]
				break
			}
			quoted = append(quoted, id)
		}
		value, err := kv.EncodeRecord(holds)
		if err != nil {
			return err
		}
		for _, key := range keys {
			tx.Put(recollectionKey(number, key), value)
			for _, id := range append(quoted, own) {
				tx.Put(quotedKey(number, id, key), []byte{})
			}
		}
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "what was recalled could not be kept")
	}
	return holds, nil
}

// Erase removes what was recalled for an exchange, and what quotes it. A key that leads to a place may be
// left of an earlier decision there. [Notes.Forget] must follow the commit.
func Erase(tx kv.Txn, account kv.AccountNumber, id kv.ExchangeID) {
	prefix := kv.ExchangeKey(kv.SpaceQuoted, account, id)
	for item := range kv.Items(tx.Committed(), prefix, nil) {
		key := item.KeyCopy(nil)
		if n := len(prefix); len(key) == n+len(record.RecollectionKey{}) {
			place := recollectionKey(account, record.RecollectionKey(key[n:]))
			r := new(record.Recollection)
			if err := record.Decode(tx.Get(place), r); err != nil || r.IsOf(id.String()) {
				tx.Put(place, nil)
			}
		}
		tx.Put(key, nil)
	}
}
