package catalog

import (
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// highestOffset is how many hits a search can skip.
const highestOffset = 1000

// Search finds turns of the account. Postgres selects candidates, which are ranked as an index of only them would.
func (c *database) Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error) {
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
	number, err := c.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	find := candidates{c, number, wanted}
	ids, err := c.candidates(ctx, account, &find)
	if err != nil {
		return nil, unreadable(err)
	}
	named, err := find.sessions(ctx)
	if err != nil {
		return nil, unreadable(err)
	}
	entries, err := c.entries(ctx, "x.id = any($2)", int64(number), ids)
	if err != nil {
		return nil, unreadable(err)
	}
	var answer *search.Answer
	if wanted.Sessions {
		answer, err = wanted.RankSessions(ctx, entries, named, c.sessionReader(ctx, int64(number)))
	} else {
		answer, err = wanted.Rank(ctx, entries, func(id string) (*record.Session, error) { return c.Session(account, id) })
	}
	if err == nil && wanted.Facets {
		err = find.countFacets(ctx, answer)
	}
	if err == nil {
		answer.Index.Lag, err = c.lag(ctx, int64(number))
	}
	return answer, unreadable(err)
}

// candidates returns the ids of the turns to rank, and has vectors compared if the search wants any.
func (c *database) candidates(ctx context.Context, account string, find *candidates) ([]string, error) {
	if err := find.measure(ctx); err != nil {
		return nil, err
	}
	ids, err := find.words(ctx)
	if err == nil && find.wanted.Sessions {
		apart := candidates{find.catalog, find.account, find.wanted.Apart()}
		var more []string
		more, err = apart.words(ctx)
		ids = append(ids, more...)
	}
	if err != nil {
		return nil, err
	}
	return c.compare(ctx, account, find, ids)
}

func (c *database) lag(ctx context.Context, number int64) (lag uint64, err error) {
	err = c.pool.QueryRow(ctx, "select count(*) from (select from exchanges where account = $1 and not digested limit 10000) x", number).Scan(&lag)
	return lag, err
}

// Status returns how far the search of an account is.
func (c *database) Status(ctx context.Context, account string) (*search.Status, error) {
	number, err := c.number(account)
	if err != nil {
		return nil, err
	}
	s := new(search.Status)
	again, err := c.uncounted(ctx) // before the lag, to which it moves
	if err != nil {
		return nil, unreadable(err)
	}
	if s.Lag, err = c.lag(ctx, number); err != nil {
		return nil, unreadable(err)
	}
	s.Lag += again
	err = c.pool.QueryRow(ctx, "select count(*) from turns where account = $1 and terms is not null", number).Scan(&s.Documents)
	if err == nil {
		s.Vectors, err = Vectors{c}.status(ctx, number)
	}
	return s, unreadable(err)
}

// Lag returns how many exchanges of all accounts searches do not find yet.
func (c *database) Lag() (words, vectors uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	backlog, _ := c.backlog(ctx)
	unembedded, _ := Vectors{c}.Waiting(ctx)
	return uint64(backlog.Exchanges), uint64(unembedded)
}
