package catalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Condition is the state of a database, for its operator.
type Condition struct {
	Version   string // of the server
	Tables    int    // version of the tables; 0: there are none
	Known     int    // version of the tables that this program creates
	TooOld    bool   // this program does not read the tables
	ReadOnly  bool   // it is a standby, or read-only
	Fsync     bool
	Commit    string // synchronous_commit of this user
	Standbys  string // synchronous_standby_names
	Connected int    // connected synchronous standbys; -1: this user may not see them
	Skew      time.Duration
	Embedder  string // identity of the one that made the stored vectors; "": none has
}

// examineTime limits an examination.
const examineTime = 10 * time.Second

// Examine returns the condition of a database, and changes nothing.
func Examine(ctx context.Context, url string) (c Condition, err error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return c, hideURL(err)
	}
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	db, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return c, advised(err)
	}
	defer func() { _ = db.Close(ctx) }()
	var there, sees bool
	var now time.Time
	began := time.Now()
	err = db.QueryRow(ctx, `select clock_timestamp(), current_setting('server_version'), current_setting('transaction_read_only')::bool,
		current_setting('fsync')::bool, current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		to_regclass($1) is not null, pg_has_role(current_user, 'pg_read_all_stats', 'usage'),
		(select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum'))`, schemaName+".meta").
		Scan(&now, &c.Version, &c.ReadOnly, &c.Fsync, &c.Commit, &c.Standbys, &there, &sees, &c.Connected)
	if err != nil {
		return c, advised(err)
	}
	took := time.Since(began)
	if skew := now.Sub(began.Add(took / 2)); skew.Abs() > took/2 {
		c.Skew = skew
	}
	if !sees {
		c.Connected = -1
	}
	c.Known = schemaVersion
	if !there {
		return c, nil
	}
	var version string
	err = db.QueryRow(ctx, "select value, coalesce((select value from "+schemaName+".meta where name = $1), '') from "+schemaName+".meta where name = 'version'", embedderName).
		Scan(&version, &c.Embedder)
	if err != nil {
		return c, advised(err)
	}
	if c.Tables, err = strconv.Atoi(version); err != nil || c.Tables < 1 {
		return c, errors.Join(fmt.Errorf("the tables have the invalid version %q", version), err)
	}
	c.TooOld = c.Tables < firstVersion
	return c, nil
}
