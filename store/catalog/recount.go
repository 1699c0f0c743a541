package catalog

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Sessions and rollups change with each exchange that arrives. After [Catalog.Rebuild] the centre that leads makes them again from the
// exchanges: for each account first the sessions, in the order of their ids, and then the rollups, hour by hour. The turns of a session
// that was made again are to be digested again. Each transaction notes how far that is, so that another centre may continue.

// recountName is the row of meta with a [recountAt]; it is there while something is to be made again.
const recountName = "recount"

// recountAt is how far sessions and rollups are made again.
type recountAt struct {
	Account int64      `json:"account"`           // 0: none yet
	Session string     `json:"session,omitempty"` // those of the account up to it are made
	Hour    *time.Time `json:"hour,omitempty"`    // all its sessions are made, and the rollups of earlier hours
}

const (
	recountedSessions = 20          // in a transaction, at most: nothing arrives meanwhile
	recountedInfos    = 500         // records that are read at once
	idSlack           = time.Minute // that the time in an exchange's id may differ from its beginning
)

// recountSome makes some sessions or rollups again. No exchange of the account arrives meanwhile.
func (c *database) recountSome(ctx context.Context) (more bool, err error) {
	err = c.update(ctx, func(tx pgx.Tx) error {
		var text string
		err := tx.QueryRow(ctx, "select value from meta where name = $1 for update", recountName).Scan(&text)
		if more = err == nil; err != nil {
			return unlessMissing(err)
		}
		r := recount{catalog: c, tx: tx}
		if err := json.Unmarshal([]byte(text), &r.at); err != nil {
			return err
		}
		done, err := r.run(ctx)
		if err != nil {
			return err
		}
		if done {
			_, err = tx.Exec(ctx, "delete from meta where name = $1", recountName)
			return err
		}
		at, err := json.Marshal(r.at)
		if err == nil {
			_, err = tx.Exec(ctx, "update meta set value = $2 where name = $1", recountName, string(at))
		}
		return err
	})
	if more && err == nil {
		c.arrived.Notify() // exchanges are digested once there is a record of their session
	}
	return more, err
}

// uncounted returns how many sessions of all accounts are to be made again, at least 1 while there is something to do.
func (c *database) uncounted(ctx context.Context) (sessions uint64, err error) {
	err = c.pool.QueryRow(ctx, `select count(*) + count(distinct m.name) from meta m left join lateral (
		select true from sessions s where (s.account, s.id) >
			(coalesce((m.value::json->>'account')::bigint, 0), coalesce(m.value::json->>'session', '') collate "C") limit 10000) s on true
		where m.name = $1`, recountName).Scan(&sessions)
	return sessions, err
}

// recount makes sessions and rollups again in a transaction.
type recount struct {
	catalog *database
	tx      pgx.Tx
	at      recountAt
}

// run does the next step, and reports whether that was the last one.
func (r *recount) run(ctx context.Context) (done bool, err error) {
	if r.at.Account != 0 {
		more, err := r.account(ctx)
		if err != nil || more {
			return false, err
		}
	}
	var next *int64
	err = r.tx.QueryRow(ctx, "select min(number) from accounts where number > $1", r.at.Account).Scan(&next)
	if err != nil || next == nil {
		return err == nil, err
	}
	r.at = recountAt{Account: *next}
	return false, nil
}

// account does the next step of the account, and reports whether there was one.
func (r *recount) account(ctx context.Context) (more bool, err error) {
	account := record.AccountNumber(r.at.Account)
	if err := arriveAlone(ctx, r.tx, account); err != nil {
		return false, err
	}
	if r.at.Hour == nil {
		rows, err := r.tx.Query(ctx, "select distinct session from exchanges where account = $1 and session > $2 order by session limit $3", r.at.Account, r.at.Session, recountedSessions)
		if err != nil {
			return false, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			if err == nil {
				err = r.session(ctx, account, id)
			}
			r.at.Session = id
		}
		if err == nil && len(ids) > 0 {
			err = r.digestAgain(ctx, ids)
		}
		if err != nil || len(ids) > 0 {
			return true, err
		}
		r.at.Hour = new(time.Time)
	}
	return r.hour(ctx, account)
}

// digestAgain has the turns of sessions digested again, each session from its beginning. No other transaction digests them.
func (r *recount) digestAgain(ctx context.Context, sessions []string) error {
	var batch pgx.Batch
	batch.Queue("delete from histories where account = $1 and session = any($2)", r.at.Account, sessions)
	batch.Queue("update exchanges set again = again or digested, digested = false where account = $1 and session = any($2) and speaks", r.at.Account, sessions)
	return r.tx.SendBatch(ctx, &batch).Close()
}

// session makes a session again. One that cannot be read stays as it is.
func (r *recount) session(ctx context.Context, account record.AccountNumber, id string) error {
	in, err := openSessions(ctx, r.tx, account, []string{id}, nil)
	if err != nil {
		return err
	}
	var failed error
	after := ""
	err = in.Recount(id, func() ([]record.ExchangeInfo, error) {
		infos, last, err := r.infos(ctx, account, id, after)
		after, failed = last, err
		return infos, err
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		r.catalog.Log.Error("a session cannot be made again from its exchanges", "session", id, "error", err)
		return nil
	}
	return putSessions(ctx, r.tx, account, in)
}

// infos returns the records of the exchanges of a session that follow one. Those that cannot be read are damaged.
func (r *recount) infos(ctx context.Context, account record.AccountNumber, session, after string) (infos []record.ExchangeInfo, last string, err error) {
	rows, err := r.tx.Query(ctx, "select id, record from exchanges where account = $1 and session = $2 and id > $3 order by id limit $4",
		int64(account), session, after, recountedInfos)
	if err != nil {
		return nil, "", err
	}
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&last, &stored}, func() error {
		infos = append(infos, listed(last, stored, &session))
		return nil
	})
	return infos, last, err
}

// hour makes the rollups of the next hour with exchanges again, and reports whether there was one.
func (r *recount) hour(ctx context.Context, account record.AccountNumber) (more bool, err error) {
	var first *string
	err = r.tx.QueryRow(ctx, "select min(id) from exchanges where account = $1 and id >= $2", r.at.Account, record.FirstExchangeID(r.at.Hour.Add(-idSlack))).Scan(&first)
	if err != nil || first == nil {
		return false, err
	}
	id, _ := kv.ParseExchangeID(*first)
	hour := id.Time().Add(-idSlack).UTC().Truncate(time.Hour)
	if hour.Before(*r.at.Hour) {
		hour = *r.at.Hour
	}
	end := hour.Add(time.Hour)
	rows, err := r.tx.Query(ctx, "select record from exchanges where account = $1 and id >= $2 and id < $3",
		r.at.Account, record.FirstExchangeID(hour.Add(-idSlack)), record.FirstExchangeID(end.Add(idSlack)))
	if err != nil {
		return false, err
	}
	sums := make(conversation.Rollups)
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&stored}, func() error {
		info, err := record.ReadInfo(stored)
		if err == nil && info.Started.Truncate(time.Hour).Equal(hour) {
			sums.Count(account, info)
		}
		return nil // what cannot be read counts nowhere
	})
	if err != nil {
		return false, err
	}
	changed, err := sums.Raise(readRollups(ctx, r.tx, account))
	if err != nil {
		return false, err
	}
	r.at.Hour = &end
	return true, putRollups(ctx, r.tx, account, changed)
}
