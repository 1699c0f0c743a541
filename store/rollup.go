package store

import (
	"bytes"
	"context"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// The usage and cost of exchanges are rolled up when they end: into one record per hour, key, project, client and model
// of an account, written with the commit of the end. Reports sum these up without reading exchanges. The records hold
// no content, and stay when exchanges are erased; erased exchanges are counted beside them, so that [Upkeep.Check] can
// compare them with the existing exchanges.

// rollUp counts an ended exchange.
func (g *commitGroup) rollUp(w *commit.Op, account kv.AccountNumber, info *record.ExchangeInfo) {
	r := conversation.RollupOf(info)
	g.addRollup(w, g.Keep(record.AppendRollupKey(g.Key(), account, info)), &r)
}

// rollUpErased counts an erased exchange.
func (g *commitGroup) rollUpErased(w *commit.Op, account kv.AccountNumber, info *record.ExchangeInfo) {
	r := conversation.RollupOf(info)
	g.addRollup(w, record.AppendHourPrefix(nil, account, info.Started, record.RollupErased), &r)
}

func (g *commitGroup) addRollup(w *commit.Op, key []byte, r *record.Rollup) {
	if stored := g.Get(key); stored != nil {
		if before, err := record.DecodeRollup(stored); err == nil { // otherwise it starts over, and a check says so
			r.Add(&before)
		}
	}
	g.Put(w, key, r.Encode())
}

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
	err := s.view(func(tx *badger.Txn) error {
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
