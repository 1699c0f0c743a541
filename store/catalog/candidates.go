package catalog

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// candidates selects the turns of an account that a search ranks. Of the turns with its rarest terms, or with several of its common
// ones, these are the heaviestTurns by the weights of the terms that they contain, and the turns before and after the best of them.
type candidates struct {
	catalog *database
	account record.AccountNumber
	wanted  *search.Wanted
}

// Limits on candidates. Higher ones find no more with miracl-yo of the evaluation: 49,043 passages in a language without stop words.
const (
	enoughTurns        = 2000   // weighed, approximately
	enoughInOtherWords = 1000   // weighed besides, approximately, because they hold synonyms
	newestWeighed      = 5000   // of turns found by filters or common terms alone
	mostWeighed        = 20_000 // of other turns, in case terms occur together more often than by chance
	heaviestTurns      = 400
	besideTurns        = 128  // whose neighbors are candidates too
	listedTurns        = 1100 // of a search without terms: a page at highestOffset
)

// Limits for a search that demands a share of its query. A request waits for it (recall.deadline).
const (
	enoughDemanding = 200  // weighed, approximately
	mostDemanding   = 1000 // the newest of those with a name, or with common terms alone
	demandedTurns   = 32   // recall asks for a dozen hits
)

// How many turns are counted to weigh terms. If more contain a term, their number is extrapolated from the pages with the counted ones.
const (
	countedHolders = 1000
	countedDemands = 300     // of a search that demands a share of its query
	mostTurns      = 100_000 // of an account without statistics
)

// measure sets the corpus of what is wanted: it estimates how many turns of the account contain each term.
func (c *candidates) measure(ctx context.Context) error {
	w := c.wanted
	terms, counted := c.terms(), countedHolders
	if w.Demand != nil {
		counted = countedDemands
	}
	lexemes := make([]string, 0, len(terms)+len(w.Synonyms))
	for i := range w.Scored {
		lexemes = append(lexemes, lexeme(c.account, w.Scored[i].Term))
	}
	for i := range w.Synonyms {
		terms, lexemes = append(terms, tsquery(c.account, &w.Synonyms[i].Holds)), append(lexemes, lexeme(c.account, w.Synonyms[i].Holds.Term))
	}
	known, err := c.catalog.statisticsOf(ctx, c.account)
	if err != nil {
		return err
	}
	frequencies, err := c.frequencies(ctx, known, lexemes, terms, counted)
	if err != nil {
		return err
	}
	w.Corpus = lexical.Corpus{Documents: known.turns, Frequencies: make(map[string]uint64, len(terms))}
	for i := range w.Scored {
		w.Corpus.Frequencies[w.Scored[i].Key()] = frequencies[i]
	}
	for i := range w.Synonyms {
		w.Corpus.Frequencies[w.Synonyms[i].Holds.Key()] = frequencies[len(w.Scored)+i]
	}
	if known.turns > 0 {
		return nil
	}
	return c.catalog.pool.QueryRow(ctx, "select count(*) from (select from exchanges where account = $1 limit $2) x", int64(c.account), mostTurns).
		Scan(&w.Corpus.Documents)
}

// within is the condition that turns satisfy the demanded condition $2, and began within the bounds.
const within = ` account = $1 and terms is not null and ($2 = '' or terms @@ $2::tsquery) and ($3::timestamptz <= '0002-01-01' or began >= $3)
	and ($4::timestamptz <= '0002-01-01' or began < $4)`

// words returns the ids of turns by their words; without scored conditions, of the newest ones. It is called after measure.
func (c *candidates) words(ctx context.Context) (ids []string, err error) {
	w := c.wanted
	demanded, some := c.demanded()
	if !some {
		return nil, nil
	}
	bounds := []any{int64(c.account), demanded, w.Since, w.Until}
	if len(w.Scored) == 0 {
		return c.ids(ctx, "select exchange from turns where"+within+" order by exchange desc limit $5", append(bounds, listedTurns)...)
	}
	if w.Demand != nil {
		return c.demanding(ctx, bounds)
	}
	terms, weights := c.terms(), make([]float64, len(w.Scored))
	for i := range w.Scored {
		weights[i] = w.Corpus.Weight(&w.Scored[i])
	}
	synonyms := w.Corpus.Worth(w.Synonyms)
	for i := range synonyms {
		terms, weights = append(terms, tsquery(c.account, &synonyms[i].Holds)), append(weights, synonyms[i].Weight)
	}
	holding, most := "select exchange, terms from turns where"+within+" and terms @@ $5::tsquery", mostWeighed
	query := ""
	if demanded == "" && w.Since.IsZero() && w.Until.IsZero() {
		query = c.telling(c.heldTerms(nil), enoughTurns)
		if others := c.telling(c.heldTerms(synonyms), enoughInOtherWords); query != "" && len(synonyms) > 0 && others != "" {
			query += " | " + others
		}
	}
	if query == "" {
		query, most = strings.Join(terms, " | "), newestWeighed
		holding += " order by exchange desc"
	}
	// Concatenation makes a tsvector in memory, which is not read again for each term. Words weigh more in a short turn: the divisor is
	// that of BM25 for a term that occurs once, without its constants.
	return c.ids(ctx, `
		with heaviest as (
			select exchange, row_number() over (order by weight / (2.33 + length / mean) desc, exchange desc) as place from (
				select exchange, length(terms) + 1 as length, avg(length(terms) + 1) over () as mean,
					(select sum(weight) from unnest($7::tsquery[], $8::float8[]) as term (query, weight) where terms @@ query) as weight
				from (select exchange, terms || '' as terms from (`+holding+` limit $6) held offset 0) held
			) weighed order by place limit $9
		)
		select exchange from heaviest
		union
		select beside.id from heaviest h join exchanges x on x.account = $1 and x.id = h.exchange, lateral (
			(select id from exchanges where account = $1 and session = x.session and id < x.id order by id desc limit 1) union all
			(select id from exchanges where account = $1 and session = x.session and id > x.id order by id limit 1)) beside
		where h.place <= $10`,
		append(bounds, query, most, terms, weights, heaviestTurns, besideTurns)...)
}

