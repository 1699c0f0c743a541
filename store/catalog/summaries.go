package catalog

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Summaries are models' summaries of the sessions in a catalog. A trigger of the database deletes them with every
// exchange that leaves its session, whichever version of the program erases or moves it.
type Summaries struct{ catalog *database }

// SessionSummary returns the summary of a session of the account; nil if there is none.
func (s Summaries) SessionSummary(account, session string) (*record.SessionSummary, error) {
	number, err := s.catalog.number(account)
	if err != nil {
		return nil, record.NoSession(session)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	_, written, err := s.catalog.readSession(ctx, number, session)
	return written, unreadable(err)
}

// readSession reads a session with its summary; written is nil if it has none.
func (c *database) readSession(ctx context.Context, number int64, id string) (session *record.Session, written *record.SessionSummary, err error) {
	var stored, summary []byte
	err = c.pool.QueryRow(ctx, `select s.record, m.record from sessions s left join summaries m on m.account = $1 and m.session = s.id
		where s.account = $1 and s.id = $2`, number, sessionID(id)).Scan(&stored, &summary)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil, record.NoSession(id)
	}
	if err != nil {
		return nil, nil, err
	}
	session, err = record.ReadSession(stored)
	if err == nil && summary != nil {
		written, err = record.ReadSummary(summary)
	}
	if err != nil { // the database is well, so a retry does not help
		damaged := codec.Errorf(codec.KindStorage, "session %s is damaged in the database", id)
		damaged.Cause = err
		return nil, nil, damaged
	}
	return session, written, nil
}

// sessionReader returns a function that reads sessions of an account with their turns.
func (c *database) sessionReader(ctx context.Context, number int64) search.SessionReader {
	return func(id string, newest int) (s search.StoredSession, err error) {
		if s.Session, s.Summary, err = c.readSession(ctx, number, id); err != nil {
			return s, err
		}
		s.Turns, err = c.entries(ctx, `x.id in (
			(select id from exchanges where account = $1 and session = $2 order by id desc limit $3)
			union (select id from exchanges where account = $1 and session = $2 order by id limit 1)) order by x.id`, number, id, newest)
		return s, err
	}
}

// Material returns the source for the summary of a session; nil if the session is gone, or nothing was said in it.
func (s Summaries) Material(account record.AccountNumber, session string) (*search.Material, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	material, err := s.catalog.sessionReader(ctx, int64(account)).Material(session)
	return material, unreadable(err)
}

// KeepSessionSummary stores a summary that was made from the named exchanges, and from the former summary unless that
// is nil. If one of them is gone in the meantime, or another process has claimed the account, it stores nothing and
// returns [codec.KindConflict]. Credentials in the text are masked, and it is truncated if too long.
func (s Summaries) KeepSessionSummary(ctx context.Context, account, session string, m record.SessionSummary, former *record.SessionSummary, exchanges []string) error {
	number, err := s.catalog.accounts.Number(account)
	if err != nil {
		return err
	}
	stored, err := m.Record(s.catalog.redactor(account))
	if err != nil {
		return err
	}
	masked, err := record.ReadSummary(stored)
	if err != nil {
		return err
	}
	err = s.catalog.update(ctx, func(tx pgx.Tx) error {
		if err := shareAccount(ctx, tx, number); err != nil { // the account is not deleted meanwhile
			return err
		}
		// An erasure and a move lock the session too: they have either deleted or moved exchanges, or delete what is
		// stored here.
		if err := tx.QueryRow(ctx, "select from sessions where account = $1 and id = $2 for update", int64(number), sessionID(session)).Scan(); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return record.NoSession(session)
			}
			return err
		}
		valid, err := s.stillThere(ctx, tx, number, session, former, exchanges)
		if err != nil {
			return err
		}
		if !valid {
			return codec.Errorf(codec.KindConflict, "what the summary of %s describes is gone, or another process has claimed the session", session)
		}
		_, err = tx.Exec(ctx, `insert into summaries (account, session, record, terms)
			values ($1, $2, $3, array_to_tsvector(string_to_array($4, $5)))
			on conflict (account, session) do update set record = excluded.record, terms = excluded.terms`,
			int64(number), session, stored, lexemes(number, search.SummaryTerms(masked)), lexemeEnd)
		return err
	})
	return unreadable(err)
}

// stillThere reports whether a session still has these exchanges, and this summary unless former is nil, and whether
// the account is still claimed by this process.
func (s Summaries) stillThere(ctx context.Context, tx pgx.Tx, account record.AccountNumber, session string, former *record.SessionSummary, exchanges []string) (bool, error) {
	var there int
	var claimed bool
	var present []byte
	err := tx.QueryRow(ctx, `select
		(select count(*) from exchanges where account = $1 and session = $2 and id = any($3)),
		exists (select from summarizing where account = $1 and claimant = $4),
		(select record from summaries where account = $1 and session = $2)`,
		int64(account), session, exchanges, s.catalog.process).Scan(&there, &claimed, &present)
	if err != nil || there < len(exchanges) || !claimed {
		return false, err
	}
	if former == nil {
		return true, nil
	}
	m, err := record.ReadSummary(present)
	return err == nil && m.Same(former), nil
}

