package catalog

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
)

// completeErasure erases what other places have, and then completes the receipt. done is false if one of them may have some left.
func (c *Catalog) completeErasure(ctx context.Context, e unfinishedErasure) (done bool, err error) {
	if err := c.freeObjects(ctx, e.account, e.ID); err != nil {
		return false, err
	}
	if c.Packs != nil {
		if done, err := c.clean(ctx, e.account, e.Erasure); err != nil || !done {
			return false, err
		}
	}
	err = c.update(ctx, func(tx pgx.Tx) error {
		if err := c.lead.fence(ctx, tx); err != nil {
			return err
		}
		return c.finishErasure(ctx, tx, e.account, e.ID)
	})
	return err == nil, err
}

// DeleteAccount deletes an account with its keys and credentials, and everything that the memory has of it.
func (c *Catalog) DeleteAccount(ctx context.Context, name string) error {
	account, err := c.accounts.Number(name)
	if err != nil {
		return err
	}
	err = c.update(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1, $2), set_config('mneme.deleting', 'account', true)", lockAccount, int32(account))
		if err != nil {
			return err
		}
		if err := holdPacks(ctx, tx, account); err != nil {
			return err
		}
		if err := c.roster.forget(ctx, tx, account); err != nil {
			return err
		}
		for _, table := range perAccount {
			if _, err := tx.Exec(ctx, "delete from "+table+" where account = $1", int64(account)); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "update packs set state = 'going' where account = $1 and state in ('kept', 'lost')", int64(account))
		return err
	})
	if err != nil {
		return err
	}
	_ = c.roster.Refresh(ctx) // it is committed; if this fails, the cache follows a little later
	if c.Packs == nil {
		return nil
	}
	return c.remove(ctx, int64(account))
}

// retain periodically erases exchanges that are older than the retention allows.
func (c *Catalog) retain(ctx context.Context) {
	for ctx.Err() == nil {
		for _, name := range c.accounts.names() {
			if err := c.expire(ctx, name); err != nil && ctx.Err() == nil {
				c.Log.Warn("exchanges past their retention could not be erased; retrying", "account", name, "error", err)
			}
		}
		sleep(ctx, retainEach)
	}
}

func (c *Catalog) expire(ctx context.Context, account string) error {
	age := c.Retention(account).MaxAge
	if age <= 0 {
		return nil
	}
	number, err := c.number(account)
	if err != nil {
		return err
	}
	until := time.Now().Add(-age)
	var found bool
	err = c.pool.QueryRow(ctx, `select exists (select from exchanges where account = $1 and kept < $2)
		and not exists (select from erasures where account = $1 and not done)`, number, until).Scan(&found)
	if err != nil || !found {
		return err
	}
	err = c.update(ctx, func(tx pgx.Tx) error {
		if err := c.lead.fence(ctx, tx); err != nil {
			return err
		}
		_, err := newErasure(ctx, tx, number, record.Selection{Until: until, ByAge: true}, record.ErasedByRetention)
		return err
	})
	if err == nil {
		c.erasing.Notify()
	}
	return err
}

// erasures are carried out in the database one after the other, in the order of the requests. Meanwhile the leading centre erases at
// the other places and completes the receipts, so that an unreachable place delays nothing in the database.
type erasures struct {
	catalog *Catalog
	ready   wake.Signal // there may be one to complete

	mu     sync.Mutex
	erased map[string]bool // unfinished ones that have nothing left in the database
}

// completeSome completes what can be completed, and reports whether it has completed any.
func (r *erasures) completeSome(ctx context.Context) (more bool, err error) {
	return r.each(ctx, func(e unfinishedErasure) (bool, error) {
		if !r.isErased(e.ID) {
			return false, nil
		}
		return r.catalog.completeErasure(ctx, e)
	})
}

// eraseSome erases in the database what unfinished erasures have left there.
func (r *erasures) eraseSome(ctx context.Context) (more bool, err error) {
	seen := make(map[string]bool)
	_, err = r.each(ctx, func(e unfinishedErasure) (bool, error) {
		if seen[e.ID] = r.isErased(e.ID); seen[e.ID] {
			return false, nil
		}
		accepted, err := r.catalog.accept(ctx, e)
		if err != nil || !accepted {
			return false, err
		}
		if err := r.catalog.eraseRows(ctx, e); err != nil {
			return false, err
		}
		seen[e.ID] = true
		r.mu.Lock()
		defer r.mu.Unlock()
		r.erased[e.ID] = true
		r.ready.Notify()
		return false, nil
	})
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.erased = seen // without those that are done
	}
	return false, err
}
