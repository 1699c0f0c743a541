package catalog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// Limits on what a transaction digests, all of one account.
const (
	digestedExchanges = 256
	digestedBytes     = 16 << 20 // of requests and answers; one exchange alone may be larger
)

// undigestedLook is how many undigested exchanges are searched for an account that nobody else is digesting.
const undigestedLook = 1000

// digestSome digests some exchanges of one account, in order of arrival. It skips accounts that another centre is digesting, and
// leaves sessions that another transaction is adding to for later. An account whose exchanges cannot be read at present holds up
// no other one; the error is returned once no other account has anything to digest.
func (c *database) digestSome(ctx context.Context) (more bool, err error) {
	held := []int64{} // accounts that other transactions hold, or that failed; never null
	var failed error
	for {
		var account int64
		found, done := false, false
		err := c.update(ctx, func(tx pgx.Tx) error {
			err := tx.QueryRow(ctx, `
				select account from (
					select account from (select account, arrival from exchanges where not digested and account <> all($3) order by arrival limit $1) x
					group by account order by min(arrival) offset 0
				) a where pg_try_advisory_xact_lock($2, account::int) limit 1`, undigestedLook, lockDigest, held).Scan(&account)
			if found = err == nil; !found {
				return unlessMissing(err)
			}
			d := digesting{catalog: c, tx: tx, account: record.AccountNumber(account)}
			done, err = d.run(ctx)
			return err
		})
		if done && err == nil {
			c.likes.digested.Notify()
		}
		if err != nil && found && !isConflict(err) && ctx.Err() == nil && c.pool.Ping(ctx) == nil {
			failed = cmp.Or(failed, fmt.Errorf("account %s: %w", c.accounts.nameOf(record.AccountNumber(account)), err))
			err = nil
		}
		if err != nil || !found || done {
			return found, cmp.Or(err, failed)
		}
		held = append(held, account)
	}
}

// digesting digests exchanges of an account in a transaction.
type digesting struct {
	catalog *database
	tx      pgx.Tx
	account record.AccountNumber
}

// run digests some exchanges of the account. done is false if all their sessions are locked. A bucket may be slow, so bodies are read
// before the sessions are locked.
func (d *digesting) run(ctx context.Context) (done bool, err error) {
	if err := shareAccount(ctx, d.tx, d.account); err != nil {
		return false, err
	}
	arrived, sessions, err := d.next(ctx)
	if err != nil || len(sessions) == 0 {
		return false, err
	}
	objects, err := d.catalog.load(ctx, d.tx, d.account, arrived)
	if err != nil {
		return false, err
	}
	in, ids, err := d.hold(ctx, sessions)
	if err != nil || len(ids) == 0 {
		return in != nil, err
	}
	arrived = slices.DeleteFunc(arrived, func(x *arrivedExchange) bool { return !slices.Contains(ids, x.info.ID) })
	exchanges := d.readable(arrived, objects)
	turns := conversation.Turns{Digest: d.catalog.Digest, Log: d.catalog.Log, ReadHistories: d.histories(ctx), ReadTurns: d.turns(ctx)}
	if len(exchanges) > 0 && d.catalog.Redactor != nil {
		turns.Redactor = d.catalog.Redactor(exchanges[0].Account)
	}
	var found []record.TimelineEntry
	for i, made := range turns.Add(exchanges) {
		x := exchanges[i]
		if made.Reply != "" {
			in.Replied(x.Session, made.Reply)
		}
		found = append(found, record.TimelineEntry{Exchange: x.ExchangeInfo, Turn: made.Turn})
	}
	var batch pgx.Batch
	if err := d.put(&batch, &turns, found); err != nil {
		return false, err
	}
	if err := queueSessions(&batch, d.account, in); err != nil {
		return false, err
	}
	var events []record.Event
	for i := range found {
		events = append(events, digested(d.account, &found[i].Exchange))
	}
	queueEvents(&batch, events)
	batch.Queue(`insert into unsummarized (account, session, grew)
		select $1, session, clock_timestamp() from (
			select distinct session from exchanges where account = $1 and id = any($2) and not again order by session) grown
		where exists (select from meta where name = '`+summariesName+`')
		on conflict (account, session) do update set grew = excluded.grew`, int64(d.account), ids)
	batch.Queue("update exchanges set digested = true, again = false where account = $1 and id = any($2)", int64(d.account), ids)
	return true, d.tx.SendBatch(ctx, &batch).Close()
}

