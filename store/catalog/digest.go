package catalog

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

// How much of one session is digested in a transaction.
const (
	digestedExchanges = 64
	digestedBytes     = 64 << 20 // of requests and answers; one exchange alone may be larger
)

// digestSome digests what has arrived of one session, in the order in which it did.
func (c *Catalog) digestSome(ctx context.Context) (more bool, err error) {
	err = c.update(ctx, func(tx pgx.Tx) error {
		var account int64
		var session string
		err := tx.QueryRow(ctx, "select account, session from exchanges where not digested order by arrival limit 1").Scan(&account, &session)
		if more = err == nil; !more {
			return unlessMissing(err)
		}
		d := digesting{catalog: c, tx: tx, account: store.AccountNumber(account), session: session}
		return d.run(ctx)
	})
	return more, err
}

// digesting is the digest of a session's exchanges.
type digesting struct {
	catalog *Catalog
	tx      pgx.Tx
	account store.AccountNumber
	session string
}

// arrivedExchange is one that has not been digested.
type arrivedExchange struct {
	info *store.ExchangeInfo
	refs []byte
	body []byte // [Catalog.load] reads it; nil: it cannot be read
}

func (d *digesting) run(ctx context.Context) error {
	if err := shareAccount(ctx, d.tx, d.account); err != nil {
		return err
	}
	in, err := openSessions(ctx, d.tx, d.account, []string{d.session}, nil) // which keeps others from the same work
	if err != nil {
		return err
	}
	exchanges, ids, err := d.arrived(ctx)
	if err != nil || len(ids) == 0 {
		return err
	}
	objects, err := d.catalog.load(ctx, d.tx, d.account, exchanges)
	if err != nil {
		return err
	}
	turns := store.Turns{Digest: d.catalog.Digest, Log: d.catalog.Log, ReadHistories: d.histories(ctx), ReadTurn: d.turn(ctx)}
	if len(exchanges) > 0 && d.catalog.Redactor != nil {
		turns.Redactor = d.catalog.Redactor(exchanges[0].info.Account)
	}
	var found []store.TimelineEntry
	for _, x := range exchanges {
		whole, err := x.assemble(d.account, objects)
		if err != nil {
			d.catalog.Log.Error("an exchange cannot be read to be digested", "exchange", x.info.ID, "error", err)
			continue
		}
		turn, reply := turns.Add(whole)
		if reply != "" {
			in.Replied(d.session, reply)
		}
		found = append(found, store.TimelineEntry{Exchange: *x.info, Turn: turn})
	}
	if err := d.put(ctx, &turns, found); err != nil {
		return err
	}
	if err := putSessions(ctx, d.tx, d.account, in); err != nil {
		return err
	}
	_, err = d.tx.Exec(ctx, "update exchanges set digested = true where account = $1 and id = any($2)", int64(d.account), ids)
	return err
}

func (x *arrivedExchange) assemble(account store.AccountNumber, objects store.Objects) (*store.Exchange, error) {
	skeleton, parts, err := readBody(x.body)
	if err != nil {
		return nil, err
	}
	return store.Assemble(account, x.info, skeleton, parts, objects)
}

// arrived reads the exchanges that are digested together. ids has those as well that cannot be read.
func (d *digesting) arrived(ctx context.Context) (exchanges []*arrivedExchange, ids []string, err error) {
	rows, err := d.tx.Query(ctx, `
		with undone as (
			select id, arrival, sum(request_bytes + response_bytes) over (order by arrival) as size
			from exchanges where account = $1 and session = $2 and not digested order by arrival limit $3
		)
		select x.id, x.record, x.refs from undone join exchanges x on x.account = $1 and x.id = undone.id
		where undone.size <= $4 or undone.arrival = (select min(arrival) from undone) order by undone.arrival`,
		int64(d.account), d.session, digestedExchanges, int64(digestedBytes))
	if err != nil {
		return nil, nil, err
	}
	var id string
	var record, refs []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &record, &refs}, func() error {
		ids = append(ids, id)
		info, err := store.ReadInfo(record)
		if err != nil {
			d.catalog.Log.Error("the record of an exchange cannot be read", "exchange", id, "error", err)
			return nil
		}
		info.Session = d.session
		exchanges = append(exchanges, &arrivedExchange{info: info, refs: slices.Clone(refs)})
		return nil
	})
	return exchanges, ids, err
}