// claimTime is how long an account stays claimed by a process that does not end its summary, since it has died, or
// since the model has failed: no other process asks it meanwhile. It is longer than a summary may take, which is 4
// minutes, and the clocks of processes are not compared.
const claimTime = 5 * time.Minute

// UnsummarizedSessions returns, for each account, the session that has been idle for longest, if it has been since a
// time. Accounts for which skip returns true are left out, and so are those that another process has claimed.
func (s Summaries) UnsummarizedSessions(ctx context.Context, since time.Time, skip func(record.AccountNumber) bool) (sessions []record.UnsummarizedSession, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := s.catalog.pool.Query(ctx, `
		with recursive first as (
			(select account, session, grew from unsummarized order by account, grew limit 1)
			union all
			select n.* from first, lateral (
				select account, session, grew from unsummarized where account > first.account order by account, grew limit 1) n
		)
		select account, session, grew from first where grew < $1 and not exists (
			select from summarizing c where c.account = first.account and c.claimant <> $2 and c.claimed > now() - $3::interval)`,
		since, s.catalog.process, claimTime)
	if err != nil {
		return nil, unreadable(err)
	}
	var account int64
	var u record.UnsummarizedSession
	_, err = pgx.ForEachRow(rows, []any{&account, &u.Session, &u.Grew}, func() error {
		if u.Account = record.AccountNumber(account); !skip(u.Account) {
			sessions = append(sessions, u)
		}
		return nil
	})
	return sessions, unreadable(err)
}

// ClaimSession claims the account of a session for this process, unless another one has claimed it.
func (s Summaries) ClaimSession(ctx context.Context, u record.UnsummarizedSession) (claimed bool, err error) {
	err = s.catalog.update(ctx, func(tx pgx.Tx) error {
		if err := shareAccount(ctx, tx, u.Account); err != nil { // the account is not deleted meanwhile
			return err
		}
		done, err := tx.Exec(ctx, `insert into summarizing as s (account, claimant, claimed) select $1, $3, clock_timestamp()
			where exists (select from unsummarized where account = $1 and session = $2)
			on conflict (account) do update set claimant = excluded.claimant, claimed = excluded.claimed
			where s.claimant is null or s.claimant = excluded.claimant or s.claimed < clock_timestamp() - $4::interval`,
			int64(u.Account), u.Session, s.catalog.process, claimTime)
		claimed = done.RowsAffected() > 0
		return err
	})
	return claimed && err == nil, unreadable(err)
}

// ConfirmSummarized removes the mark of a session, unless it has grown again, and ends the claim.
func (s Summaries) ConfirmSummarized(ctx context.Context, u record.UnsummarizedSession) error {
	batch := new(pgx.Batch)
	batch.Queue("delete from unsummarized where account = $1 and session = $2 and grew = $3", int64(u.Account), u.Session, u.Grew)
	batch.Queue("update summarizing set claimant = null where account = $1 and claimant = $2", int64(u.Account), s.catalog.process)
	return unreadable(s.catalog.pool.SendBatch(ctx, batch).Close())
}

// Release ends all claims of this process, which summarizes no more.
func (s Summaries) Release(ctx context.Context) error {
	_, err := s.catalog.pool.Exec(ctx, "update summarizing set claimant = null where claimant = $1", s.catalog.process)
	return unreadable(err)
}

// SummaryTokens returns how many tokens summaries of an account have used on the day of now, in UTC.
func (s Summaries) SummaryTokens(account record.AccountNumber, now time.Time) (tokens int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	err = s.catalog.pool.QueryRow(ctx, "select tokens from summarizing where account = $1 and day = $2", int64(account), dayOf(now)).Scan(&tokens)
	return tokens, unreadable(unlessMissing(err))
}

// AddSummaryTokens counts tokens that a summary of a claimed account has used on the day of now.
func (s Summaries) AddSummaryTokens(ctx context.Context, account record.AccountNumber, now time.Time, tokens int64) error {
	_, err := s.catalog.pool.Exec(ctx, `update summarizing set day = $2, tokens = $3 + case when day = $2 then tokens else 0 end
		where account = $1`, int64(account), dayOf(now), tokens)
	return unreadable(err)
}

func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// mostUnsummarized bounds what is counted of a backlog: the count reads as many entries of an index.
const mostUnsummarized = 100_000

// Waiting returns how many sessions have grown since they were summarized, at most 100,000. It includes those that are
// not idle yet, or whose account has used up its tokens of the day.
func (s Summaries) Waiting(ctx context.Context) (sessions int, err error) {
	err = s.catalog.pool.QueryRow(ctx, "select count(*) from (select from unsummarized limit $1) x", mostUnsummarized).Scan(&sessions)
	return sessions, unreadable(err)
}
