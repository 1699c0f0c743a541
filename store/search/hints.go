package search

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// shownValues is how many values of a field a hint lists, the most frequent first.
const shownValues = 8

// Hints says, for a search without hits, which of its fields and values the account does not have, and names some
// that it has. The facets are those of [search.Answer], the most frequent values first.
func Hints(asked *Request, facets map[string][]lexical.FacetValue) (hints []string) {
	terms := slices.Clone(asked.Filter.And)
	if asked.Syntax != Plain {
		terms = append(terms, fieldTerms(asked.Query)...)
	}
	known := append([]string{lexical.InUser, lexical.InAssistant, lexical.InOutput, lexical.InName}, facetNames...)
	for _, term := range terms {
		values, isFacet := facets[term.Field]
		switch {
		case isFacet && !slices.ContainsFunc(values, func(v lexical.FacetValue) bool { return matchesTerm(&term, v.Value) }):
			hints = append(hints, valueHint(&term, values))
		case term.Op == "" && !slices.Contains(known, term.Field):
			hints = append(hints, fmt.Sprintf("%s: is not a field and was searched as a word; fields are %s:", term.Field, strings.Join(known, ":, ")))
		}
	}
	return hints
}

// fieldTerms returns the words of a query that have the form field:value, as filters without an operator. It skips
// excluded words, URLs and names with two colons.
func fieldTerms(query string) (terms []Filter) {
	for word := range strings.FieldsSeq(query) {
		name, value, found := strings.Cut(strings.TrimLeft(word, "+("), ":")
		value = strings.Trim(value, `")`)
		isName := name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == ""
		if found && isName && value != "" && !strings.HasPrefix(value, "//") && !strings.HasPrefix(value, ":") {
			terms = append(terms, Filter{Field: name, Value: value})
		}
	}
	return terms
}

func matchesTerm(term *Filter, value string) bool {
	wanted, isPrefix := strings.CutSuffix(term.Value, "*")
	if !isPrefix && term.Op != "prefix" {
		name, indexed := facetOf(term.Field, wanted)
		if wanted = indexed; name != term.Field {
			value = project.Last(value)
		}
	}
	if isPrefix || term.Op == "prefix" {
		return len(value) >= len(wanted) && strings.EqualFold(value[:len(wanted)], wanted)
	}
	return strings.EqualFold(value, wanted)
}

func valueHint(term *Filter, values []lexical.FacetValue) string {
	if len(values) == 0 {
		return fmt.Sprintf("no turn on record has a %s", term.Field)
	}
	var list []string
	for _, v := range values[:min(len(values), shownValues)] {
		list = append(list, term.Field+":"+oneLine(v.Value))
	}
	if len(values) > shownValues {
		list = append(list, "… (mneme search --facets)")
	}
	return fmt.Sprintf("no %s:%s among the most frequent: %s", term.Field, oneLine(term.Value), strings.Join(list, ", "))
}
