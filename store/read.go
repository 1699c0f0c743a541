package store

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange returns one exchange with its bytes. If it does not exist or belongs to another account, the error is
// [codec.KindNotFound]. Account "" searches every account; only the operator's command line may do that.
func (s Archive) Exchange(account, id string) (found *record.Exchange, err error) {
	return found, s.lookUp(account, id, func(tx *badger.Txn, number kv.AccountNumber, key kv.ExchangeID, info *record.ExchangeInfo) (err error) {
		found, err = journal.Exchange(context.Background(), tx, number, key, info, math.MaxInt64)
		return err
	})
}

// ExchangeInfo returns the record of one exchange without reading its bytes; otherwise it is like [Archive.Exchange].
func (s Archive) ExchangeInfo(account, id string) (found *record.ExchangeInfo, err error) {
	return found, s.lookUp(account, id, func(_ *badger.Txn, _ kv.AccountNumber, _ kv.ExchangeID, info *record.ExchangeInfo) error {
		found = info
		return nil
	})
}

// lookUp finds one exchange in the account and calls read.
func (s *core) lookUp(account, id string, read func(*badger.Txn, kv.AccountNumber, kv.ExchangeID, *record.ExchangeInfo) error) error {
	key, ok := kv.ParseExchangeID(id)
	if !ok {
		return record.NoExchange(id)
	}
	numbers, err := s.readable(account)
	if err != nil {
		return err
	}
	found := false
	err = s.db.View(func(tx *badger.Txn) error {
		for _, number := range numbers {
			info, err := journal.Info(tx, number, key)
			if errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			found = true
			return read(tx, number, key, info)
		}
		return nil
	})
	if err != nil {
		return kv.StorageError(err, "exchange %s cannot be read; run mneme check", id)
	}
	if !found {
		return record.NoExchange(id)
	}
	return nil
}

// Exchanges lists exchanges by time, damaged ones as [record.OutcomeDamaged]. Pages neither repeat nor skip exchanges during
// concurrent writes. Account "" lists every account; only the operator's command line may do that.
func (s Archive) Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error) {
	w, err := kv.NewWindow(q.After, q.Before, q.Limit, q.Ascending, kv.ExchangePrefix)
	if err != nil {
		return record.ExchangePage{}, err
	}
	numbers, err := s.readable(account)
	if err != nil {
		return record.ExchangePage{}, err
	}
	var page record.ExchangePage
	err = s.db.View(func(tx *badger.Txn) error {
		places := journal.Places(tx, numbers, &w)
		if page.HasMore = len(places) > w.Limit; page.HasMore {
			places = places[:w.Limit]
		}
		if w.Reverse {
			slices.Reverse(places)
		}
		page.Data = make([]record.ExchangeInfo, 0, len(places))
		for _, p := range places {
			page.Data = append(page.Data, s.listedExchange(tx, p.Account, p.ID))
		}
		return nil
	})
	if err != nil {
		return record.ExchangePage{}, kv.StorageError(err, "the exchanges cannot be listed; run mneme check")
	}
	return page, nil
}

// readable returns the numbers of the accounts that a lookup for account may touch.
func (s *core) readable(account string) ([]kv.AccountNumber, error) {
	if account == "" {
		return s.accounts.Numbers(), nil
	}
	number, ok := s.accounts.Find(account)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	return []kv.AccountNumber{number}, nil
}

// Subscribe subscribes to the events of an account after the one with number after; 0 means from now on. The subscriber
// closes it.
func (s Archive) Subscribe(account string, after uint64) (*record.Subscription, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	return s.events.Subscribe(number, after), nil
}