func (d *digesting) histories(ctx context.Context) func([][]byte) (map[string][]byte, error) {
	return func(hashes [][]byte) (map[string][]byte, error) {
		rows, err := d.tx.Query(ctx, "select hash, note from histories where account = $1 and session = $2 and hash = any($3)", int64(d.account), d.session, hashes)
		if err != nil {
			return nil, err
		}
		notes := make(map[string][]byte)
		var hash, note []byte
		_, err = pgx.ForEachRow(rows, []any{&hash, &note}, func() error {
			notes[string(hash)] = slices.Clone(note)
			return nil
		})
		return notes, err
	}
}

func (d *digesting) turn(ctx context.Context) func(string) ([]byte, error) {
	return func(exchange string) (record []byte, err error) {
		err = d.tx.QueryRow(ctx, "select record from turns where account = $1 and exchange = $2", int64(d.account), exchange).Scan(&record)
		return record, unlessMissing(err)
	}
}

// put keeps turns, with the terms of those that were found.
func (d *digesting) put(ctx context.Context, turns *store.Turns, found []store.TimelineEntry) error {
	records, histories, err := turns.Changed()
	if err != nil {
		return err
	}
	var (
		batch        pgx.Batch
		ids          []string
		began        []time.Time
		terms        []string
		values       [][]byte
		changed      []string
		changes      [][]byte
		hashes, note [][]byte
	)
	for i := range found {
		e := &found[i]
		ids, began, values = append(ids, e.Exchange.ID), append(began, e.Exchange.Started), append(values, records[e.Exchange.ID])
		terms = append(terms, lexemes(d.account, search.Terms(e)))
		delete(records, e.Exchange.ID)
	}
	for id, record := range records { // turns that others go on from
		changed, changes = append(changed, id), append(changes, record)
	}
	for h, n := range histories {
		hashes, note = append(hashes, []byte(h)), append(note, n)
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
		batch.Queue(`insert into histories (account, session, hash, note) select $1, $2, h.* from unnest($3::bytea[], $4::bytea[]) h
			on conflict (account, session, hash) do update set note = excluded.note`, int64(d.account), d.session, hashes, note)
	}
	return d.tx.SendBatch(ctx, &batch).Close()
}

// lexemeEnd stands between lexemes, and in none.
const lexemeEnd = "\x1f"

// maxLexeme is how many bytes Postgres takes of a lexeme, but for its account.
const maxLexeme = 2000

// lexeme is a term as the database has it: behind the account's number, so that lists of the index hold the documents of one
// account.
func lexeme(account store.AccountNumber, term string) string {
	return strconv.FormatUint(uint64(account), 36) + ":" + cleanTerm(term)
}

// cleanTerm leaves out what text in Postgres cannot hold.
func cleanTerm(term string) string {
	term = strings.ToValidUTF8(term[:min(len(term), maxLexeme)], "")
	return strings.NewReplacer("\x00", "\x1e", lexemeEnd, " ").Replace(term)
}

// lexemes joins the terms of a document.
func lexemes(account store.AccountNumber, terms []string) string {
	all := make([]string, 0, len(terms))
	size := 0
	for _, term := range terms {
		one := lexeme(account, term)
		if size += len(one); size > maxLexemes {
			break
		}
		all = append(all, one)
	}
	return strings.Join(all, lexemeEnd)
}

// maxLexemes bounds what all lexemes of a document take: Postgres takes a megabyte.
const maxLexemes = 900 << 10

// Wait returns when what has been kept of an account by now can be found.
func (c *Catalog) Wait(ctx context.Context, account string) error {
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
		wake(c.arrived)
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), context.Cause(ctx))
		case <-time.After(waitLook):
		}
	}
	return nil
}

// waitLook is how often a wait looks.
const waitLook = 20 * time.Millisecond

// Rebuild has everything digested again that is derived from the rest. Searches see what is done by then.
func (c *Catalog) Rebuild(ctx context.Context) error {
	return c.update(ctx, func(tx pgx.Tx) error {
		for _, statement := range [...]string{
			"lock table exchanges, turns, histories", "truncate turns, histories",
			"update exchanges set digested = false where speaks",
		} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
}
