package catalog

import (
	"context"
	"time"
)

// Backlog is what waits in a catalog, for whichever process.
type Backlog struct {
	Exchanges int           // to be digested, at most 100,000
	Oldest    time.Duration // since the first of them to arrive was recorded; 0: it is digested again
	Locks     int           // connections to the database that wait for a lock of another one
	Begun     int           // packs that are being written, or that a process ended without finishing
	Going     int           // packs that are to be deleted from the bucket
}

func (c *database) backlog(ctx context.Context) (b Backlog, err error) {
	err = c.pool.QueryRow(ctx, `
		select (select count(*) from (select from exchanges where not digested limit $1) x),
			greatest('0', coalesce((select case when not again then clock_timestamp() - kept end from exchanges where not digested order by arrival limit 1), '0')),
			(select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'),
			count(*) filter (where state = 'begun'), count(*) filter (where state = 'going') from packs where state <> 'kept'`, mostUndigested).
		Scan(&b.Exchanges, &b.Oldest, &b.Locks, &b.Begun, &b.Going)
	return b, unreadable(err)
}

// mostUndigested bounds what is counted of a backlog: the count reads as many entries of an index.
const mostUndigested = 100_000
