package catalog

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Limits on the candidates of a search. They are, for each term, the newest rareTurns turns that hold it, of which the
// best rareMost are ranked; the bestTurns best among the newest bestLooked turns that hold any term; and without terms,
// the newest listedTurns turns.
const (
	rareTurns     = 100
	rareMost      = 300
	bestTurns     = 200
	bestLooked    = 5000
	listedTurns   = 1100 // without ranking: a page at highestOffset
	highestOffset = 1000
)

// Search finds turns of the account. Postgres selects candidates, which are ranked as an index of only them would.
func (c *Catalog) Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error) {
	wanted, err := search.Want(r)
	if err != nil {
		return nil, err
	}
	if wanted.Sessions && r.Offset+r.Limit > search.MostSessions {
		return nil, codec.Errorf(codec.KindUnsupported, "This memory returns only the first %d sessions of a search: narrow it by words, filters or times.", search.MostSessions)
	}
	if r.Offset > highestOffset {
		return nil, codec.Errorf(codec.KindUnsupported, "This memory returns only the first %d hits of a search: narrow it by words, filters or times.", highestOffset)
	}
	number, err := c.Accounts.Number(account)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	ids, err := c.candidates(ctx, number, wanted)
	if err == nil && wanted.Sessions {
		var apart []string
		apart, err = c.candidates(ctx, number, wanted.Apart())
		ids = append(ids, apart...)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	entries, err := c.entries(ctx, "x.id = any($2)", int64(number), ids)
	if err != nil {
		return nil, unreadable(err)
	}
	var answer *search.Answer
	if wanted.Sessions {
		answer, err = wanted.RankSessions(ctx, entries, c.sessionReader(ctx, account, int64(number)))
	} else {
		answer, err = wanted.Rank(ctx, entries, func(id string) (*store.Session, error) { return c.Session(account, id) })
	}
	if err == nil && wanted.Facets {
		err = c.countFacets(ctx, number, answer)
	}
	if err == nil {
		answer.Index.Lag, err = c.lag(ctx, int64(number))
	}
	return answer, unreadable(err)
}

// sessionReader returns a function that reads what the ranking of sessions needs.
func (c *Catalog) sessionReader(ctx context.Context, account string, number int64) search.SessionReader {
	return func(id string, newest int) (*store.Session, []store.TimelineEntry, error) {
		session, err := c.Session(account, id)
		if err != nil {
			return nil, nil, err
		}
		entries, err := c.entries(ctx, `x.id in (
			(select id from exchanges where account = $1 and session = $2 order by id desc limit $3)
			union (select id from exchanges where account = $1 and session = $2 order by id limit 1)) order by x.id`, number, id, newest)
		return session, entries, err
	}
}

// candidates returns the exchanges whose turns are worth ranking.
func (c *Catalog) candidates(ctx context.Context, account store.AccountNumber, w *search.Wanted) (ids []string, err error) {
	demanded := ""
	if w.Demanded != nil {
		if demanded = tsquery(account, w.Demanded); demanded == "" {
			return nil, nil // no turn satisfies it
		}
	}
	bounds := []any{int64(account), demanded, w.Since, w.Until}
	const within = ` account = $1 and terms is not null and ($2 = '' or terms @@ $2::tsquery) and ($3::timestamptz <= '0002-01-01' or began >= $3)
		and ($4::timestamptz <= '0002-01-01' or began < $4)`
	if len(w.Scored) == 0 {
		return c.ids(ctx, "select exchange from turns where"+within+" order by exchange desc limit $5", append(bounds, listedTurns)...)
	}
	var terms []string
	for i := range w.Scored {
		terms = append(terms, tsquery(account, &w.Scored[i]))
	}
	return c.ids(ctx, `
		(select exchange from (
			select distinct on (t.exchange) t.exchange, t.terms from unnest($5::text[]) as term,
				lateral (select exchange, terms from turns where`+within+` and terms @@ term::tsquery limit $7) t
		) rare order by ts_rank(terms, $6::tsquery) desc, exchange desc limit $8)
		union
		(select exchange from (
			select exchange, terms from turns where`+within+` and terms @@ $6::tsquery order by exchange desc limit $9
		) newest order by ts_rank(terms, $6::tsquery) desc, exchange desc limit $10)`,
		append(bounds, terms, strings.Join(terms, " | "), rareTurns, rareMost, bestLooked, bestTurns)...)
}

func (c *Catalog) ids(ctx context.Context, sql string, arguments ...any) ([]string, error) {
	rows, err := c.pool.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// tsquery formats a condition as a tsquery; "" if nothing satisfies it.
func tsquery(account store.AccountNumber, c *lexical.Condition) string {
	switch {
	case c.Term != "":
		return quoteLexeme(lexeme(account, c.Term))
	case c.Prefix != "":
		return quoteLexeme(lexeme(account, c.Prefix)) + ":*"
	case c.Not != nil:
		if not := tsquery(account, c.Not); not != "" {
			return "!" + not
		}
		return ""
	}
	parts, sign := c.All, " & "
	if len(parts) == 0 {
		parts, sign = c.Any, " | "
	}
	var written []string
	for i := range parts {
		one := tsquery(account, &parts[i])
		switch {
		case one != "":
			written = append(written, one)
		case sign == " & " && parts[i].Not == nil: // the negation of an unsatisfiable condition is always true, and can be omitted
			return ""
		}
	}
	if len(written) == 0 {
		return ""
	}
	return "(" + strings.Join(written, sign) + ")"
}

func quoteLexeme(lexeme string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(lexeme) + "'"
}

func (c *Catalog) redactor(account string) *redact.Redactor {
	if c.Redactor == nil {
		return nil
	}
	return c.Redactor(account)
}

func (c *Catalog) lag(ctx context.Context, number int64) (lag uint64, err error) {
	err = c.pool.QueryRow(ctx, "select count(*) from (select from exchanges where account = $1 and not digested limit 10000) x", number).Scan(&lag)
	return lag, err
}

// Status returns how far the search of an account is.
func (c *Catalog) Status(ctx context.Context, account string) (*search.Status, error) {
	number, err := c.number(account)
	if err != nil {
		return nil, err
	}
	s := new(search.Status)
	if s.Lag, err = c.lag(ctx, number); err != nil {
		return nil, unreadable(err)
	}
	err = c.pool.QueryRow(ctx, "select count(*) from turns where account = $1 and terms is not null", number).Scan(&s.Documents)
	return s, unreadable(err)
}

// Lag returns how many exchanges of all accounts searches do not find yet.
func (c *Catalog) Lag() (words, vectors uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	_ = c.pool.QueryRow(ctx, "select count(*) from (select from exchanges where not digested limit 10000) x").Scan(&words)
	return words, 0
}
