package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
)

// Roster is the accounts with their limits and retention, the keys and the sealed credentials of all centres, and their audit record.
// Its truth is in the database. The numbers of its changes ascend in the order of their commits.
type Roster struct {
	catalog *database
	cache   Cache
	changed wake.Signal

	mu      sync.Mutex // held while the cache follows
	last    int64      // number of the last change that it has followed; 0: none yet
	again   time.Time  // when it follows all entries again
	problem string
}

const (
	revisionName = "roster"   // the row of meta with the number of the last change
	numberedName = "numbered" // the row with the last number that an account was given

	wholeAgain   = 10 * time.Minute // for a database that was restored from a backup
	leftOutAgain = 15 * time.Second
)

var errMasterKey = errors.New("the credentials in the database are sealed with another master key: set MNEME_MASTER_KEY to that of the other centres (if it is being changed, with the former one as MNEME_PREVIOUS_MASTER_KEY); remove the data directory first if this start has made it")

// begin gives the cache's roster to a database that has none, and lets the cache follow the database.
func (r *Roster) begin(ctx context.Context) error {
	err := r.catalog.update(ctx, func(tx pgx.Tx) error {
		revision, err := nextRevision(ctx, tx)
		if err != nil {
			return err
		}
		var proof []byte
		err = tx.QueryRow(ctx, "select value from roster where name = $1", identity.LastOfRoster).Scan(&proof)
		if errors.Is(err, pgx.ErrNoRows) {
			return r.give(ctx, tx, revision)
		}
		if err != nil {
			return err
		}
		switch now, before := r.cache.Opens(proof); {
		case now:
			return nil
		case before:
			return r.reseal(ctx, tx, revision)
		}
		return errMasterKey
	})
	if err != nil {
		return err
	}
	r.cache.Connect(r)
	return r.Refresh(ctx)
}

// nextRevision returns the number of a change. Changes wait here for each other until they are committed.
func nextRevision(ctx context.Context, tx pgx.Tx) (revision int64, err error) {
	if err := letGo(ctx, tx); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, "update meta set value = (value::bigint + 1)::text where name = $1 returning value::bigint", revisionName).Scan(&revision)
	return revision, err
}

// give puts the cache's roster into the database: of a new cache, the proof of its master key alone.
func (r *Roster) give(ctx context.Context, tx pgx.Tx, revision int64) error {
	entries, err := r.cache.Entries()
	for i := range entries {
		if err != nil {
			break
		}
		e := &entries[i]
		if owner := e.Owner(); owner != "" {
			err = commit(ctx, tx, revision, &identity.RosterChange{RosterEntry: *e, Account: owner, Blind: true})
		} else {
			err = putEntry(ctx, tx, revision, "", *e)
		}
	}
	return err
}

func putEntry(ctx context.Context, tx pgx.Tx, revision int64, account string, e identity.RosterEntry) error {
	_, err := tx.Exec(ctx, `insert into roster values ($1, $2, $3, $4) on conflict (name) do update
		set account = excluded.account, value = excluded.value, revision = excluded.revision`, e.Name, account, e.Value, revision)
	return err
}

// reseal seals with the present master key what the one before has sealed.
func (r *Roster) reseal(ctx context.Context, tx pgx.Tx, revision int64) error {
	rows, err := tx.Query(ctx, "select name, value from roster where value is not null")
	if err != nil {
		return err
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e identity.RosterEntry, err error) {
		return e, row.Scan(&e.Name, &e.Value)
	})
	if err != nil {
		return err
	}
	fresh, err := r.cache.Reseal(entries)
	for _, e := range fresh {
		if err == nil {
			_, err = tx.Exec(ctx, "update roster set value = $2, revision = $3 where name = $1", e.Name, e.Value, revision)
		}
	}
	return err
}

// errMasterKeyChanged is the error of a change at a centre that was not restarted with the new master key.
var errMasterKeyChanged = codec.Errorf(codec.KindConflict, "the master key of the cluster was changed: restart this centre with the new one as MNEME_MASTER_KEY")

