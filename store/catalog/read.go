package catalog

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange returns one exchange with its bytes; [codec.KindNotFound] if the account has none with that id. Account ""
// searches all accounts.
func (c *database) Exchange(account, id string) (*record.Exchange, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	numbers, err := c.numbers(account)
	if err != nil {
		return nil, err
	}
	return c.exchange(ctx, numbers, id)
}

func (c *database) exchange(ctx context.Context, numbers []int64, id string) (*record.Exchange, error) {
	var (
		x       arrivedExchange
		number  int64
		session *string
		stored  []byte
	)
	err := c.pool.QueryRow(ctx, "select account, session, record, refs from exchanges where account = any($1) and id = $2", numbers, exchangeID(id)).
		Scan(&number, &session, &stored, &x.refs)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, record.NoExchange(id)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	var whole *record.Exchange
	if x.info, err = infoOf(stored, session); err == nil {
		objects, failed := c.load(ctx, c.pool, record.AccountNumber(number), []*arrivedExchange{&x})
		if failed != nil {
			return nil, unreadable(failed)
		}
		whole, err = x.assemble(record.AccountNumber(number), objects)
	}
	if err != nil {
		c.Log.Error("an exchange cannot be read", "exchange", id, "error", err)
		return nil, codec.Errorf(codec.KindStorage, "exchange %s cannot be read; the log of the centre says why", id)
	}
	return whole, nil
}

// exchangeID returns an id, or an id that no exchange has if it is malformed: a query parameter must not contain a zero
// byte.
func exchangeID(id string) string {
	if _, ok := kv.ParseExchangeID(id); !ok {
		return ""
	}
	return id
}

func sessionID(id string) string {
	if _, ok := kv.ParseSessionID(id); !ok {
		return ""
	}
	return id
}

func infoOf(stored []byte, session *string) (*record.ExchangeInfo, error) {
	info, err := record.ReadInfo(stored)
	if err == nil && session != nil {
		info.Session = *session
	}
	return info, err
}

// ExchangeInfo returns the record of one exchange; otherwise it is like [Catalog.Exchange].
func (c *database) ExchangeInfo(account, id string) (*record.ExchangeInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	numbers, err := c.numbers(account)
	if err != nil {
		return nil, err
	}
	var session *string
	var stored []byte
	err = c.pool.QueryRow(ctx, "select session, record from exchanges where account = any($1) and id = $2", numbers, exchangeID(id)).Scan(&session, &stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, record.NoExchange(id)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	info, err := infoOf(stored, session)
	return info, unreadable(err)
}

// AnsweredAs returns the exchange whose answer has that id of the provider, on the surface whose requests refer to
// previous answers; [codec.KindNotFound] if the account has none.
func (c *database) AnsweredAs(account, response string) (exchange string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	number, err := c.number(account)
	if err != nil {
		return "", err
	}
	err = c.pool.QueryRow(ctx, "select id from exchanges where account = $1 and answered = $2 order by id desc limit 1",
		number, conversation.AnswerKeyOf(response)).Scan(&exchange)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", codec.Errorf(codec.KindNotFound, "no answer with that id")
	}
	return exchange, unreadable(err)
}

// order is how a page is read: which rows, and in which direction.
type order struct {
	kv.Window
	prefix string
}

// arguments appends the parameters of a page's query: both bounds of the ids, and a limit of one row more than wanted,
// which shows whether there are more.
func (o *order) arguments(before ...any) []any {
	low, high := o.Bounds(o.prefix)
	return append(before, low, high, o.Limit+1)
}

// direction returns the direction of "order by".
func (o *order) direction() string {
	if o.Backwards {
		return "desc"
	}
	return "asc"
}

// cut returns the page of the rows that were read, in the requested order.
func cut[T any](o *order, rows []T) (page []T, more bool) {
	if more = len(rows) > o.Limit; more {
		rows = rows[:o.Limit]
	}
	if o.Reverse {
		slices.Reverse(rows)
	}
	return rows, more
}

func newOrder(after, before string, limit int, ascending bool, prefix string) (o order, err error) {
	o.prefix = prefix
	o.Window, err = kv.NewWindow(after, before, limit, ascending, prefix)
	return o, err
}

