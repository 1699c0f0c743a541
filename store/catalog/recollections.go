package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// What was recalled quotes exchanges that only the database has, so it is stored and erased with them.

// recollectTime bounds the reading and storing of recollections: a model's answer waits for it.
const recollectTime = 500 * time.Millisecond

// Recollections returns what was decided at places of an account's conversations, nil for those without a decision.
func (r Recalled) Recollections(account string, keys []store.RecollectionKey) ([]*store.Recollection, error) {
	number, err := r.catalog.number(account)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recollectTime)
	defer cancel()
	rows, err := r.catalog.pool.Query(ctx, "select key, record from recollections where account = $1 and key = any($2)", number, recollectionKeys(keys))
	if err != nil {
		return nil, unreadable(err)
	}
	places := make(map[store.RecollectionKey][]int)
	for i, key := range keys {
		places[key] = append(places[key], i)
	}
	found := make([]*store.Recollection, len(keys))
	var key, record []byte
	_, err = pgx.ForEachRow(rows, []any{&key, &record}, func() error {
		decided := new(store.Recollection)
		if err := json.Unmarshal(record, decided); err != nil {
			return err
		}
		for _, i := range places[store.RecollectionKey(key)] {
			found[i] = decided
		}
		return nil
	})
	return found, unreadable(err)
}

func recollectionKeys(keys []store.RecollectionKey) [][]byte {
	written := make([][]byte, len(keys))
	for i := range keys {
		written[i] = keys[i][:]
	}
	return written
}

// Recollect stores what was decided at a place, under each of its keys, and returns the valid decision: the first one,
// if there was one before. If a quoted exchange is gone in the meantime, silence is stored, and nothing if the exchange
// itself was erased.
func (r Recalled) Recollect(ctx context.Context, account string, keys []store.RecollectionKey, decided store.Recollection) (holds *store.Recollection, err error) {
	number, err := r.catalog.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := decided.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, recollectTime)
	defer cancel()
	err = r.catalog.update(ctx, func(tx pgx.Tx) error {
		if err := shareAccount(ctx, tx, number); err != nil {
			return err
		}
		switch now, known, err := r.catalog.numbered(ctx, tx, account); { // the account is not deleted from here on
		case err != nil:
			return err
		case !known || now != number:
			return codec.Errorf(codec.KindNotFound, "the account was deleted")
		}
		holds, err = recollect(ctx, tx, number, keys, decided)
		return err
	})
	if err != nil {
		return nil, unreadable(err)
	}
	return holds, nil
}

func recollect(ctx context.Context, tx pgx.Tx, account store.AccountNumber, keys []store.RecollectionKey, r store.Recollection) (*store.Recollection, error) {
	if len(r.Quotes) > 0 {
		// An erasure either waits for these locks, and then deletes what is stored here, or has deleted the rows.
		rows, err := tx.Query(ctx, "select id from exchanges where account = $1 and id = any($2) order by id for key share", int64(account), r.Quotes)
		if err != nil {
			return nil, err
		}
		there, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(r.Quotes, func(id string) bool { return !slices.Contains(there, id) }) {
			r = r.Erased()
		}
	}
	// Its own exchange need not have arrived. An erasure deletes what is stored here while it has this lock, or had it.
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock_shared($1, 0)", lockErased); err != nil {
		return nil, err
	}
	var erased bool
	err := tx.QueryRow(ctx, "select exists (select from tombs where account = $1 and exchange = $2)", int64(account), r.Exchange).Scan(&erased)
	if err != nil {
		return nil, err
	}
	if erased {
		r = r.Erased()
		return &r, nil
	}
	record, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	done, err := tx.Exec(ctx, "insert into recollections values ($1, $2, $3) on conflict do nothing", int64(account), keys[0][:], record)
	if err != nil {
		return nil, err
	}
	if done.RowsAffected() == 0 {
		first := new(store.Recollection)
		err := tx.QueryRow(ctx, "select record from recollections where account = $1 and key = $2", int64(account), keys[0][:]).Scan(&record)
		if err == nil {
			err = json.Unmarshal(record, first)
		}
		return first, err
	}
	written := recollectionKeys(keys)
	batch := new(pgx.Batch)
	batch.Queue(`insert into recollections select $1, key, $3 from unnest($2::bytea[]) key
		on conflict (account, key) do update set record = excluded.record`, int64(account), written, record)
	batch.Queue("insert into quoted select $1, x.id, k.key from unnest($2::text[]) x (id), unnest($3::bytea[]) k (key) on conflict do nothing",
		int64(account), append(r.Quotes[:len(r.Quotes):len(r.Quotes)], r.Exchange), written)
	return &r, tx.SendBatch(ctx, batch).Close()
}

// forget deletes what was recalled for exchanges that are erased, and what quotes them. The exchanges must already be
// deleted, so that nothing quotes them from then on. A row of quoted may be left of an earlier decision at its place, so
// the record has to have the exchange too.
func forget(ctx context.Context, tx pgx.Tx, accounts []int64, exchanges []string) error {
	_, err := tx.Exec(ctx, `with gone as (
			delete from quoted q using unnest($1::bigint[], $2::text[]) e (account, exchange)
			where q.account = e.account and q.exchange = e.exchange returning q.account, q.exchange, q.key)
		delete from recollections r using gone
		where r.account = gone.account and r.key = gone.key and position(convert_to(gone.exchange, 'UTF8') in r.record) > 0`, accounts, exchanges)
	return err
}
