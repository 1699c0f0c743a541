package catalog

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
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
	c := &Catalog{database: &database{Options: o, pool: pool, centre: o.Centre, process: rand.Text(), arrived: wake.New(), erasing: wake.New(), tidying: wake.New(), counted: wake.New(), likes: likes{digested: wake.New()}, statistics: cache.Map[record.AccountNumber, statistics]{Most: mostStatistics}, life: life, stop: stop}}
	c.Events = &Events{catalog: c.database}
	err = c.prepare(ctx)
	switch {
	case err != nil:
	case c.worker():
		err = c.accounts.read(ctx, c.database)
	default:
		c.roster = &Roster{catalog: c.database, cache: c.Cache, changed: wake.New()}
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

// followAccounts reads the accounts at intervals; a centre reads the whole roster.
func (c *Catalog) followAccounts(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		var err error
		if c.worker() {
			err = c.accounts.read(ctx, c.database)
		} else {
			err = c.roster.look(ctx)
		}
		if err != nil && ctx.Err() == nil && !said {
			c.Log.Warn("accounts and keys could not be read from the database; retrying", "error", err)
		}
		said = err != nil
		sleep(ctx, accountsEach)
	}
}
