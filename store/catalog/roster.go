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
	"github.com/mnemeproxy/mneme/store"
)

// rosterEach is how often the centre that keeps the accounts writes them to the database, and workers read them there.
const rosterEach = time.Second

// roster holds the accounts in the database, for workers, which keep none.
type roster struct {
	mu      sync.Mutex
	numbers map[string]store.AccountNumber
}

// Number returns the number of an account; [codec.KindNotFound] if there is none.
func (r *roster) Number(account string) (store.AccountNumber, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, ok := r.numbers[account]
	if !ok {
		return 0, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	return number, nil
}

// List returns the accounts, with their names only.
func (r *roster) List() (accounts []store.Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.numbers)) {
		accounts = append(accounts, store.Account{Name: name})
	}
	return accounts
}

func (r *roster) read(ctx context.Context, c *Catalog) error {
	rows, err := c.pool.Query(ctx, "select name, number from accounts")
	if err != nil {
		return err
	}
	numbers := make(map[string]store.AccountNumber)
	var name string
	var number int64
	_, err = pgx.ForEachRow(rows, []any{&name, &number}, func() error {
		numbers[name] = store.AccountNumber(number)
		return nil
	})
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.numbers = numbers
	}
	return err
}

// followRoster reads the accounts at intervals.
func (c *Catalog) followRoster(ctx context.Context, r *roster) {
	for ctx.Err() == nil {
		_ = r.read(ctx, c) // without the database nothing is taken anyway
		sleep(ctx, rosterEach)
	}
}

// giver writes the accounts to the database, for workers. A deleted account is removed with its rows, and a list from
// before its deletion does not add it again.
type giver struct {
	mu    sync.Mutex // held from making a list until it is in the database
	given []string
	until time.Time // when the list is written again, since the database may have been restored from a backup
}

// giveRoster writes the accounts whenever they change.
func (c *Catalog) giveRoster(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		err := c.giver.give(ctx, c)
		if err != nil && ctx.Err() == nil && !said {
			c.Log.Warn("accounts could not be published to workers; retrying", "error", err)
		}
		said = err != nil
		sleep(ctx, rosterEach)
	}
}

const rosterAgain = time.Minute

func (g *giver) give(ctx context.Context, c *Catalog) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names, list []string
	numbers := []int64{} // an empty array is not null
	for _, a := range c.Accounts.List() {
		if number, err := c.Accounts.Number(a.Name); err == nil {
			names, numbers, list = append(names, a.Name), append(numbers, int64(number)), append(list, fmt.Sprint(a.Name, " ", number))
		}
	}
	slices.Sort(list)
	if slices.Equal(list, g.given) && time.Now().Before(g.until) {
		return nil
	}
	err := c.update(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "delete from accounts where number <> all($1)", numbers); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `insert into accounts (name, number) select * from unnest($1::text[], $2::bigint[]) on conflict do nothing`, names, numbers)
		return err
	})
	if err == nil {
		g.given, g.until = list, time.Now().Add(rosterAgain)
	}
	return err
}

// forget removes an account from those that workers know, and notes when, as part of its deletion.
// name is "" once only the database knows the account.
func (g *giver) forget(ctx context.Context, tx pgx.Tx, account store.AccountNumber, name string) error {
	g.given = nil
	_, err := tx.Exec(ctx, `with gone as (delete from accounts where number = $1 returning name)
		insert into deleted select name, now() from (select name from gone union select $2 where $2 <> '') x (name)
		on conflict (name) do update set at = excluded.at`, int64(account), name)
	return err
}

// numbered returns the current number of an account: a transaction asks again after it has waited for the account's
// lock. A worker asks the database, and so knows an account as soon as the database does.
func (c *Catalog) numbered(ctx context.Context, tx pgx.Tx, account string) (number store.AccountNumber, ok bool, err error) {
	if !c.worker() {
		number, err = c.Accounts.Number(account)
		return number, err == nil, nil
	}
	var n int64
	err = tx.QueryRow(ctx, "select number from accounts where name = $1", account).Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return store.AccountNumber(n), err == nil, err
}

// worker reports whether another centre keeps the accounts, and does what depends on that.
func (c *Catalog) worker() bool {
	_, follows := c.Accounts.(*roster)
	return follows
}

var errNoTables = errors.New("there is no memory in the database yet; start the centre that keeps the accounts before its workers")

// CentreOf returns the id of the centre that keeps the accounts of a database.
func CentreOf(ctx context.Context, url string) (id string, err error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return "", fmt.Errorf("centre.postgres: %w", hideURL(err))
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = dialTimeout
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := connection.QueryRow(ctx, "select to_regclass($1) is not null", schemaName+".meta").Scan(&there); err != nil || !there {
		return "", errors.Join(err, errNoTables)
	}
	err = connection.QueryRow(ctx, "select value from "+schemaName+".meta where name = 'centre'").Scan(&id)
	return id, err
}
