package notes

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// keptKey returns the key of something that a provider keeps for an account.
func keptKey(account kv.AccountNumber, provider, id string) []byte {
	h := ledgerHash(provider + "\x00" + id)
	return append(kv.SpaceKeyOf(kv.SpaceKept, account), h[:]...)
}

// Claim notes that an account has made what a provider keeps by these ids, and waits for the commit. A claim holds until
// it is given up, or the account is deleted.
func (n *Notes) Claim(ctx context.Context, account, provider string, ids ...string) error {
	return n.setKept(ctx, account, provider, ids, []byte{1})
}

// GiveUp ends a claim.
func (n *Notes) GiveUp(ctx context.Context, account, provider, id string) error {
	return n.setKept(ctx, account, provider, []string{id}, nil)
}

func (n *Notes) setKept(ctx context.Context, account, provider string, ids []string, value []byte) error {
	number, err := n.accounts.Number(account)
	if err != nil {
		return err
	}
	return n.db.UpdateOf(ctx, number, func(tx kv.Txn) error {
		for _, id := range ids {
			tx.Put(keptKey(number, provider, id), value)
		}
		return nil
	})
}

// Claimed reports whether an account has claimed what a provider keeps by that id.
func (n *Notes) Claimed(account, provider, id string) (claimed bool, err error) {
	number, err := n.accounts.Number(account)
	if err != nil {
		return false, err
	}
	err = n.db.View(func(tx *badger.Txn) error {
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
