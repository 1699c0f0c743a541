package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Accounts are those whose memory is kept. The numbers stand for them in the database, and are never given twice.
type Accounts interface {
	Number(account string) (store.AccountNumber, error) // [codec.KindNotFound] for one that is not there
	List() []store.Account
}

// Options configure [Open].
type Options struct {
	URL    string // of the database, such as postgres://mneme@db/mneme; [pgxpool.ParseConfig] says what it may hold
	Centre string // id of what numbers the accounts: the tables of another one are left alone. [CentreOf] gives it to a worker

	Packs     *pack.Packs   // where bodies are kept from now on; nil: in the database
	Abandoned time.Duration // when a pack that was begun and not kept is deleted, for its centre has ended; the same on all; 0: two minutes

	// Accounts are those of the centre that keeps them, which also erases by age and ends erasures; nil: another one does, and this
	// is a worker. Any number of workers may share in the rest.
	Accounts  Accounts
	Retention func(account string) store.Retention        // MaxBytes is not kept here; not for a worker
	Redactor  func(account string) *redact.Redactor       // masks what is digested once more
	Digest    func(*store.Exchange) (store.Digest, error) // what turns are made by

	// Forget erases what else has exchanges of an account. It returns when they are gone, before the receipt says so.
	Forget func(ctx context.Context, account string, sel store.Selection) error

	Log *slog.Logger // nil: discard
}

// Catalog is memory in Postgres. All methods may be called from any goroutine. Close ends it.
type Catalog struct {
	Options
	Events *Events // tells of commits

	pool   *pgxpool.Pool
	centre string

	arrived chan struct{} // has a value when there may be something to digest
	erasing chan struct{} // likewise, to erase
	tidying chan struct{} // likewise, to delete in the bucket
	giver   giver
	life    context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
}

const (
	openTimeout = 5 * time.Minute  // the tables are some hundred files, each synced when they are made
	dialTimeout = 10 * time.Second // unless the URL has a connect_timeout
	idleLook    = 2 * time.Second  // how often another centre's work is looked for
	failedRest  = time.Second      // after the database failed
	readTimeout = 30 * time.Second

	usageTimeout = 5 * time.Minute // every row of an account is read
)

// Open opens the database, and makes the tables where there are none.
func Open(ctx context.Context, o Options) (*Catalog, error) {
	if o.Abandoned == 0 {
		o.Abandoned = mostBegun
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("centre.postgres: %w", hideURL(err))
	}
	config.ConnConfig.RuntimeParams["search_path"] = schemaName
	config.ConnConfig.RuntimeParams["application_name"] = "mneme"
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "read committed" // statements see what a lock has waited for
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = dialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("centre.postgres: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Catalog{Options: o, pool: pool, centre: o.Centre, arrived: make(chan struct{}, 1), erasing: make(chan struct{}, 1), tidying: make(chan struct{}, 1), life: life, stop: stop}
	c.Events = &Events{catalog: c}
	followed := new(roster)
	if c.Accounts == nil {
		c.Accounts = followed
	}
	err = c.prepare(ctx)
	if err == nil && c.worker() {
		err = followed.read(ctx, c)
	}
	if err != nil {
		stop()
		pool.Close()
		return nil, fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	if c.worker() {
		c.running.Go(func() { c.followRoster(life, followed) })
	} else {
		c.running.Go(func() { c.giveRoster(life) })
		c.running.Go(func() { c.retain(life) })
	}
	c.running.Go(func() {
		c.follow(life, c.arrived, "exchanges could not be digested; retrying", c.digestSome)
	})
	c.running.Go(func() { c.follow(life, c.erasing, "an erasure could not continue; retrying", c.eraseSome) })
	if c.Packs != nil {
		c.running.Go(func() { c.follow(life, c.tidying, "packs could not be tidied up; retrying", c.tidySome) })
	}
	return c, nil
}

// hideURL leaves out what a URL may hold: a password.
func hideURL(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("this is not the URL of a Postgres database; write postgres://USER@HOST/DATABASE")
	}
	return err
}

// Close ends what runs beside requests. What was not digested or erased by then is so after the next start.
func (c *Catalog) Close() {
	c.stop()
	c.running.Wait()
	c.Events.hub.Close()
	c.pool.Close()
}

// follow does work as long as there is some, when it is woken and from time to time.
func (c *Catalog) follow(ctx context.Context, woken <-chan struct{}, failed string, work func(context.Context) (more bool, err error)) {
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

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// isConflict reports whether a transaction was given up in favour of another one.
func isConflict(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}

// update runs a transaction, again where another one came first.
func (c *Catalog) update(ctx context.Context, change func(pgx.Tx) error) error {
	return again(ctx, func() error { return pgx.BeginFunc(ctx, c.pool, change) })
}

// again tries once more what was given up in favour of another transaction.
func again(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !isConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// shareAccount keeps the objects of an account from being freed until the transaction ends.
func shareAccount(ctx context.Context, tx pgx.Tx, account store.AccountNumber) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared($1, $2)", lockAccount, int32(account))
	return err
}

// arriveAlone is [shareAccount] for a transaction that keeps exchanges: no other one does so for the account until it ends. What
// is not there yet, such as the session of a conversation that two edges have begun, has no row that could be locked.
func arriveAlone(ctx context.Context, tx pgx.Tx, account store.AccountNumber) error {
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared($1, $3), pg_advisory_xact_lock($2, $3)", lockAccount, lockArrival, int32(account))
	return err
}

// unreadable is the error of a read that failed.
func unreadable(err error) error {
	var known *codec.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := codec.Errorf(codec.KindStorage, "the memory cannot be read: its database or bucket is unreachable; see the centre's log")
	e.Cause, e.RetryAfter = err, failedRest
	return e
}

// number gives the number of an account, as parameters have it.
func (c *Catalog) number(account string) (int64, error) {
	number, err := c.Accounts.Number(account)
	return int64(number), err
}

// numbers gives those of an account, or with "" of all.
func (c *Catalog) numbers(account string) (numbers []int64, err error) {
	if account != "" {
		number, err := c.number(account)
		return []int64{number}, err
	}
	for _, a := range c.Accounts.List() {
		if number, err := c.number(a.Name); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}