// readable returns the exchanges that can be read, and logs the others.
func (d *digesting) readable(arrived []*arrivedExchange, objects shipped.Objects) (exchanges []*record.Exchange) {
	for _, x := range arrived {
		whole, err := x.assemble(d.account, objects)
		if err != nil {
			d.catalog.Log.Error("an exchange cannot be read to be digested", "exchange", x.info.ID, "error", err)
			continue
		}
		exchanges = append(exchanges, whole)
	}
	return exchanges
}

// next reads the exchanges to digest together, in order of arrival. sessions are the sessions of all of them, also of the unreadable ones.
func (d *digesting) next(ctx context.Context) (exchanges []*arrivedExchange, sessions map[string]string, err error) {
	rows, err := d.tx.Query(ctx, `
		select id, session, record, refs from (
			select *, sum(request_bytes + response_bytes) over (order by arrival) as upto, row_number() over (order by arrival) as place
			from (select * from exchanges where account = $1 and not digested order by arrival limit $2) x
		) x where upto <= $3 or place = 1 order by arrival`, int64(d.account), digestedExchanges, int64(digestedBytes))
	if err != nil {
		return nil, nil, err
	}
	sessions = make(map[string]string)
	var id, session string
	var stored, refs []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &session, &stored, &refs}, func() error {
		sessions[id] = session
		info, err := record.ReadInfo(stored)
		if err != nil {
			d.catalog.Log.Error("the record of an exchange cannot be read", "exchange", id, "error", err)
			return nil
		}
		info.Session = session
		exchanges = append(exchanges, &arrivedExchange{info: info, refs: slices.Clone(refs)})
		return nil
	})
	return exchanges, sessions, err
}

// hold locks those of the sessions of exchanges that no other transaction holds, so that no exchange is moved out of them; nil if there
// are none. ids are the exchanges in them that are still to be digested.
func (d *digesting) hold(ctx context.Context, sessions map[string]string) (in *conversation.Sessions, ids []string, err error) {
	records := make(map[string][]byte)
	err = readInto(ctx, d.tx, records, "select id, record from sessions where account = $1 and id = any($2) order by id for update skip locked",
		int64(d.account), slices.Sorted(maps.Values(sessions)))
	if err != nil || len(records) == 0 {
		return nil, nil, err
	}
	rows, err := d.tx.Query(ctx, "select id, session from exchanges where account = $1 and id = any($2) and not digested",
		int64(d.account), slices.Collect(maps.Keys(sessions)))
	if err != nil {
		return nil, nil, err
	}
	var id, session string
	_, err = pgx.ForEachRow(rows, []any{&id, &session}, func() error {
		if _, held := records[session]; held && sessions[id] == session {
			ids = append(ids, id)
		}
		return nil
	})
	return heldSessions(ctx, d.tx, d.account, records, nil), ids, err
}

