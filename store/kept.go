package store

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// keptKey returns the key of something that a provider keeps for an account.
func keptKey(account kv.AccountNumber, provider, id string) []byte {
	h := ledgerHash(provider + "\x00" + id)
	return append(kv.SpaceKeyOf(kv.SpaceKept, account), h[:]...)
}

// Claim notes that an account has made what a provider keeps by these ids, and waits for the commit. A claim holds until
// it is given up, or the account is deleted.
func (s Notes) Claim(ctx context.Context, account, provider string, ids ...string) error {
	return s.setKept(ctx, account, provider, ids, []byte{1})
}

// GiveUp ends a claim.
func (s Notes) GiveUp(ctx context.Context, account, provider, id string) error {
	return s.setKept(ctx, account, provider, []string{id}, nil)
}

func (s Notes) setKept(ctx context.Context, account, provider string, ids []string, value []byte) error {
	number, err := s.accounts.Number(account)
	if err != nil {
		return err
	}
	return s.updateOf(ctx, number, func(g *commitGroup, w *commit.Op) error {
		for _, id := range ids {
			g.Put(w, keptKey(number, provider, id), value)
		}
		return nil
	})
}

// Claimed reports whether an account has claimed what a provider keeps by that id.
func (s Notes) Claimed(account, provider, id string) (claimed bool, err error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return false, err
	}
	err = s.view(func(tx *badger.Txn) error {
		_, err := kv.Get(tx, keptKey(number, provider, id))
		claimed = err == nil
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, kv.StorageError(err, "what account %s has at %s cannot be looked up; run mneme check", account, provider)
	}
	return claimed, nil
}