// Commit implements [identity.Authority].
func (r *Roster) Commit(ctx context.Context, changes []identity.RosterChange) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return r.catalog.update(ctx, func(tx pgx.Tx) error {
		revision, err := nextRevision(ctx, tx)
		if err != nil {
			return err
		}
		var proof []byte
		if err := tx.QueryRow(ctx, "select value from roster where name = $1", identity.LastOfRoster).Scan(&proof); err != nil {
			return err
		}
		if now, _ := r.cache.Opens(proof); !now {
			return errMasterKeyChanged
		}
		for i := range changes {
			if err := commit(ctx, tx, revision, &changes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func commit(ctx context.Context, tx pgx.Tx, revision int64, c *identity.RosterChange) error {
	var present []byte
	err := tx.QueryRow(ctx, "select value from roster where name = $1", c.Name).Scan(&present)
	if err := unlessMissing(err); err != nil {
		return err
	}
	if !c.Blind && identity.EntryHash(present) != c.Before {
		return identity.ErrStale
	}
	if c.AccountOf() != "" && present == nil {
		_, err = tx.Exec(ctx, `with given as (update meta set value = (value::bigint + 1)::text where name = $2 returning value::bigint as number)
			insert into accounts (name, number) select $1, number from given`, c.Account, numberedName)
	} else {
		var there bool
		err = tx.QueryRow(ctx, "select exists (select from accounts where name = $1)", c.Account).Scan(&there)
		if err == nil && !there {
			err = identity.ErrStale
		}
	}
	if err != nil {
		return err
	}
	return putEntry(ctx, tx, revision, c.Account, c.RosterEntry)
}

// forget deletes an account with its keys and credentials, and notes when, as part of a transaction that deletes its memory.
func (r *Roster) forget(ctx context.Context, tx pgx.Tx, account record.AccountNumber) error {
	revision, err := nextRevision(ctx, tx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `with gone as (delete from accounts where number = $1 returning name),
		entries as (update roster set value = null, revision = $2 where account in (select name from gone))
		insert into deleted select name, now() from gone on conflict (name) do update set at = excluded.at`, int64(account), revision)
	return err
}

// look has the cache follow if there is something new.
func (r *Roster) look(ctx context.Context) error {
	at := time.Now()
	var revision int64
	if err := r.catalog.pool.QueryRow(ctx, "select value::bigint from meta where name = $1", revisionName).Scan(&revision); err != nil {
		return err
	}
	r.mu.Lock()
	current := revision == r.last && at.Before(r.again)
	r.mu.Unlock()
	if !current {
		if err := r.Refresh(ctx); err != nil {
			return err
		}
	}
	if r.catalog.MaxAge > 0 {
		r.cache.Expire(at.Add(r.catalog.MaxAge))
	}
	return nil
}

// Refresh implements [identity.Authority]. What the cache cannot follow it is given again a little later.
func (r *Roster) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	var revision int64
	if err := r.catalog.pool.QueryRow(ctx, "select value::bigint from meta where name = $1", revisionName).Scan(&revision); err != nil {
		return err
	}
	after := r.last
	whole := after == 0 || revision < after || !time.Now().Before(r.again)
	if whole {
		after = 0
	}
	entries, last, err := r.after(ctx, after)
	if err == nil {
		err = r.catalog.accounts.read(ctx, r.catalog)
	}
	if err != nil {
		return err
	}
	if whole {
		r.again = time.Now().Add(wholeAgain)
	}
	r.say(ctx, r.cache.Follow(ctx, entries, whole))
	r.last = max(revision, last)
	r.changed.Notify()
	return nil
}

func (r *Roster) say(ctx context.Context, err error) {
	text := ""
	if err != nil && ctx.Err() == nil {
		text = err.Error()
		r.again = time.Now().Add(leftOutAgain)
		if text != r.problem {
			r.catalog.Log.Warn("this centre does not have all accounts and keys of the database; retrying", "cause", err)
		}
	}
	r.problem = text
}

// after returns the entries that were changed after a change, deleted ones included, and the number of the last change.
func (r *Roster) after(ctx context.Context, revision int64) (entries []identity.SharedEntry, last int64, err error) {
	rows, err := r.catalog.pool.Query(ctx, `select r.name, value, revision, d.at from roster r
		left join deleted d on d.name = r.account and r.name = 'account/' || r.account where revision > $1 order by revision`, revision)
	if err != nil {
		return nil, 0, err
	}
	entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e identity.SharedEntry, err error) {
		var deleted *time.Time
		err = row.Scan(&e.Name, &e.Value, &last, &deleted)
		e.Deleted = known(deleted)
		return e, err
	})
	return entries, last, err
}

// Entries returns all entries, accounts before what belongs to them, for the brokers.
func (r *Roster) Entries() ([]identity.RosterEntry, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	rows, err := r.catalog.pool.Query(ctx, "select name, value from roster where value is not null order by name = $1, name not like 'account/%', name", identity.LastOfRoster)
	if err != nil {
		return nil, unreadable(err)
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e identity.RosterEntry, err error) {
		return e, row.Scan(&e.Name, &e.Value)
	})
	return entries, unreadable(err)
}

// Changed is signaled when the roster may have changed since Entries was last called.
func (r *Roster) Changed() <-chan struct{} { return r.changed }

const putAudit = "insert into audit values ($1, $2, $3) on conflict (id) do update set account = excluded.account, entry = excluded.entry"

// PutAudit implements [identity.Authority].
func (r *Roster) PutAudit(ctx context.Context, id, account string, entry []byte) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := r.catalog.pool.Exec(ctx, putAudit, id, account, entry)
	return err
}

// Audits implements [identity.Authority].
func (r *Roster) Audits(ctx context.Context, account, before string, most int) (entries [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := r.catalog.pool.Query(ctx, "select entry from audit where ($1 = '' or account = $1) and ($2 = '' or id < $2) order by id desc limit $3", account, before, most)
	if err != nil {
		return nil, unreadable(err)
	}
	entries, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
	return entries, unreadable(err)
}

// ExpireAudits implements [identity.Authority].
func (r *Roster) ExpireAudits(ctx context.Context, before string, most int) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	_, err := r.catalog.pool.Exec(ctx, "delete from audit where id < $1 or id <= (select id from audit order by id desc offset $2 limit 1)", before, most)
	return err
}
