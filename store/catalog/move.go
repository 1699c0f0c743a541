package catalog

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
)

// movedTogether is how many exchanges one statement moves.
const movedTogether = 500

// MergeSession moves all exchanges of a session into another one of the same account, in one transaction, and returns
// the latter. Everything that led to the first session then leads to the other one.
func (c *database) MergeSession(ctx context.Context, account, from, into string) (*record.Session, error) {
	err := c.changeSessions(ctx, account, []string{from, into}, func(m *moving) (err error) {
		m.from = from
		if m.into, err = m.in.Merge(from, into); err != nil {
			return err
		}
		if err := m.refuseErased(ctx); err != nil {
			return err
		}
		return m.run(ctx, "")
	})
	if err != nil {
		return nil, err
	}
	return c.Session(account, into)
}

// SplitSession moves an exchange of a session, or of the one that it was merged into, and all that began after it there,
// into a new session, in one transaction, and returns the new one. What led to the session still leads there; only the ids
// of moved responses lead to the new one.
func (c *database) SplitSession(ctx context.Context, account, session, exchange string) (*record.Session, error) {
	var target string
	err := c.changeSessions(ctx, account, []string{session}, func(m *moving) (err error) {
		if m.from, m.into, err = m.in.Split(session, time.Now()); err != nil {
			return err
		}
		if err := m.refuseErased(ctx); err != nil {
			return err
		}
		target = m.into
		var there, first bool
		err = m.tx.QueryRow(ctx, `select exists (select from exchanges where account = $1 and session = $2 and id = $3),
			not exists (select from exchanges where account = $1 and session = $2 and id < $3)`,
			int64(m.account), m.from, exchangeID(exchange)).Scan(&there, &first)
		if err == nil {
			err = conversation.CheckSplit(m.from, exchange, there, first)
		}
		if err != nil {
			return err
		}
		return m.run(ctx, exchange)
	})
	if err != nil {
		return nil, err
	}
	return c.Session(account, target)
}

// changeSessions locks the sessions with these ids, runs a change that moves exchanges between them, and stores the
// result.
func (c *database) changeSessions(ctx context.Context, account string, ids []string, change func(*moving) error) error {
	number, err := c.accounts.Number(account)
	if err != nil {
		return err
	}
	for i := range ids {
		ids[i] = sessionID(ids[i])
	}
	ctx, cancel := context.WithTimeout(ctx, moveTimeout)
	defer cancel()
	err = c.update(ctx, func(tx pgx.Tx) error {
		// Nothing can arrive meanwhile, since it might be added to the session that is left.
		if err := arriveAlone(ctx, tx, number); err != nil {
			return err
		}
		in, err := openSessions(ctx, tx, number, slices.Clone(ids), nil)
		if err != nil {
			return err
		}
		if err := change(&moving{tx: tx, account: number, in: in}); err != nil {
			return err
		}
		return putSessions(ctx, tx, number, in)
	})
	if err == nil {
		c.arrived.Notify()
	}
	return unreadable(err)
}

// moveTimeout limits a move.
const moveTimeout = 5 * time.Minute

// moving is a move of exchanges from one session to another.
type moving struct {
	tx         pgx.Tx
	account    record.AccountNumber
	in         *conversation.Sessions
	from, into string
}

// refuseErased returns an error if one of the sessions is being erased.
func (m *moving) refuseErased(ctx context.Context) error {
	id, err := erasing(ctx, m.tx, m.account, m.from, m.into)
	if err == nil && id != "" {
		err = conversation.ErasingSession(id)
	}
	return err
}

// erasing returns one of the sessions that an erasure which is not done names, since that is carried out on the sessions
// as they were; "": it names none. None of them may be named by a new one until the transaction ends: their rows are locked.
func erasing(ctx context.Context, tx pgx.Tx, account record.AccountNumber, sessions ...string) (id string, err error) {
	err = tx.QueryRow(ctx, `select coalesce(min(session), '') from unnest($2::text[]) session where exists (select from erasures
		where account = $1 and not done and receipt::jsonb #> '{selection,sessions}' ? session)`, int64(account), sessions).Scan(&id)
	return id, err
}

// run moves the exchanges of the session from first on; all for "". Their turns are digested again, since they depend
// on what the session said before.
func (m *moving) run(ctx context.Context, first string) error {
	for {
		infos, err := m.some(ctx, first)
		if err != nil || len(infos) == 0 {
			return err
		}
		if err := eraseTurns(ctx, m.tx, m.account, infos); err != nil {
			return err
		}
		for i := range infos {
			m.in.Move(m.from, m.into, &infos[i])
		}
	}
}

// some moves the next exchanges, and returns their records from before the move.
func (m *moving) some(ctx context.Context, first string) (infos []record.ExchangeInfo, err error) {
	rows, err := m.tx.Query(ctx, `
		update exchanges set session = $3, digested = not speaks, again = false where account = $1 and id in
			(select id from exchanges where account = $1 and session = $2 and id >= $4 order by id limit $5)
		returning id, record`, int64(m.account), m.from, m.into, first, movedTogether)
	if err != nil {
		return nil, err
	}
	var id string
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &stored}, func() error {
		infos = append(infos, listed(id, stored, &m.from))
		return nil
	})
	return infos, err
}