func (d *digesting) histories(ctx context.Context) func([]conversation.History) (map[conversation.History][]byte, error) {
	return func(wanted []conversation.History) (map[conversation.History][]byte, error) {
		sessions, hashes := make([]string, len(wanted)), make([][]byte, len(wanted))
		for i := range wanted {
			sessions[i], hashes[i] = wanted[i].Session, wanted[i].Hash[:]
		}
		rows, err := d.tx.Query(ctx, `select h.session, h.hash, h.note from unnest($2::text[], $3::bytea[]) w (session, hash)
			join histories h on h.account = $1 and h.session = w.session and h.hash = w.hash`, int64(d.account), sessions, hashes)
		if err != nil {
			return nil, err
		}
		notes := make(map[conversation.History][]byte)
		var session string
		var hash, note []byte
		_, err = pgx.ForEachRow(rows, []any{&session, &hash, &note}, func() error {
			h := conversation.History{Session: session}
			copy(h.Hash[:], hash)
			notes[h] = slices.Clone(note)
			return nil
		})
		return notes, err
	}
}

func (d *digesting) turns(ctx context.Context) func([]string) (map[string][]byte, error) {
	return func(exchanges []string) (map[string][]byte, error) {
		records := make(map[string][]byte)
		return records, readInto(ctx, d.tx, records, "select exchange, record from turns where account = $1 and exchange = any($2)", int64(d.account), exchanges)
	}
}

// put stores turns, with the search terms of those that have any.
func (d *digesting) put(batch *pgx.Batch, turns *conversation.Turns, found []record.TimelineEntry) error {
	records, histories, err := turns.Changed()
	if err != nil {
		return err
	}
	var (
		ids          []string
		began        []time.Time
		terms        []string
		values       [][]byte
		changed      []string
		changes      [][]byte
		sessions     []string
		hashes, note [][]byte
	)
	for i := range found {
		e := &found[i]
		ids, began, values = append(ids, e.Exchange.ID), append(began, e.Exchange.Started), append(values, records[e.Exchange.ID])
		terms = append(terms, lexemes(d.account, search.Terms(e)))
		delete(records, e.Exchange.ID)
	}
	for id, stored := range records { // turns that others continue
		changed, changes = append(changed, id), append(changes, stored)
	}
	for h, n := range histories {
		sessions, hashes, note = append(sessions, h.Session), append(hashes, bytes.Clone(h.Hash[:])), append(note, n)
	}
	batch.Queue(`insert into turns (account, exchange, began, terms, record)
		select $1, t.id, t.began, array_to_tsvector(string_to_array(t.terms, $2)), t.record
		from unnest($3::text[], $4::timestamptz[], $5::text[], $6::bytea[]) t (id, began, terms, record)
		on conflict (account, exchange) do update set terms = excluded.terms, record = excluded.record`,
		int64(d.account), lexemeEnd, ids, began, terms, values)
	if len(changed) > 0 {
		batch.Queue(`update turns set record = t.record from unnest($2::text[], $3::bytea[]) t (id, record)
			where account = $1 and exchange = t.id`, int64(d.account), changed, changes)
	}
	if len(hashes) > 0 {
		batch.Queue(`insert into histories (account, session, hash, note) select $1, h.* from unnest($2::text[], $3::bytea[], $4::bytea[]) h
			on conflict (account, session, hash) do update set note = excluded.note`, int64(d.account), sessions, hashes, note)
	}
	return nil
}

// Wait returns when searches find every exchange that the account has at the time of the call.
func (c *database) Wait(ctx context.Context, account string) error {
	number, err := c.number(account)
	if err != nil {
		return err
	}
	var last int64
	if err := c.pool.QueryRow(ctx, "select coalesce(max(arrival), 0) from exchanges where account = $1 and not digested", number).Scan(&last); err != nil {
		return unreadable(err)
	}
	for last > 0 {
		var waiting bool
		err := c.pool.QueryRow(ctx, "select exists (select from exchanges where account = $1 and not digested and arrival <= $2)", number, last).Scan(&waiting)
		if err != nil {
			return unreadable(err)
		}
		if !waiting {
			return nil
		}
		c.arrived.Notify()
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), context.Cause(ctx))
		case <-time.After(waitLook):
		}
	}
	return nil
}

// waitLook is how often Wait checks.
const waitLook = 20 * time.Millisecond
