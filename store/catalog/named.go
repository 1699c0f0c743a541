package catalog

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
)

// Sessions are also found by what a person or a model has written about them, without any of their turns.

// namedSessions is how many sessions a search takes by what is written about them, and weighedSessions of how many titles, and
// of how many summaries. If more have any word of the query, it is a common one, and turns have it as well.
const (
	namedSessions   = 50
	weighedSessions = 2000
)

// sessions returns the sessions that may be found without their turns.
func (c *candidates) sessions(ctx context.Context) ([]string, error) {
	w := c.wanted
	if w.Named == nil {
		return nil, nil
	}
	query := tsquery(c.account, w.Named)
	if query == "" {
		return nil, nil
	}
	weights := make([]float64, len(w.Scored))
	for i := range w.Scored {
		weights[i] = w.Corpus.Weight(&w.Scored[i])
	}
	return c.ids(ctx, `
		select session from (
			select session, (select sum(weight) from unnest($3::tsquery[], $4::float8[]) as term (query, weight) where terms @@ query) as weight
			from (select session, terms || '' as terms from (
				(select session, terms from named where account = $1 and terms @@ $2::tsquery limit $5) union all
				(select session, terms from summaries where account = $1 and terms @@ $2::tsquery limit $5)
			) held offset 0) held
		) weighed group by session order by sum(weight) desc nulls last, session desc limit $6`,
		int64(c.account), query, c.terms(), weights, weighedSessions, namedSessions)
}

// namedName is the row of meta which says that the terms of all sessions are stored.
const namedName = "named"

// namedTogether is how many sessions one transaction reads.
const namedTogether = 500

// nameSessions stores the terms of sessions from before they were stored, or of all sessions after [Catalog.Rebuild].
func (c *database) nameSessions(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		err := c.nameAll(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil && !said {
			c.Log.Warn("sessions are not found by all titles and tags yet; retrying", "error", err)
		}
		said = true
		sleep(ctx, failedRest)
	}
}

func (c *database) nameAll(ctx context.Context) error {
	var done bool
	if err := c.pool.QueryRow(ctx, "select exists (select from meta where name = $1)", namedName).Scan(&done); err != nil || done {
		return err
	}
	account, id := int64(0), ""
	for more := true; more; {
		err := c.update(ctx, func(tx pgx.Tx) (err error) {
			account, id, more, err = nameSome(ctx, tx, account, id)
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := c.pool.Exec(ctx, "insert into meta values ($1, 'yes') on conflict do nothing", namedName)
	return err
}

// nameSome stores the terms of the sessions that follow a session, and returns the last one.
func nameSome(ctx context.Context, tx pgx.Tx, after int64, session string) (account int64, id string, more bool, err error) {
	rows, err := tx.Query(ctx, `select account, id, record from sessions where (account, id) > ($1, $2)
		order by account, id limit $3 for update`, after, session, namedTogether)
	if err != nil {
		return 0, "", false, err
	}
	type stored struct {
		Account int64
		ID      string
		Record  []byte
	}
	read, err := pgx.CollectRows(rows, pgx.RowToStructByPos[stored])
	if err != nil || len(read) == 0 {
		return after, session, false, err
	}
	words := make(map[int64]map[string]*conversation.SessionWords)
	for _, r := range read {
		if words[r.Account] == nil {
			words[r.Account] = make(map[string]*conversation.SessionWords)
		}
		if s, err := record.ReadSession(r.Record); err == nil { // a damaged one has no title
			words[r.Account][r.ID] = &conversation.SessionWords{Title: s.Title, Tags: s.Tags}
		}
	}
	batch := new(pgx.Batch)
	for number, of := range words {
		queueWords(batch, record.AccountNumber(number), of)
	}
	last := read[len(read)-1]
	return last.Account, last.ID, true, tx.SendBatch(ctx, batch).Close()
}
