package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
)

// retainEach is how often exchanges that are too old are looked for.
const retainEach = 10 * time.Minute

// Erase erases the selected exchanges of an account in the background, and returns the receipt that shows its progress.
// With dryRun it only counts. Erased exchanges are not taken again. A session that was merged into another one stands for
// that one, which the receipt names too.
func (c *database) Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) {
	number, err := c.number(account)
	if err == nil {
		err = sel.Check()
	}
	if err != nil {
		return nil, err
	}
	if dryRun {
		return c.eraseDryRun(ctx, account, number, sel)
	}
	var e *record.Erasure
	err = c.update(ctx, func(tx pgx.Tx) error {
		in, err := openSessions(ctx, tx, record.AccountNumber(number), slices.Clone(sel.Sessions), nil) // none of them is merged meanwhile
		if err != nil {
			return err
		}
		e, err = newErasure(ctx, tx, number, sel.Follow(in.MergedInto), record.ErasedByRequest)
		return err
	})
	if err != nil {
		return nil, unreadable(err)
	}
	c.erasing.Notify()
	return e, nil
}

// newErasure puts an erasure on record. The caller signals [Catalog.erasing] after the commit.
func newErasure(ctx context.Context, tx pgx.Tx, number int64, sel record.Selection, reason string) (*record.Erasure, error) {
	now, err := clockOf(ctx, tx)
	if err != nil {
		return nil, err
	}
	e := &record.Erasure{ID: record.NewErasureID(now), State: record.ErasureQueued, Selection: sel, Reason: reason, Created: now}
	receipt, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "insert into erasures values ($1, $2, false, $3)", number, e.ID, string(receipt))
	return e, err
}

func (c *database) eraseDryRun(ctx context.Context, account string, number int64, sel record.Selection) (*record.Erasure, error) {
	now := time.Now().UTC()
	sel = sel.Follow(c.mergedInto(account))
	e := &record.Erasure{State: record.ErasureDone, Selection: sel, Reason: record.ErasedByRequest, DryRun: true, Created: now}
	bySession := make(map[string]int64)
	for after, first := (place{}), true; first || after != (place{}); first = false {
		infos, next, err := c.selected(ctx, number, &sel, after)
		if err != nil {
			return nil, unreadable(err)
		}
		for i := range infos {
			e.Exchanges++
			bySession[infos[i].Session]++
		}
		after = next
	}
	for id, n := range bySession {
		if s, err := c.Session(account, id); err == nil && s.Exchanges <= n {
			e.Sessions++
		}
	}
	e.Completed = time.Now().UTC()
	return e, nil
}

// Erasure returns the receipt of an erasure of the account.
func (c *database) Erasure(account, id string) (*record.Erasure, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	number, err := c.number(account)
	if err != nil || !record.IsErasureID(id) {
		return nil, codec.Errorf(codec.KindNotFound, "no erasure %q", id)
	}
	var receipt string
	var late int64
	err = c.pool.QueryRow(ctx, `select receipt, (select count(*) from erased where account = $1 and late = $2)
		from erasures where account = $1 and id = $2`, number, id).Scan(&receipt, &late)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, codec.Errorf(codec.KindNotFound, "no erasure %q", id)
	}
	e := new(record.Erasure)
	if err == nil {
		err = json.Unmarshal([]byte(receipt), e)
	}
	e.Late = late
	return e, unreadable(err)
}

// erasuresRead is how many unfinished erasures are read at once.
const erasuresRead = 100

// unfinishedErasure is an erasure that is not done.
type unfinishedErasure struct {
	account record.AccountNumber
	*record.Erasure
}

func (r *erasures) isErased(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.erased[id]
}

// each continues all unfinished erasures, and reports whether any of them is done. The error is the first one.
func (r *erasures) each(ctx context.Context, carryOn func(unfinishedErasure) (done bool, err error)) (some bool, err error) {
	for after := ""; ; {
		page, failed := r.unfinished(ctx, after)
		if failed != nil {
			return false, failed
		}
		for _, e := range page {
			after = e.ID
			done, failed := carryOn(e)
			if some = some || done; failed == nil {
				continue
			}
			if err == nil {
				err = failed
			}
			if r.catalog.pool.Ping(ctx) != nil { // all others would fail as well
				return false, err
			}
		}
		if len(page) < erasuresRead {
			return some, err
		}
	}
}

