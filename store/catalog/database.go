package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// database is the memory without what its processes tell each other. Everything here works on it.
type database struct {
	Options

	pool     *pgxpool.Pool
	centre   string
	accounts accounts
	process  string // names this process in claims

	arrived wake.Signal // there may be something to digest
	erasing wake.Signal // the same for erasures
	tidying wake.Signal // the same for deletions in the bucket
	counted wake.Signal // the same for sessions and rollups that are to be made again
	likes   likes

	statistics cache.Map[record.AccountNumber, statistics]

	life    context.Context // ends with Close
	stop    context.CancelFunc
	closing sync.Mutex // held while life ends, or while work begins that Close waits for
	running sync.WaitGroup
}

const (
	openTimeout = 30 * time.Minute // creating the tables creates several hundred files, each of which is synced; adding to large ones takes minutes
	dialTimeout = 10 * time.Second // unless the URL has a connect_timeout
	idleLook    = 2 * time.Second  // interval of looking for other centres' work
	failedRest  = time.Second      // after an error of the database
	readTimeout = 30 * time.Second

	usageTimeout = 5 * time.Minute // it reads every row of an account
)

// hideURL replaces errors that may quote a URL, which may contain a password.
func hideURL(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("this is not the URL of a Postgres database; write postgres://USER@HOST/DATABASE")
	}
	return err
}

// follow does work until there is none left, each time it is woken and at intervals.
func (c *database) follow(ctx context.Context, woken <-chan struct{}, failed string, work func(context.Context) (more bool, err error)) {
	said := false
	for ctx.Err() == nil {
		more, err := work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !isConflict(err):
			if !said {
				c.Log.Warn(failed, "error", err)
			}
			said = true
			sleep(ctx, failedRest)
			continue
		case more || err != nil:
			continue
		}
		said = false
		select {
		case <-ctx.Done():
		case <-woken:
		case <-time.After(idleLook):
		}
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// errChanged ends a transaction whose packs were written for nothing, because another one has changed what they are for.
var errChanged = errors.New("something else has arrived for the account meanwhile")

// isConflict reports whether a transaction gave way to another one, by itself or because Postgres aborted it.
func isConflict(err error) bool {
	var e *pgconn.PgError
	return errors.Is(err, errChanged) || errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}

// update runs a transaction, and repeats it after a conflict.
func (c *database) update(ctx context.Context, change func(pgx.Tx) error) error {
	return again(ctx, func() error { return pgx.BeginFunc(ctx, c.pool, change) })
}

// again repeats try while it fails with a conflict.
func again(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !isConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// shareAccount prevents an account from being deleted until the transaction ends.
func shareAccount(ctx context.Context, tx pgx.Tx, account record.AccountNumber) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared($1, $2)", lockAccount, int32(account))
	return err
}

// arriveAlone is [shareAccount] for a transaction that stores exchanges: no other one stores any for the account until
// it ends. A row lock would not do, since what does not exist yet, such as the session of a conversation that two edges
// have begun, has no row.
func arriveAlone(ctx context.Context, tx pgx.Tx, account record.AccountNumber) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared($1, $3), pg_advisory_xact_lock($2, $3)", lockAccount, lockArrival, int32(account))
	return err
}

// unreadable wraps the error of a failed read.
func unreadable(err error) error {
	var known *codec.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := codec.Errorf(codec.KindStorage, "the memory cannot be read: its database or bucket is unreachable; see the centre's log")
	e.Cause, e.RetryAfter = err, failedRest
	return e
}

// number returns the number of an account as a query parameter.
func (c *database) number(account string) (int64, error) {
	number, err := c.accounts.Number(account)
	return int64(number), err
}

// numbers returns the number of an account, or those of all accounts for "".
func (c *database) numbers(account string) (numbers []int64, err error) {
	if account != "" {
		number, err := c.number(account)
		return []int64{number}, err
	}
	for _, name := range c.accounts.names() {
		if number, err := c.number(name); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// numbered returns the current number of an account: a transaction asks again after it has waited for the account's
// lock, and so knows an account as soon as the database does.
func (c *database) numbered(ctx context.Context, tx pgx.Tx, account string) (number record.AccountNumber, ok bool, err error) {
	var n int64
	err = tx.QueryRow(ctx, "select number from accounts where name = $1", account).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return record.AccountNumber(n), err == nil, err
}

// worker reports whether this process serves no memory, and leaves to the centres what depends on their own stores.
func (c *database) worker() bool { return c.Cache == nil }

func (a *accounts) read(ctx context.Context, c *database) error {
	rows, err := c.pool.Query(ctx, "select name, number from accounts")
	if err != nil {
		return err
	}
	numbers := make(map[string]record.AccountNumber)
	var name string
	var number int64
	_, err = pgx.ForEachRow(rows, []any{&name, &number}, func() error {
		numbers[name] = record.AccountNumber(number)
		return nil
	})
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.numbers = numbers
	}
	return err
}

// Keys of advisory locks. The second key is the account's number, or 0.
const (
	lockSchema  = 0x6d6e656d // while the tables are created
	lockAccount = 0x6d6e6561 // shared: rows of the account are written; exclusive: the account is deleted
	lockPacks   = 0x6d6e6570 // while packs of the account are rewritten, or rows that reference them are erased
	lockErased  = 0x6d6e656c // while the log of erasures is appended to, until the commit
	lockDigest  = 0x6d6e6564 // while exchanges of the account are digested, one transaction at a time
	lockArrival = 0x6d6e6572 // while exchanges of the account are stored, one transaction at a time
)

// schemaName is the schema of the tables.
const schemaName = "mneme"

func unlessMissing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

func (c *database) redactor(account string) *redact.Redactor {
	if c.Redactor == nil {
		return nil
	}
	return c.Redactor(account)
}
