package catalog

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// countedTurns is the number of an account's newest turns whose facets are counted.
const countedTurns = 5000

// countFacets adds the values of the account's facets to an answer.
func (c *database) countFacets(ctx context.Context, account record.AccountNumber, answer *search.Answer) error {
	facets, most := search.Facets()
	answer.Facets = make(map[string][]lexical.FacetValue, len(facets))
	var names, prefixes []string
	for _, f := range facets {
		answer.Facets[f.Name] = []lexical.FacetValue{}
		names, prefixes = append(names, f.Name), append(prefixes, lexeme(account, f.Prefix))
	}
	rows, err := c.pool.Query(ctx, `
		with newest as (select terms from turns where account = $1 and terms is not null order by exchange desc limit $2),
		counted as (
			select f.name, substr(term, length(f.prefix) + 1) as value, count(*) as turns
			from newest, unnest(tsvector_to_array(terms)) term join unnest($3::text[], $4::text[]) f (name, prefix) on starts_with(term, f.prefix)
			group by 1, 2
		)
		select name, value, turns from (
			select *, row_number() over (partition by name order by turns desc, value collate "C") as place from counted where value <> ''
		) placed where place <= $5 order by name, place`, int64(account), countedTurns, names, prefixes, most)
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
	err = c.pool.QueryRow(ctx, "select exists (select from turns where account = $1 and terms is not null order by exchange desc offset $2 limit 1)",
		int64(account), countedTurns).Scan(&older)
	if older {
		answer.Degraded = append(answer.Degraded, fmt.Sprintf("facets: counted in the newest %d turns", countedTurns))
	}
	return err
}