// Exchanges lists exchanges by time. Account "" lists those of all accounts.
func (c *database) Exchanges(account string, q record.ExchangeQuery) (page record.ExchangePage, err error) {
	o, err := newOrder(q.After, q.Before, q.Limit, q.Ascending, kv.ExchangePrefix)
	if err != nil {
		return page, err
	}
	numbers, err := c.numbers(account)
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	rows, err := c.pool.Query(ctx, `select id, session, record from exchanges
		where account = any($1) and ($2 = '' or id > $2) and ($3 = '' or id < $3) order by id `+o.direction()+` limit $4`, o.arguments(numbers)...)
	if err != nil {
		return page, unreadable(err)
	}
	infos := []record.ExchangeInfo{}
	var id string
	var session *string
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &session, &stored}, func() error {
		infos = append(infos, listed(id, stored, session))
		return nil
	})
	page.Data, page.HasMore = cut(&o, infos)
	return page, unreadable(err)
}

// listed returns an exchange for a list, even if its record is damaged.
func listed(id string, stored []byte, session *string) record.ExchangeInfo {
	info, err := infoOf(stored, session)
	if err != nil {
		return record.ExchangeInfo{ID: id, Outcome: record.OutcomeDamaged, Error: &record.ErrorInfo{Kind: codec.KindStorage.String(), Message: err.Error()}}
	}
	return *info
}

// sessionsRead is how many sessions are read at a time to find those that pass a filter.
const sessionsRead = 500

// Sessions lists the sessions of an account, except those that were merged into another.
func (c *database) Sessions(account string, q record.SessionQuery) (page record.SessionPage, err error) {
	number, err := c.number(account)
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	for _, cursor := range [...]*string{&q.After, &q.Before} {
		err := c.pool.QueryRow(ctx, "select place from sessions where account = $1 and id = $2", number, sessionID(*cursor)).Scan(cursor)
		if err := unlessMissing(err); err != nil {
			return page, unreadable(err)
		}
	}
	o, err := newOrder(q.After, q.Before, q.Limit, q.Ascending, kv.SessionPrefix)
	if err != nil {
		return page, err
	}
	low, high := o.Bounds(kv.SessionPrefix)
	found := []record.Session{}
	for whole := false; !whole && len(found) <= o.Limit; {
		rows, err := c.pool.Query(ctx, `select id, place, record from sessions
			where account = $1 and ($2 = '' or place > $2) and ($3 = '' or place < $3) order by place `+o.direction()+` limit $4`, number, low, high, sessionsRead)
		if err != nil {
			return page, unreadable(err)
		}
		read := 0
		var id, place string
		var stored []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &place, &stored}, func() error {
			read++
			if o.Backwards {
				high = place
			} else {
				low = place
			}
			s, err := record.ReadSession(stored)
			if err != nil {
				s = &record.Session{ID: id, Account: account, Error: &record.ErrorInfo{Kind: codec.KindStorage.String(), Message: err.Error()}}
			}
			if q.Matches(s) {
				found = append(found, *s)
			}
			return nil
		})
		if err != nil {
			return page, unreadable(err)
		}
		whole = read < sessionsRead
	}
	page.Data, page.HasMore = cut(&o, found)
	return page, nil
}

