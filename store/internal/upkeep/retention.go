package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/shipping"
	"github.com/mnemeproxy/mneme/store/internal/usage"
	"github.com/mnemeproxy/mneme/store/record"
)

// Retention erases what the rules of accounts no longer allow.
type Retention struct {
	db       *files.Database
	accounts *identity.AccountTable
	notes    *notes.Notes
	shipping *shipping.Log
	usage    *usage.Table
	erasures *Erasures
	standard identity.Retention
}

// Of returns the rule of an account.
func (s *Retention) Of(account string) identity.Retention {
	if a, ok := s.accounts.Get(account); ok && a.Retention != nil {
		return *a.Retention
	}
	return s.standard
}

// Enforce erases what the rules no longer allow.
func (s *Retention) Enforce(ctx context.Context, now time.Time) error {
	var failed error
	for _, a := range s.accounts.All() {
		rule := s.Of(a.Name)
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
func (s *Retention) expire(ctx context.Context, account kv.AccountNumber, until time.Time) error {
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
	return s.erasures.Expire(ctx, account, expired(shipped))
}

// expired selects what the store got before until.
func expired(until time.Time) record.Selection { return record.Selection{Until: until, ByAge: true} }

// hasBefore reports whether expire would erase anything.
func (s *Retention) hasBefore(ctx context.Context, account kv.AccountNumber, until time.Time) (found bool, err error) {
	sel := expired(until)
	err = s.db.View(func(tx *badger.Txn) error {
		return journal.EachSelected(ctx, tx, account, &sel, true, func(x journal.Selected) error {
			open, err := x.Open(tx, account)
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
func (s *Retention) beforeUnshipped(ctx context.Context, account kv.AccountNumber, until time.Time) (time.Time, error) {
	since, err := s.shipping.Since(ctx, account)
	if err == nil && !since.IsZero() && (until.IsZero() || since.Before(until)) {
		return since, nil
	}
	return until, err
}

// shrink erases the oldest exchanges until the account takes at most limit bytes. How much an exchange frees is known
// only afterwards, because blocks are shared: each round erases the share of exchanges by which the account is too
// large.
func (s *Retention) shrink(ctx context.Context, account kv.AccountNumber, limit int64) error {
	for {
		used, exchanges, err := s.usage.SizeOf(ctx, account)
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
			return s.erasures.Expire(ctx, account, record.Selection{All: true})
		}
		if err := s.erasures.Expire(ctx, account, record.Selection{Until: until}); err != nil {
			return err
		}
		if _, left, err := s.usage.SizeOf(ctx, account); err != nil || left == exchanges {
			return err // the rest is running
		}
	}
}

// oldest returns the start of the exchange that has skip older ones; zero if there are not that many.
func (s *Retention) oldest(account kv.AccountNumber, skip int64) (began time.Time, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		for item := range kv.Items(tx, kv.SpaceKeyOf(kv.SpaceExchange, account), nil) {
			_, id, ok := kv.SplitExchangeKey(item.Key())
			if skip--; skip >= 0 || !ok {
				continue
			}
			info, err := journal.Info(tx, account, id)
			if began = id.Time(); err == nil { // for an unreadable one the id counts, see [journal.EachSelected]
				began = info.Started
			}
			return nil
		}
		return nil
	})
	return began, err
}
