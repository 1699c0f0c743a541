package store

import (
	"bytes"
	"context"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Rollups visits the rollups, account by account and hour by hour.
func (s Accounts) Rollups(ctx context.Context, q record.RollupQuery, visit func(record.RollupOf, *record.Rollup)) error {
	accounts := s.accounts.All()
	if q.Account != "" {
		a, ok := s.accounts.Get(q.Account)
		if !ok {
			_, err := s.accounts.Number(q.Account)
			return err
		}
		accounts = []identity.AccountRecord{a}
	}
	err := s.db.View(func(tx *badger.Txn) error {
		for _, a := range accounts {
			if err := eachRollup(ctx, tx, a.Number, &q, func(of record.RollupOf, r *record.Rollup) {
				of.Account = a.Name
				visit(of, r)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the usage cannot be read; run mneme check")
	}
	return nil
}

func eachRollup(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, q *record.RollupQuery, visit func(record.RollupOf, *record.Rollup)) error {
	options := badger.DefaultIteratorOptions
	options.Prefix = kv.SpaceKeyOf(kv.SpaceRollup, account)
	first := options.Prefix
	if !q.Since.IsZero() {
		first = record.AppendHourPrefix(nil, account, q.Since.Add(time.Hour-1), record.RollupMade)
	}
	var end []byte
	if !q.Until.IsZero() {
		end = record.AppendHourPrefix(nil, account, q.Until.Add(time.Hour-1), record.RollupMade)
	}
	for item := range kv.Scan(tx, options, first) {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := item.Key()
		if end != nil && bytes.Compare(key, end) >= 0 {
			return nil
		}
		of, kind, ok := record.SplitRollupKey(key)
		if !ok || kind != record.RollupMade {
			continue
		}
		if err := item.Value(func(value []byte) error {
			if r, err := record.DecodeRollup(value); err == nil { // otherwise a check says so
				r.Forget(&of)
				visit(of, &r)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
