package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// erasedExchange is an exchange that stays erased, here and at the edges.
type erasedExchange struct {
	exchange string
	late     *string // the erasure after which it arrived; nil: it was here
}

// recordErased appends exchanges to the log of erasures, and deletes what was recalled for them. A transaction calls it last, so
// that numbers of the log are in commit order and no reader skips an entry that is not committed yet.
func recordErased(ctx context.Context, tx pgx.Tx, erased map[record.AccountNumber][]erasedExchange) error {
	if len(erased) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1, 0)", lockErased); err != nil {
		return err
	}
	var accounts []int64
	var ids []string
	var late []*string
	for _, account := range slices.Sorted(maps.Keys(erased)) {
		for _, b := range erased[account] {
			accounts, ids, late = append(accounts, int64(account)), append(ids, b.exchange), append(late, b.late)
		}
	}
	if err := recordErasedInOrder(ctx, tx, accounts, ids, late); err != nil {
		return err
	}
	return forget(ctx, tx, accounts, ids)
}

// recordErasedInOrder is recordErased for a transaction that holds the lock of the log.
func recordErasedInOrder(ctx context.Context, tx pgx.Tx, accounts []int64, ids []string, late []*string) error {
	_, err := tx.Exec(ctx, `
		with asked as (
			select distinct on (account, exchange) * from unnest($1::bigint[], $2::text[], $3::text[]) with ordinality a (account, exchange, late, place)
			order by account, exchange, place
		), gone as (
			insert into tombs select account, exchange from asked on conflict do nothing returning account, exchange
		)
		insert into erased (number, account, exchange, late)
		select (select coalesce(max(number), 0) from erased) + row_number() over (order by place), account, exchange, late
		from gone join asked using (account, exchange)`, accounts, ids, late)
	return err
}

// askedSince returns the requested erasures that were created after the first of the exchanges began, newest first.
func askedSince(ctx context.Context, tx pgx.Tx, account record.AccountNumber, exchanges []*shipped.Exchange) (asked []*record.Erasure, err error) {
	if len(exchanges) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(exchanges, func(a, b *shipped.Exchange) int { return a.Began().Compare(b.Began()) })
	rows, err := tx.Query(ctx, "select receipt from erasures where account = $1 and id >= $2 and receipt::json->>'reason' = $3 order by id desc",
		int64(account), record.FirstErasureID(first.Began()), record.ErasedByRequest)
	if err != nil {
		return nil, err
	}
	var receipt string
	_, err = pgx.ForEachRow(rows, []any{&receipt}, func() error {
		e := new(record.Erasure)
		asked = append(asked, e)
		return json.Unmarshal([]byte(receipt), e)
	})
	return asked, err
}

// Erased is the log of requested erasures, which edges carry out as well.
type Erased struct{ catalog *database }

// Erased returns the part of the catalog that shares erasures with edges.
func (c *database) Erased() Erased { return Erased{c} }

// After returns the exchanges that follow an entry of the erasure log, at most most of them, and the last one's mark. A
// mark that does not match the log, since the database was restored from a backup, means its beginning.
func (e Erased) After(mark ship.ErasedMark, most int) (page []ship.ErasedExchange, upTo ship.ErasedMark, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	var at string
	err = e.catalog.pool.QueryRow(ctx, "select exchange from erased where number = $1", int64(mark.Number)).Scan(&at)
	if err := unlessMissing(err); err != nil {
		return nil, mark, unreadable(err)
	}
	if id, ok := kv.ParseExchangeID(at); !ok || ship.Tail(id) != mark.Tail {
		mark = ship.ErasedMark{}
	}
	rows, err := e.catalog.pool.Query(ctx, "select number, account, exchange from erased where number > $1 order by number limit $2", int64(mark.Number), most)
	if err != nil {
		return nil, mark, unreadable(err)
	}
	names := make(map[int64]string)
	var number, account int64
	upTo = mark
	_, err = pgx.ForEachRow(rows, []any{&number, &account, &at}, func() error {
		id, ok := kv.ParseExchangeID(at)
		if !ok {
			return kv.ErrRecord
		}
		name, known := names[account]
		if !known {
			name = e.catalog.accounts.nameOf(record.AccountNumber(account))
			names[account] = name
		}
		upTo = ship.ErasedMark{Number: uint64(number), Tail: ship.Tail(id)}
		page = append(page, ship.ErasedExchange{Account: name, Exchange: at})
		return nil
	})
	return page, upTo, unreadable(err)
}

// latestName is the row of meta with the completion time of the last requested erasure, in microseconds since 1970.
const latestName = "erased"

func noteLatest(ctx context.Context, tx pgx.Tx, done time.Time) error {
	_, err := tx.Exec(ctx, `insert into meta values ($1, $2::bigint::text) on conflict (name) do update
		set value = greatest(meta.value::bigint, excluded.value::bigint)::text`, latestName, done.UnixMicro())
	return err
}

// Latest returns when the last requested erasure was completed; zero: there is none.
func (e Erased) Latest() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	var value string
	err := e.catalog.pool.QueryRow(ctx, "select value from meta where name = $1", latestName).Scan(&value)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, unreadable(err)
	}
	micros, err := strconv.ParseInt(value, 10, 64)
	return time.UnixMicro(micros), err
}

// Edges returns all edges that were ever heard.
func (e Erased) Edges() (edges []record.EdgeErased, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	rows, err := e.catalog.pool.Query(ctx, "select node, seen, clean, gone from edges order by node")
	if err != nil {
		return nil, unreadable(err)
	}
	edges, err = pgx.CollectRows(rows, scanEdge)
	return edges, unreadable(err)
}

func scanEdge(row pgx.CollectableRow) (record.EdgeErased, error) {
	var node int32
	var seen time.Time
	var clean, gone *time.Time
	err := row.Scan(&node, &seen, &clean, &gone)
	return record.EdgeErased{Node: uint16(node), Seen: seen.UTC(), Clean: known(clean), Gone: known(gone)}, err
}

// NoteEdge merges the state of an edge into its row, which other centres may have updated.
func (e Erased) NoteEdge(ctx context.Context, edge record.EdgeErased) error {
	_, err := e.catalog.pool.Exec(ctx, `insert into edges values ($1, $2, $3, $4) on conflict (node) do update
		set seen = greatest(edges.seen, excluded.seen), clean = greatest(edges.clean, excluded.clean), gone = excluded.gone`,
		int32(edge.Node), edge.Seen, unlessZero(edge.Clean), unlessZero(edge.Gone))
	return err
}

// Unknown times are null.
func known(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
