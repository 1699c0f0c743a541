package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Options configure [Open].
type Options struct {
	URL    string // of the database, such as postgres://mneme@db/mneme; [pgxpool.ParseConfig] says what it may hold
	Centre string // id of the centre: tables of another one are not touched. [MakeCentre] returns it, and [CentreOf] for a worker

	Packs     *pack.Packs   // where bodies are stored; nil: in the database
	Abandoned time.Duration // age at which an unfinished pack is deleted, since its centre must have ended; the same on all nodes; 0: two minutes

	// Cache is the store of a centre. With nil this is a worker. Any number of centres and workers may share the work;
	// the centre that leads erases by age and completes erasures.
	Cache     Cache
	Seat      Seat                                          // of a centre among others
	MaxAge    time.Duration                                 // for which the cache authenticates callers without the database; 0: forever
	Retention func(account string) identity.Retention       // MaxBytes is not enforced here; unused by a worker
	Redactor  func(account string) *redact.Redactor         // masks what is digested again
	Digest    func(*record.Exchange) (record.Digest, error) // makes turns
	Summaries bool                                          // sessions that grow are noted to be summarized, by all processes; unused by a worker

	// Accepted, unless nil, is called with each erasure by request once it is committed and before anything is erased, on one
	// of the centres. It is called again if the process ends meanwhile, and after an error, for which the erasure waits.
	Accepted func(account string, e *record.Erasure) error

	Log *slog.Logger // nil: discard
}

// Catalog is a memory in Postgres. All methods may be called concurrently. Close ends it.
type Catalog struct {
	Options
	Events *Events // publishes commits

	pool     *pgxpool.Pool
	centre   string
	accounts accounts
	process  string // names this process in claims

	arrived wake.Signal // there may be something to digest
	erasing wake.Signal // the same for erasures
	tidying wake.Signal // the same for deletions in the bucket
	counted wake.Signal // the same for sessions and rollups that are to be made again
	roster  *Roster     // nil: this is a worker
	lead    *Lead       // likewise
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

// Open opens the database, and creates the tables if there are none.
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
	setParameters(config.ConnConfig)
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("centre.postgres: %w", err)
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Catalog{Options: o, pool: pool, centre: o.Centre, process: rand.Text(), arrived: wake.New(), erasing: wake.New(), tidying: wake.New(), counted: wake.New(), likes: likes{digested: wake.New()}, statistics: cache.Map[record.AccountNumber, statistics]{Most: mostStatistics}, life: life, stop: stop}
	c.Events = &Events{catalog: c}
	err = c.prepare(ctx)
	switch {
	case err != nil:
	case c.worker():
		err = c.accounts.read(ctx, c)
	default:
		c.roster = &Roster{catalog: c, cache: c.Cache, changed: wake.New()}
		if c.lead, err = c.openLead(ctx, config); err == nil {
			err = c.roster.begin(ctx)
		}
	}
	if err != nil {
		stop()
		if c.lead != nil {
			c.lead.resign(context.WithoutCancel(ctx))
		}
		pool.Close()
		return nil, fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	c.work(life)
	return c, nil
}

// work starts what runs in the background until life ends.
func (c *Catalog) work(life context.Context) {
	unfinished := &erasures{catalog: c, ready: wake.New(), erased: make(map[string]bool)}
	c.running.Go(func() { c.followAccounts(life) })
	if !c.worker() {
		c.running.Go(func() { c.lead.campaign(life) })
		c.running.Go(func() { c.lead.While(life, c.retain) })
		c.running.Go(func() {
			c.lead.While(life, func(ctx context.Context) {
				c.follow(ctx, c.counted, "sessions and rollups could not be made again; retrying", c.recountSome)
			})
		})
		c.running.Go(func() {
			c.lead.While(life, func(ctx context.Context) {
				c.follow(ctx, unfinished.ready, "an erasure could not be completed; retrying", unfinished.completeSome)
			})
		})
		c.running.Go(func() { c.nameSessions(life) })
	}
	c.running.Go(func() {
		c.follow(life, c.arrived, "exchanges could not be digested; retrying", c.digestSome)
	})
	c.running.Go(func() { c.follow(life, c.erasing, "an erasure could not continue; retrying", unfinished.eraseSome) })
	if c.Packs != nil {
		c.running.Go(func() { c.follow(life, c.tidying, "packs could not be tidied up; retrying", c.tidySome) })
	}
}

// hideURL replaces errors that may quote a URL, which may contain a password.
func hideURL(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("this is not the URL of a Postgres database; write postgres://USER@HOST/DATABASE")
	}
	return err
}

// Close stops the background work. The next start resumes unfinished digests and erasures.
func (c *Catalog) Close() {
	c.closing.Lock()
	c.stop()
	c.closing.Unlock()
	c.running.Wait()
	if !c.worker() {
		c.Cache.Connect(nil)
		c.lead.resign(context.Background())
	}
	c.Events.hub.Close()
	c.pool.Close()
}

// follow does work until there is none left, each time it is woken and at intervals.
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

// isConflict reports whether Postgres aborted a transaction in favor of another one.
func isConflict(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}

// update runs a transaction, and repeats it after a conflict.
func (c *Catalog) update(ctx context.Context, change func(pgx.Tx) error) error {
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
func (c *Catalog) number(account string) (int64, error) {
	number, err := c.accounts.Number(account)
	return int64(number), err
}

// numbers returns the number of an account, or those of all accounts for "".
func (c *Catalog) numbers(account string) (numbers []int64, err error) {
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
