package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
)

// rollUp adds exchanges to the rollups.
func rollUp(ctx context.Context, tx pgx.Tx, account record.AccountNumber, infos []*record.ExchangeInfo) error {
	sums := make(conversation.Rollups)
	for _, info := range infos {
		sums.Count(account, info)
	}
	changed, err := sums.AddTo(readRollups(ctx, tx, account))
	if err != nil {
		return err
	}
	return putRollups(ctx, tx, account, changed)
}

// readRollups returns a function that reads and locks rollups.
func readRollups(ctx context.Context, tx pgx.Tx, account record.AccountNumber) conversation.RollupReader {
	return func(keys [][]byte) (map[string][]byte, error) {
		records := make(map[string][]byte)
		return records, readInto(ctx, tx, records, "select key, record from rollups where account = $1 and key = any($2) order by key for update", int64(account), keys)
	}
}

func putRollups(ctx context.Context, tx pgx.Tx, account record.AccountNumber, changed map[string][]byte) error {
	var keys, records [][]byte
	for key, stored := range changed {
		keys, records = append(keys, []byte(key)), append(records, stored)
	}
	_, err := tx.Exec(ctx, `insert into rollups (account, key, record) select $1, r.* from unnest($2::bytea[], $3::bytea[]) r order by 2
		on conflict (account, key) do update set record = excluded.record`, int64(account), keys, records)
	return err
}

// Rollups visits the usage and cost of exchanges, by account and hour.
func (c *database) Rollups(ctx context.Context, q record.RollupQuery, visit func(record.RollupOf, *record.Rollup)) error {
	names := []string{q.Account}
	if q.Account == "" {
		names = c.accounts.names()
	}
	for _, name := range names {
		number, err := c.accounts.Number(name)
		if err != nil {
			return err
		}
		first, end := q.Keys(number)
		rows, err := c.pool.Query(ctx, "select key, record from rollups where account = $1 and key >= $2 and key < $3 order by key", int64(number), first, end)
		if err != nil {
			return unreadable(err)
		}
		var key, stored []byte
		_, err = pgx.ForEachRow(rows, []any{&key, &stored}, func() error {
			if of, r, err := conversation.ReadRollup(key, stored); err == nil {
				of.Account = name
				visit(of, &r)
			}
			return nil
		})
		if err != nil {
			return unreadable(err)
		}
	}
	return nil
}
