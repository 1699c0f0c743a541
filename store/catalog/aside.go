package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// asideTogether is how many entries kept aside are read at once.
const asideTogether = 16

// putAside stores refused entries in the transaction that takes their frame. They are named after the hash of their
// content, so that duplicates are stored once.
func putAside(ctx context.Context, tx pgx.Tx, refused []shipped.Refused) error {
	for i := range refused {
		content := ship.AppendEntries(nil, []ship.Entry{refused[i].Entry})
		sum := blake3.Sum256(content)
		if _, err := tx.Exec(ctx, "insert into aside (name, entry) values ($1, $2) on conflict do nothing", sum[:16], content); err != nil {
			return err
		}
	}
	return nil
}

// Aside gives access to the refused entries of a catalog.
type Aside struct{ catalog *database }

// Count returns their number.
func (a Aside) Count(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = a.catalog.pool.QueryRow(ctx, "select count(*) from aside").Scan(&n)
	return n, err
}

// Retry tries to take them again, and deletes those that are taken.
func (a Aside) Retry(ctx context.Context) error {
	for after := []byte{}; ; {
		entries, err := a.some(ctx, after)
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			after = e.name
			read, err := ship.ReadEntries(e.content)
			if err != nil || len(read) != 1 || a.catalog.Retry(ctx, &read[0]) != nil {
				continue
			}
			if _, err := a.catalog.pool.Exec(ctx, "delete from aside where name = $1", e.name); err != nil {
				return err
			}
		}
	}
}

type asideEntry struct{ name, content []byte }

func (a Aside) some(ctx context.Context, after []byte) (entries []asideEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := a.catalog.pool.Query(ctx, "select name, entry from aside where name > $1 order by name limit $2", after, asideTogether)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e asideEntry, err error) {
		return e, row.Scan(&e.name, &e.content)
	})
}
