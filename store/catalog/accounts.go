package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

// accountsEach is how often accounts are read that other processes have created or deleted.
const accountsEach = time.Second

// accounts are the accounts in the database, whose numbers are those of the rows. Numbers are never reused. The store beside a
// centre has numbers of its own.
type accounts struct {
	mu      sync.Mutex
	numbers map[string]record.AccountNumber
}

// Number returns the number of an account; [codec.KindNotFound] if there is none.
func (a *accounts) Number(account string) (record.AccountNumber, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	number, ok := a.numbers[account]
	if !ok {
		return 0, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	return number, nil
}

// names returns the names of all accounts, in order.
func (a *accounts) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.numbers))
}

// nameOf returns the name of an account; "" if it was deleted.
func (a *accounts) nameOf(number record.AccountNumber) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, n := range a.numbers {
		if n == number {
			return name
		}
	}
	return ""
}

func (a *accounts) read(ctx context.Context, c *Catalog) error {
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

// followAccounts reads the accounts at intervals; a centre reads the whole roster.
func (c *Catalog) followAccounts(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		var err error
		if c.worker() {
			err = c.accounts.read(ctx, c)
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

// numbered returns the current number of an account: a transaction asks again after it has waited for the account's
// lock, and so knows an account as soon as the database does.
func (c *Catalog) numbered(ctx context.Context, tx pgx.Tx, account string) (number record.AccountNumber, ok bool, err error) {
	var n int64
	err = tx.QueryRow(ctx, "select number from accounts where name = $1", account).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return record.AccountNumber(n), err == nil, err
}

// worker reports whether this process serves no memory, and leaves to the centres what depends on their own stores.
func (c *Catalog) worker() bool { return c.Cache == nil }

var errNoTables = errors.New("there is no memory in the database yet; start a centre before its workers")

// CentreOf returns the id of the centre that a database belongs to.
func CentreOf(ctx context.Context, url string) (id string, err error) {
	connection, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := connection.QueryRow(ctx, "select to_regclass($1) is not null", schemaName+".meta").Scan(&there); err != nil || !there {
		return "", errors.Join(err, errNoTables)
	}
	err = connection.QueryRow(ctx, "select value from meta where name = 'centre'").Scan(&id)
	return id, err
}

// MakeCentre is CentreOf for a centre: it creates the tables with the id own if there are none.
func MakeCentre(ctx context.Context, url, own string) (id string, err error) {
	connection, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if err := lockTables(ctx, tx, own); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "select value from meta where name = 'centre'").Scan(&id)
	})
	if err != nil {
		return "", fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	return id, nil
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("centre.postgres: %w", hideURL(err))
	}
	setParameters(config)
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	return connection, nil
}

// setParameters completes the settings of a connection.
func setParameters(config *pgx.ConnConfig) {
	config.RuntimeParams["search_path"] = schemaName
	config.RuntimeParams["application_name"] = "mneme"
	config.RuntimeParams["default_transaction_isolation"] = "read committed" // statements see what was committed while they waited for a lock
	config.RuntimeParams["jit"] = "off"                                      // compiling a search takes longer than running it
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = dialTimeout
	}
}
