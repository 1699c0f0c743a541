package catalog

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// countedTurns is the number of the newest turns that a search finds whose facets are counted.
const countedTurns = 5000

// countFacets adds the facets of all turns that the words find to an answer.
func (c *candidates) countFacets(ctx context.Context, answer *search.Answer) error {
	facets, most := search.Facets()
	answer.Facets = make(map[string][]lexical.FacetValue, len(facets))
	var names, prefixes []string
	for _, f := range facets {
		answer.Facets[f.Name] = []lexical.FacetValue{}
		names, prefixes = append(names, f.Name), append(prefixes, lexeme(c.account, f.Prefix))
	}
	demanded, some := c.demanded()
	if !some {
		return nil
	}
	from := "from turns where" + within + " and ($5 = '' or terms @@ $5::tsquery) order by exchange desc"
	found := []any{int64(c.account), demanded, c.wanted.Since, c.wanted.Until, strings.Join(c.terms(), " | "), countedTurns}
	rows, err := c.catalog.pool.Query(ctx, `
		with newest as (select terms `+from+` limit $6),
		counted as (
			select f.name, substr(term, length(f.prefix) + 1) as value, count(*) as turns
			from newest, unnest(tsvector_to_array(terms)) term join unnest($7::text[], $8::text[]) f (name, prefix) on starts_with(term, f.prefix)
			group by 1, 2
		)
		select name, value, turns from (
			select *, row_number() over (partition by name order by turns desc, value collate "C") as place from counted where value <> ''
		) placed where place <= $9 order by name, place`, append(found, names, prefixes, most)...)
	if err != nil {
		return err
	}
	var name string
	var value lexical.FacetValue
	_, err = pgx.ForEachRow(rows, []any{&name, &value.Value, &value.Count}, func() error {
		answer.Facets[name] = append(answer.Facets[name], value)
		return nil
	})
	if err != nil {
		return err
	}
	var older bool
	err = c.catalog.pool.QueryRow(ctx, "select exists (select "+from+" offset $6 limit 1)", found...).Scan(&older)
	if older {
		answer.Degraded = append(answer.Degraded, fmt.Sprintf("facets: counted in the newest %d turns", countedTurns))
	}
	return err
}