// unfinished returns the erasures that are not done and follow one.
func (r *erasures) unfinished(ctx context.Context, after string) ([]unfinishedErasure, error) {
	rows, err := r.catalog.pool.Query(ctx, "select account, receipt from erasures where not done and id > $1 order by id limit $2", after, erasuresRead)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e unfinishedErasure, err error) {
		var number int64
		var receipt string
		if err := row.Scan(&number, &receipt); err != nil {
			return e, err
		}
		e = unfinishedErasure{record.AccountNumber(number), new(record.Erasure)}
		return e, json.Unmarshal([]byte(receipt), e.Erasure)
	})
}

// accept announces an erasure by request, once, and reports whether it may be carried out. Only a centre announces.
func (c *database) accept(ctx context.Context, e unfinishedErasure) (accepted bool, err error) {
	if e.State != record.ErasureQueued || e.Reason != record.ErasedByRequest {
		return true, nil
	}
	account := c.accounts.nameOf(e.account)
	if c.worker() || account == "" {
		return false, nil
	}
	err = c.update(ctx, func(tx pgx.Tx) error {
		held, err := lockErasure(ctx, tx, e.account, e.ID)
		if err != nil || held == nil || held.State != record.ErasureQueued { // another centre was first
			return err
		}
		if c.Accepted != nil {
			if err := c.Accepted(account, held); err != nil {
				return err
			}
		}
		held.State = record.ErasureRunning
		batch := new(pgx.Batch)
		if err := queueReceipt(batch, e.account, held, false); err != nil {
			return err
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	return err == nil, err
}

// eraseRows erases the selected exchanges in the database.
func (c *database) eraseRows(ctx context.Context, e unfinishedErasure) error {
	// Wait for transactions that are storing exchanges. Those that begin later check their exchanges against this
	// erasure.
	if err := c.update(ctx, func(tx pgx.Tx) error { return arriveAlone(ctx, tx, e.account) }); err != nil {
		return err
	}
	for after, first := (place{}), true; first || after != (place{}); first = false {
		infos, next, err := c.selected(ctx, int64(e.account), &e.Selection, after)
		if err == nil && len(infos) > 0 {
			err = c.update(ctx, func(tx pgx.Tx) error { return c.eraseBatch(ctx, tx, e.account, infos, e.ID) })
		}
		if err != nil {
			return err
		}
		after = next
	}
	return nil
}

// lockErasure reads and locks the receipt of an unfinished erasure; nil if it is done, or was deleted with its account.
func lockErasure(ctx context.Context, tx pgx.Tx, account record.AccountNumber, id string) (*record.Erasure, error) {
	var receipt string
	err := tx.QueryRow(ctx, "select receipt from erasures where account = $1 and id = $2 and not done for update", int64(account), id).Scan(&receipt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // nothing is left to do
	}
	e := new(record.Erasure)
	if err == nil {
		err = json.Unmarshal([]byte(receipt), e)
	}
	return e, err
}

// eraseBatch erases exchanges, and counts them in the receipt of the erasure.
func (c *database) eraseBatch(ctx context.Context, tx pgx.Tx, account record.AccountNumber, infos []record.ExchangeInfo, erasure string) error {
	e, err := lockErasure(ctx, tx, account, erasure)
	if err != nil || e == nil {
		return err
	}
	e.State = record.ErasureRunning
	var ids, sessions []string
	for i := range infos {
		ids, sessions = append(ids, infos[i].ID), append(sessions, infos[i].Session)
	}
	if err := shareAccount(ctx, tx, account); err != nil {
		return err
	}
	if err := holdPacks(ctx, tx, account); err != nil {
		return err
	}
	in, err := openSessions(ctx, tx, account, sessions, nil)
	if err != nil {
		return err
	}
	gone, packs, err := deleteExchanges(ctx, tx, account, ids, e)
	if err != nil {
		return err
	}
	batch := new(pgx.Batch)
	batch.Queue("update packs set stale = true where account = $1 and pack = any($2)", int64(account), packs)
	queueLeaving(batch, account, in, infos, gone, e)
	if err := eraseTurns(ctx, tx, account, infos); err != nil {
		return err
	}
	if err := queueReceipt(batch, account, e, false); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	if err := putSessions(ctx, tx, account, in); err != nil {
		return err
	}
	if e.Reason != record.ErasedByRequest {
		return forget(ctx, tx, slices.Repeat([]int64{int64(account)}, len(ids)), ids)
	}
	erased := make([]erasedExchange, len(ids))
	for i, id := range ids {
		erased[i].exchange = id
	}
	return recordErased(ctx, tx, map[record.AccountNumber][]erasedExchange{account: erased})
}

// deleteExchanges deletes the rows of exchanges, and counts them in the receipt. gone are those that were there, with the
// session they were last in; packs had their bodies.
func deleteExchanges(ctx context.Context, tx pgx.Tx, account record.AccountNumber, ids []string, e *record.Erasure) (gone map[string]string, packs []int64, err error) {
	rows, err := tx.Query(ctx, `delete from exchanges where account = $1 and id = any($2)
		returning id, coalesce(session, ''), coalesce(size, length(body)), pack`, int64(account), ids)
	if err != nil {
		return nil, nil, err
	}
	gone = make(map[string]string)
	var id, session string
	var size int64
	var pack *int64
	_, err = pgx.ForEachRow(rows, []any{&id, &session, &size, &pack}, func() error {
		gone[id] = session
		if pack != nil {
			packs = append(packs, *pack)
		}
		e.Exchanges++
		e.Bytes += size
		return nil
	})
	return gone, packs, err
}

// queueLeaving has deleted exchanges leave their sessions, and counts the sessions that go with their last one. The
// records get the sessions that the exchanges were last in.
func queueLeaving(batch *pgx.Batch, account record.AccountNumber, in *conversation.Sessions, infos []record.ExchangeInfo, gone map[string]string, e *record.Erasure) {
	for i := range infos {
		info := &infos[i]
		session := gone[info.ID]
		if session == "" {
			continue
		}
		info.Session = session
		empty, links := in.Leave(session, info)
		batch.Queue("delete from links where account = $1 and session = $2 and key = any($3)", int64(account), session, links)
		if empty {
			e.Sessions++
			batch.Queue("delete from histories where account = $1 and session = $2", int64(account), session)
		}
	}
}

// eraseTurns deletes the turns of exchanges, and the histories that lead to them.
func eraseTurns(ctx context.Context, tx pgx.Tx, account record.AccountNumber, infos []record.ExchangeInfo) error {
	sessions := make(map[string]string)
	var ids []string
	for i := range infos {
		ids = append(ids, infos[i].ID)
		sessions[infos[i].ID] = infos[i].Session
	}
	rows, err := tx.Query(ctx, "delete from turns where account = $1 and exchange = any($2) returning exchange, record", int64(account), ids)
	if err != nil {
		return err
	}
	noted := make(map[string][][]byte) // by session
	var id string
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &stored}, func() error {
		_, histories, _ := record.ReadTurn(stored) // an unreadable turn is gone as well
		for _, h := range histories {
			noted[sessions[id]] = append(noted[sessions[id]], slices.Clone(h))
		}
		return nil
	})
	for session, hashes := range noted {
		if err == nil {
			_, err = tx.Exec(ctx, "delete from histories where account = $1 and session = $2 and hash = any($3)", int64(account), session, hashes)
		}
	}
	return err
}

func queueReceipt(batch *pgx.Batch, account record.AccountNumber, e *record.Erasure, done bool) error {
	receipt, err := json.Marshal(e)
	if err == nil {
		batch.Queue("update erasures set done = $3, receipt = $4 where account = $1 and id = $2", int64(account), e.ID, done, string(receipt))
	}
	return err
}

// releasedTogether is how many erased exchanges one transaction releases: nothing can arrive for the account meanwhile.
const releasedTogether = 64

// freeObjects frees the objects that only erased exchanges have used.
func (c *database) freeObjects(ctx context.Context, account record.AccountNumber, erasure string) error {
	for more := true; more; {
		err := c.update(ctx, func(tx pgx.Tx) (err error) {
			more, err = freeSome(ctx, tx, account, erasure)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// freeSome releases some erased exchanges of the account, and counts in the receipt the objects that this leaves without users.
// It reports whether there were any.
func freeSome(ctx context.Context, tx pgx.Tx, account record.AccountNumber, erasure string) (more bool, err error) {
	e, err := lockErasure(ctx, tx, account, erasure)
	if err != nil || e == nil {
		return false, err
	}
	if err := shareAccount(ctx, tx, account); err != nil {
		return false, err
	}
	if err := holdPacks(ctx, tx, account); err != nil {
		return false, err
	}
	if err := arriveAlone(ctx, tx, account); err != nil { // last, since the others may take long
		return false, err
	}
	rows, err := tx.Query(ctx, `delete from released where account = $1 and exchange in
		(select exchange from released where account = $1 order by exchange limit $2) returning refs`, int64(account), releasedTogether)
	if err != nil {
		return false, err
	}
	released, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil || len(released) == 0 {
		return false, err
	}
	unused, err := unusedObjects(ctx, tx, account, bytes.Join(released, nil))
	if err != nil {
		return false, err
	}
	var objects, size int64
	err = tx.QueryRow(ctx, `with freed as (
			delete from objects where account = $1 and ref = any($2) returning coalesce(size, length(value)) as size, pack
		), holed as (
			update packs set stale = true where account = $1 and pack in (select pack from freed)
		)
		select count(*), coalesce(sum(size), 0) from freed`, int64(account), unused).Scan(&objects, &size)
	if err != nil {
		return false, err
	}
	e.Objects += objects
	e.Bytes += size
	return true, putReceipt(ctx, tx, account, e, false)
}

// unusedObjects returns those of the objects that refs name, directly or not, that have no users, or only such as have none themselves.
func unusedObjects(ctx context.Context, tx pgx.Tx, account record.AccountNumber, refs []byte) (unused [][]byte, err error) {
	rows, err := tx.Query(ctx, readNeeded+`
		select o.ref, o.refs, o.users from need
			cross join lateral (select ref, refs, users from objects where account = $1 and ref = need.ref offset 0) o`, int64(account), refs)
	if err != nil {
		return nil, err
	}
	type object struct {
		refs  []byte
		users int64
	}
	objects := make(map[string]*object)
	var ref, named []byte
	var users int64
	_, err = pgx.ForEachRow(rows, []any{&ref, &named, &users}, func() error {
		objects[string(ref)] = &object{bytes.Clone(named), users}
		if users == 0 {
			unused = append(unused, bytes.Clone(ref))
		}
		return nil
	})
	for at := 0; at < len(unused); at++ {
		for ref := range slices.Chunk(objects[string(unused[at])].refs, refSize) {
			if o := objects[string(ref)]; o != nil {
				if o.users--; o.users == 0 {
					unused = append(unused, ref)
				}
			}
		}
	}
	return unused, err
}

// finishErasure completes the receipt, once none of the erased data exists any more.
func (c *database) finishErasure(ctx context.Context, tx pgx.Tx, account record.AccountNumber, erasure string) error {
	e, err := lockErasure(ctx, tx, account, erasure)
	if err != nil || e == nil {
		return err
	}
	e.State = record.ErasureDone
	if e.Completed, err = clockOf(ctx, tx); err != nil {
		return err
	}
	if e.Reason == record.ErasedByRequest {
		if err := noteLatest(ctx, tx, e.Completed); err != nil {
			return err
		}
	}
	return putReceipt(ctx, tx, account, e, true)
}

func putReceipt(ctx context.Context, tx pgx.Tx, account record.AccountNumber, e *record.Erasure, done bool) error {
	batch := new(pgx.Batch)
	if err := queueReceipt(batch, account, e, done); err != nil {
		return err
	}
	if done {
		queueEvents(batch, []record.Event{{Kind: record.ErasureCompleted, Account: account, Erasure: e.ID, Time: e.Completed}})
	}
	return tx.SendBatch(ctx, batch).Close()
}

// forget deletes what a centre of an earlier version has recalled for exchanges that are erased, and what quotes them. A row of quoted may be left of an earlier decision at its place, so
// the record has to have the exchange too.
func forget(ctx context.Context, tx pgx.Tx, accounts []int64, exchanges []string) error {
	_, err := tx.Exec(ctx, `with gone as (
			delete from quoted q using unnest($1::bigint[], $2::text[]) e (account, exchange)
			where q.account = e.account and q.exchange = e.exchange returning q.account, q.exchange, q.key)
		delete from recollections r using gone
		where r.account = gone.account and r.key = gone.key and position(convert_to(gone.exchange, 'UTF8') in r.record) > 0`, accounts, exchanges)
	return err
}