// demanded returns the demanded condition as a query, "" for none. some is false if no turn satisfies it.
func (c *candidates) demanded() (query string, some bool) {
	if c.wanted.Demanded == nil {
		return "", true
	}
	query = tsquery(c.account, c.wanted.Demanded)
	return query, query != ""
}

// terms returns the scored conditions as queries.
func (c *candidates) terms() []string {
	terms := make([]string, len(c.wanted.Scored))
	for i := range terms {
		terms[i] = tsquery(c.account, &c.wanted.Scored[i])
	}
	return terms
}

// combined is how many of the rarest terms are searched in combinations.
const combined = 6

// demanding returns the candidates of a search that demands a share of its query: those that hold most of it, by the weights of its parts.
func (c *candidates) demanding(ctx context.Context, bounds []any) ([]string, error) {
	var parts, names []string
	var weights []float64
	for _, part := range c.wanted.Parts() {
		query := tsquery(c.account, &part.Holds)
		parts, weights = append(parts, query), append(weights, part.Weight)
		if part.Name {
			names = append(names, query)
		}
	}
	query := strings.Join(names, " | ")
	if !c.wanted.Demand.Name {
		query = cmp.Or(c.telling(c.heldTerms(nil), enoughDemanding), strings.Join(parts, " | "))
	}
	if query == "" {
		return nil, nil
	}
	return c.ids(ctx, `
		select exchange from (
			select exchange, (select sum(weight) from unnest($7::tsquery[], $8::float8[]) as part (query, weight) where terms @@ query) as weight
			from (select exchange, terms || '' as terms from (
				select exchange, terms from turns where`+within+` and terms @@ $5::tsquery order by exchange desc limit $6) held offset 0) held
		) weighed order by weight desc, exchange desc limit $9`,
		append(bounds, query, mostDemanding, parts, weights, demandedTurns)...)
}

// together are terms that turns hold together.
type together struct {
	terms  uint // bits, by places among the rarest terms
	weight float64
	turns  float64 // that hold all of them, were they independent
}

// heldTerm is a scored term, perhaps with its synonyms, that turns hold.
type heldTerm struct {
	query  string
	weight float64
	turns  float64 // that hold it
}

// heldTerms returns the scored terms that any turn holds, each with those of some synonyms that stand for it, the rarest first.
func (c *candidates) heldTerms(synonyms []lexical.Synonym) (terms []heldTerm) {
	w := c.wanted
	for i := range w.Scored {
		condition := &w.Scored[i]
		t := heldTerm{tsquery(c.account, condition), w.Corpus.Weight(condition), float64(w.Corpus.Frequencies[condition.Key()])}
		for j := range synonyms {
			if synonyms[j].Word == condition.Key() {
				t.query += " | " + tsquery(c.account, &synonyms[j].Holds)
				t.turns += float64(w.Corpus.Frequencies[synonyms[j].Holds.Key()])
			}
		}
		if t.turns > 0 {
			t.query = "(" + t.query + ")"
			terms = append(terms, t)
		}
	}
	slices.SortStableFunc(terms, func(a, b heldTerm) int { return cmp.Compare(b.weight, a.weight) })
	return terms[:min(len(terms), combined)]
}

// combinations returns one to three of the terms together, in every way, those with the highest weight first. The account has so
// many turns.
func combinations(terms []heldTerm, documents uint64) (ways []together) {
	for chosen := range uint(1) << len(terms) {
		if many := bits.OnesCount(chosen); many == 0 || many > 3 {
			continue
		}
		way := together{terms: chosen, turns: float64(documents)}
		for i := range terms {
			if chosen&(1<<i) != 0 {
				way.weight += terms[i].weight
				way.turns *= terms[i].turns / float64(max(documents, 1))
			}
		}
		ways = append(ways, way)
	}
	slices.SortStableFunc(ways, func(a, b together) int { return cmp.Compare(b.weight, a.weight) })
	return ways
}

// telling returns a query for about enough turns that hold the terms which say most: a rare one, or two or three that are less
// so; "" if all are common.
func (c *candidates) telling(rarest []heldTerm, enough float64) string {
	var taken []together
	held := 0.0
	for _, way := range combinations(rarest, c.wanted.Corpus.Documents) {
		if held >= enough {
			break
		}
		if way.turns > newestWeighed {
			continue
		}
		taken = slices.DeleteFunc(taken, func(t together) bool { // of turns that way finds as well
			if t.terms&way.terms != way.terms {
				return false
			}
			held -= t.turns
			return true
		})
		taken = append(taken, way)
		held += way.turns
	}
	var alternatives []string
	for _, way := range taken {
		var terms []string
		for i := range rarest {
			if way.terms&(1<<i) != 0 {
				terms = append(terms, rarest[i].query)
			}
		}
		alternatives = append(alternatives, "("+strings.Join(terms, " & ")+")")
	}
	return strings.Join(alternatives, " | ")
}

func (c *candidates) ids(ctx context.Context, sql string, arguments ...any) ([]string, error) {
	rows, err := c.catalog.pool.Query(ctx, sql, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