// Session returns one session of the account; [codec.KindNotFound] if it has none with that id. Merged names the
// session that it was merged into.
func (c *database) Session(account, id string) (*record.Session, error) {
	number, err := c.number(account)
	if err != nil {
		return nil, record.NoSession(id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	var stored []byte
	err = c.pool.QueryRow(ctx, "select record from sessions where account = $1 and id = $2", number, sessionID(id)).Scan(&stored)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, record.NoSession(id)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	s, err := record.ReadSession(stored)
	return s, unreadable(err)
}

// mergedInto returns a function for [record.Selection.Follow]. A session that cannot be read counts as not merged.
func (c *database) mergedInto(account string) func(session string) string {
	return func(session string) string {
		s, err := c.Session(account, session)
		if err != nil {
			return ""
		}
		return s.Merged
	}
}

// withExchanges returns the session that has the exchanges of a session: itself, or the one that it was merged into.
func (c *database) withExchanges(account, session string) (*record.Session, error) {
	return record.FollowMerges(session, func(id string) (*record.Session, error) { return c.Session(account, id) })
}

// DescribeSession sets the description that people give a session.
func (c *database) DescribeSession(account, id string, d record.Description) (described *record.Session, err error) {
	number, err := c.accounts.Number(account)
	if err != nil {
		return nil, record.NoSession(id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	err = c.update(ctx, func(tx pgx.Tx) error {
		in, err := openSessions(ctx, tx, number, []string{sessionID(id)}, nil)
		if err != nil {
			return err
		}
		if described, err = in.Describe(id, d, c.redactor(account)); err != nil {
			return err
		}
		return putSessions(ctx, tx, number, in)
	})
	return described, unreadable(err)
}

// DescribeExchange sets the description that people give an exchange.
func (c *database) DescribeExchange(account, id string, d record.Description) (described *record.ExchangeInfo, err error) {
	number, err := c.number(account)
	if err != nil {
		return nil, record.NoExchange(id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	err = c.update(ctx, func(tx pgx.Tx) error {
		var session *string
		var stored []byte
		err := tx.QueryRow(ctx, "select session, record from exchanges where account = $1 and id = $2 for update", number, exchangeID(id)).Scan(&session, &stored)
		if errors.Is(err, pgx.ErrNoRows) {
			return record.NoExchange(id)
		}
		if err == nil {
			described, err = infoOf(stored, nil)
		}
		if err == nil {
			stored, err = described.Describe(d, c.redactor(account))
		}
		if err != nil {
			return err
		}
		if session != nil {
			described.Session = *session
		}
		_, err = tx.Exec(ctx, "update exchanges set record = $3 where account = $1 and id = $2", number, id, stored)
		return err
	})
	return described, unreadable(err)
}

// Timeline lists the exchanges of a session, or of the one that it was merged into, each with what it added.
func (c *database) Timeline(account, session string, q record.TimelineQuery) (page record.TimelinePage, err error) {
	s, err := c.withExchanges(account, session)
	if err != nil {
		return page, err
	}
	o, err := newOrder(q.After, q.Before, q.Limit, !q.Descending, kv.ExchangePrefix)
	if err != nil {
		return page, err
	}
	number, err := c.number(account)
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	entries, err := c.entries(ctx, `x.session = $2 and ($3 = '' or x.id > $3) and ($4 = '' or x.id < $4) order by x.id `+o.direction()+` limit $5`,
		o.arguments(number, s.ID)...)
	page.Data, page.HasMore = cut(&o, entries)
	return page, unreadable(err)
}

// entries reads exchanges of the account in $1, with their turns.
func (c *database) entries(ctx context.Context, where string, arguments ...any) (entries []record.TimelineEntry, err error) {
	rows, err := c.pool.Query(ctx, `select x.id, x.session, x.record, t.record from exchanges x
		left join turns t on t.account = $1 and t.exchange = x.id where x.account = $1 and `+where, arguments...)
	if err != nil {
		return nil, err
	}
	entries = []record.TimelineEntry{}
	var id string
	var session *string
	var stored, turn []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &session, &stored, &turn}, func() error {
		e := record.TimelineEntry{Exchange: listed(id, stored, session)}
		if turn != nil {
			if e.Turn, _, err = record.ReadTurn(turn); err != nil {
				e.Turn = &record.Turn{Exchange: id, Error: "the turn cannot be read"}
			}
		}
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// Turn returns an exchange with what it added to its session.
func (c *database) Turn(account, exchange string) (record.TimelineEntry, error) {
	number, err := c.number(account)
	if err != nil {
		return record.TimelineEntry{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	entries, err := c.entries(ctx, "x.id = $2", number, exchangeID(exchange))
	if err == nil && len(entries) == 0 {
		err = record.NoExchange(exchange)
	}
	if err != nil {
		return record.TimelineEntry{}, unreadable(err)
	}
	return entries[0], nil
}

// Usage returns the size of an account's memory.
func (c *database) Usage(ctx context.Context, account string) (u record.Usage, err error) {
	number, err := c.number(account)
	if err != nil {
		return u, err
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	err = c.pool.QueryRow(ctx, `select
		(select count(*) from sessions where account = $1), (select coalesce(sum(length(record)), 0) from sessions where account = $1),
		(select coalesce(sum(coalesce(size, length(value))), 0) from objects where account = $1),
		(select coalesce(sum(length(record)), 0) from turns where account = $1),
		count(*), coalesce(sum(request_bytes), 0), coalesce(sum(response_bytes), 0), coalesce(sum(coalesce(size, length(body))), 0), coalesce(sum(length(record)), 0)
		from exchanges where account = $1`, number).
		Scan(&u.Sessions, &u.StoredSessions, &u.StoredBlocks, &u.StoredTurns, &u.Exchanges, &u.RequestBytes, &u.ResponseBytes, &u.StoredResponses, &u.StoredRecords)
	return u, unreadable(err)
}

// Export yields the selected exchanges of an account, oldest first, each session before its first exchange. A session that
// was merged into another one stands for that one.
func (c *database) Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error] {
	return func(yield func(record.Exported, error) bool) {
		number, err := c.number(account)
		if err == nil {
			err = sel.Check()
		}
		sel := sel.Follow(c.mergedInto(account))
		given := make(map[string]bool)
		for after := (place{id: sel.After}); err == nil; {
			var infos []record.ExchangeInfo
			infos, after, err = c.selected(ctx, number, &sel, after)
			for i := range infos {
				if !c.export(ctx, number, &sel, &infos[i], given, yield) {
					return
				}
			}
			if after == (place{}) {
				break
			}
		}
		if err != nil {
			yield(record.Exported{}, unreadable(err))
		}
	}
}

func (c *database) export(ctx context.Context, number int64, sel *record.Selection, info *record.ExchangeInfo, given map[string]bool, yield func(record.Exported, error) bool) bool {
	unlessDamaged := func(id string, e record.Exported, err error) bool {
		if err != nil {
			e = record.Exported{Damaged: &record.Damaged{ID: id, Error: err.Error()}}
		}
		return yield(e, nil)
	}
	if info.Session != "" && !given[info.Session] {
		given[info.Session] = true
		e, err := c.exportSession(ctx, number, sel, info.Session)
		if !unlessDamaged(info.Session, e, err) {
			return false
		}
	}
	x, err := c.exchange(ctx, []int64{number}, info.ID)
	if codec.AsError(err, "").Kind == codec.KindNotFound && err != nil {
		return true // erased meanwhile
	}
	return unlessDamaged(info.ID, record.Exported{Exchange: x}, err)
}

// exportSession reads a session, with its summary if every exchange of the session is selected.
func (c *database) exportSession(ctx context.Context, number int64, sel *record.Selection, id string) (e record.Exported, err error) {
	e.Session, e.Summary, err = c.readSession(ctx, number, id)
	if err != nil || e.Summary == nil {
		return e, unreadable(err)
	}
	rows, err := c.pool.Query(ctx, "select id, session, record from exchanges where account = $1 and session = $2", number, id)
	if err != nil {
		return e, unreadable(err)
	}
	anyOfIt := len(sel.Exchanges)+len(sel.Sessions) == 0 || slices.Contains(sel.Sessions, id)
	var exchange string
	var session *string
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&exchange, &session, &stored}, func() error {
		info := listed(exchange, stored, session)
		if !anyOfIt && !slices.Contains(sel.Exchanges, exchange) || info.Outcome == record.OutcomeDamaged || !sel.Matches(&info) {
			e.Summary = nil
		}
		return nil
	})
	return e, unreadable(err)
}

// selectedRead is how many exchanges are read at a time.
const selectedRead = 500

// place is an exchange in the order of a selection; the zero place is before the first one.
type place struct {
	id   string
	kept time.Time // of a selection by age
}

// Statements for the next exchanges of a selection after a place, each of which reads these alone.
const (
	selectNamed = `select x.id, x.session, x.record, x.kept from (
			select id from unnest($3::text[]) id where id > $2
			union select x.id from unnest($4::text[]) named, lateral (
				select id from exchanges where account = $1 and session = named and id > $2 order by id limit $5) x
		) chosen cross join lateral (select id, session, record, kept from exchanges where account = $1 and id = chosen.id offset 0) x
		order by x.id limit $5`
	selectAged  = "select id, session, record, kept from exchanges where account = $1 and kept < $4 and (kept, id) > ($3, $2) order by kept, id limit $5"
	selectBegun = "select id, session, record, kept from exchanges where account = $1 and id > $2 and id >= $3 and ($4 = '' or id < $4) order by id limit $5"
)

// selected returns the selected exchanges among the next ones after a place. The next place is the zero one at the end.
func (c *database) selected(ctx context.Context, number int64, sel *record.Selection, after place) (infos []record.ExchangeInfo, next place, err error) {
	var rows pgx.Rows
	switch {
	case len(sel.Exchanges)+len(sel.Sessions) > 0:
		rows, err = c.pool.Query(ctx, selectNamed, number, after.id, append([]string{}, sel.Exchanges...), append([]string{}, sel.Sessions...), selectedRead)
	case sel.ByAge && !sel.Until.IsZero():
		rows, err = c.pool.Query(ctx, selectAged, number, after.id, after.kept, sel.Until, selectedRead)
	default:
		since, until := "", ""
		if !sel.Since.IsZero() {
			since = record.FirstExchangeID(sel.Since.Add(-idSlack))
		}
		if !sel.Until.IsZero() && !sel.ByAge {
			until = record.FirstExchangeID(sel.Until.Add(idSlack))
		}
		rows, err = c.pool.Query(ctx, selectBegun, number, after.id, since, until, selectedRead)
	}
	if err != nil {
		return nil, place{}, err
	}
	read := 0
	var session *string
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&next.id, &session, &stored, &next.kept}, func() error {
		read++
		info := listed(next.id, stored, session)
		if sel.Matches(&info) {
			infos = append(infos, info)
		}
		return nil
	})
	if read < selectedRead {
		next = place{}
	}
	return infos, next, err
}
