package catalog

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/record"
)

// To count the turns with a common word, Postgres reads all of them in its index. It has such numbers in its own statistics, though,
// which it renews as the table grows: the most common words of a partition, and how many rows are of which account.

const (
	statisticsHold = time.Minute // for which statistics are not read again
	fewTurns       = 2000        // are counted
	mostStatistics = 200         // accounts; each has about a thousand words
)

// statisticsOf returns what Postgres knows of an account's turns without reading them.
func (c *database) statisticsOf(ctx context.Context, account record.AccountNumber) (statistics, error) {
	if s, known := c.statistics.Get(account); known && time.Since(s.read) < statisticsHold {
		return s, nil
	}
	s := statistics{read: time.Now()}
	var part string // of the table
	var rows float64
	var accounts, lexemes []string
	var of, holds []float64 // shares of the rows: of each account, with each lexeme
	err := c.pool.QueryRow(ctx, "select c.relname, c.reltuples from pg_class c where oid = (select tableoid from turns where account = $1 limit 1)", int64(account)).
		Scan(&part, &rows)
	if err == nil {
		err = c.pool.QueryRow(ctx, `
			select own.most_common_vals::text::text[], own.most_common_freqs::float8[],
				held.most_common_elems::text::text[], held.most_common_elem_freqs::float8[]
			from pg_stats own, pg_stats held
			where own.schemaname = $1 and own.tablename = $2 and own.attname = 'account'
				and held.schemaname = $1 and held.tablename = $2 and held.attname = 'terms'`,
			schemaName, part).Scan(&accounts, &of, &lexemes, &holds)
	}
	if err := unlessMissing(err); err != nil {
		return s, err
	}
	own := strconv.FormatUint(uint64(account), 10)
	for i := range min(len(accounts), len(of)) {
		if turns := rows * of[i]; accounts[i] == own && turns > fewTurns {
			s.turns = uint64(turns)
		}
	}
	if s.turns > 0 {
		s.common = make(map[string]uint64, len(lexemes))
		for i := range min(len(lexemes), len(holds)) {
			s.common[lexemes[i]] = min(uint64(rows*holds[i]), s.turns)
		}
	}
	c.statistics.Put(account, s)
	return s, nil
}

// frequencies returns how many turns of the account satisfy each condition, approximately if many do: beyond counted ones, their number is
// extrapolated from the pages that these are on.
func (c *candidates) frequencies(ctx context.Context, known statistics, lexemes, conditions []string, counted int) ([]uint64, error) {
	const pageSize = 8192
	found := make([]uint64, len(conditions))
	var places []int
	var unknown []string
	for i, condition := range conditions {
		if turns, is := known.common[lexemes[i]]; is {
			found[i] = turns
			continue
		}
		places, unknown = append(places, i), append(unknown, condition)
	}
	if len(unknown) == 0 {
		return found, nil
	}
	rows, err := c.catalog.pool.Query(ctx, `
		select case when many < $3 then many else many * greatest(1, pg_relation_size(part) / $4 / (page + 1)) end
		from unnest($2::text[]) with ordinality as term (query, place), lateral (
			select count(*) as many, max(page) as page, max(part) as part from (
				select (ctid::text::point)[0]::bigint as page, tableoid as part from turns where account = $1 and terms @@ query::tsquery limit $3
			) t
		) held order by place`, int64(c.account), unknown, counted, pageSize)
	if err != nil {
		return nil, err
	}
	counts, err := pgx.CollectRows(rows, pgx.RowTo[uint64])
	for i, turns := range counts {
		found[places[i]] = turns
	}
	return found, err
}
