package store

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// RetentionOf returns the retention rule of an account.
func (s Archive) RetentionOf(account string) Retention {
	if a, ok := s.accounts.Get(account); ok && a.Retention != nil {
		return *a.Retention
	}
	return s.opts.Retention
}

// retain erases what the rules no longer allow.
func (s *core) retain(ctx context.Context, now time.Time) error {
	var failed error
	for _, a := range s.accounts.All() {
		rule := Archive{s}.RetentionOf(a.Name)
		if rule.MaxAge > 0 {
			failed = errors.Join(failed, s.expire(ctx, a.Number, now.Add(-rule.MaxAge)))
		}
		if rule.MaxBytes > 0 {
			failed = errors.Join(failed, s.shrink(ctx, a.Number, rule.MaxBytes))
		}
		failed = errors.Join(failed, s.notes.Expire(ctx, a.Number, now))
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// expire erases what the store got before until. It checks first, because an erasure leaves a receipt.
func (s *core) expire(ctx context.Context, account kv.AccountNumber, until time.Time) error {
	if found, err := s.hasBefore(ctx, account, until); err != nil || !found {
		return err
	}
	shipped, err := s.beforeUnshipped(ctx, account, until)
	if err != nil {
		return err
	}
	if shipped.Before(until) {
		if found, err := s.hasBefore(ctx, account, shipped); err != nil || !found {
			return err
		}
	}
	return s.eraseNow(ctx, account, expired(shipped))
}

// expired selects what the store got before until.
func expired(until time.Time) record.Selection { return record.Selection{Until: until, ByAge: true} }

// hasBefore reports whether expire would erase anything.
func (s *core) hasBefore(ctx context.Context, account kv.AccountNumber, until time.Time) (found bool, err error) {
	sel := expired(until)
	err = s.db.View(func(tx *badger.Txn) error {
		return eachSelected(ctx, tx, account, &sel, true, func(x selected) error {
			open, err := x.open(tx, account)
			if err != nil || open {
				return err
			}
			found = true
			return kv.ErrEnough
		})
	})
	return found, err
}

// beforeUnshipped returns the earlier of until and the start of the first exchange that a centre does not have yet.
func (s *core) beforeUnshipped(ctx context.Context, account kv.AccountNumber, until time.Time) (time.Time, error) {
	since, err := s.shipping.Since(ctx, account)
	if err == nil && !since.IsZero() && (until.IsZero() || since.Before(until)) {
		return since, nil
	}
	return until, err
}

// ruleOf names the setting behind an erasure by retention.
func ruleOf(sel *record.Selection) string {
	if sel.ByAge {
		return "retention.max_age"
	}
	return "retention.max_bytes"
}

// shrink erases the oldest exchanges until the account takes at most limit bytes. How much an exchange frees is known
// only afterwards, because blocks are shared: each round erases the share of exchanges by which the account is too
// large.
func (s *core) shrink(ctx context.Context, account kv.AccountNumber, limit int64) error {
	for {
		used, exchanges, err := s.sizeOf(ctx, account)
		if err != nil || used <= limit || exchanges == 0 {
			return err
		}
		excess := max(1, int64(float64(exchanges)*float64(used-limit)/float64(used)))
		until, err := s.oldest(account, excess)
		if err == nil {
			until, err = s.beforeUnshipped(ctx, account, until)
		}
		if err != nil {
			return err
		}
		if until.IsZero() {
			return s.eraseNow(ctx, account, record.Selection{All: true})
		}
		if err := s.eraseNow(ctx, account, record.Selection{Until: until}); err != nil {
			return err
		}
		if _, left, err := s.sizeOf(ctx, account); err != nil || left == exchanges {
			return err // the rest is running
		}
	}
}

func (s *core) eraseNow(ctx context.Context, account kv.AccountNumber, sel record.Selection) error {
	_, id, err := s.newErasure(ctx, account, sel, record.ErasedByRetention)
	if err != nil {
		return err
	}
	return s.runErasure(ctx, erasureRef{account, id})
}

// oldest returns the start of the exchange that has skip older ones; zero if there are not that many.
func (s *core) oldest(account kv.AccountNumber, skip int64) (began time.Time, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		for item := range kv.Items(tx, kv.SpaceKeyOf(kv.SpaceExchange, account), nil) {
			_, id, ok := kv.SplitExchangeKey(item.Key())
			if skip--; skip >= 0 || !ok {
				continue
			}
			info, err := journal.Info(tx, account, id)
			if began = id.Time(); err == nil { // for an unreadable one the id counts, see eachSelected
				began = info.Started
			}
			return nil
		}
		return nil
	})
	return began, err
}
