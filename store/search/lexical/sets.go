package lexical

import (
	"math"

	"github.com/RoaringBitmap/roaring/v2"
)

// Sets finds sets of the documents of a [Searcher], or of the groups of [Groups].
type Sets struct{ of holders }

// holders are documents or groups that hold terms.
type holders interface {
	all() (*Set, error)
	termSet(f field, term string) (*Set, error)
	termsFrom(f field, from, prefix string, limit int) ([]string, error)
}

// All returns all of them.
func (s *Sets) All() (*Set, error) { return s.of.all() }

// Facet returns those with a property.
func (s *Sets) Facet(name, value string) (*Set, error) {
	return s.of.termSet(fieldFacet, facetTerm(name, value))
}

// FacetRange returns those whose property is in [from, to], by bytes; "" leaves a side open.
func (s *Sets) FacetRange(name, from, to string) (*Set, error) {
	prefix := facetTerm(name, "")
	return s.facetTerms(facetTerm(name, from), prefix, func(term string) bool { return to == "" || term[len(prefix):] <= to })
}

// FacetPrefix returns those whose property has a prefix.
func (s *Sets) FacetPrefix(name, prefix string) (*Set, error) {
	first := facetTerm(name, prefix)
	return s.facetTerms(first, first, func(string) bool { return true })
}

// facetTerms joins the sets of the terms with prefix from first on, while more returns true.
func (s *Sets) facetTerms(first, prefix string, more func(term string) bool) (*Set, error) {
	set := roaring.New()
	terms, err := s.of.termsFrom(fieldFacet, first, prefix, math.MaxInt)
	if err != nil {
		return nil, err
	}
	for _, term := range terms {
		if !more(term) {
			break
		}
		one, err := s.of.termSet(fieldFacet, term)
		if err != nil {
			return nil, err
		}
		set.Or(one)
	}
	return set, nil
}

// Matching returns those that satisfy the query; nil if everything that holds one of its words does.
func (s *Sets) Matching(q *Query) (*Set, error) {
	if !q.Demands() {
		return nil, nil //nolint:nilnil // nil is a set of everything
	}
	return q.root.matching(s)
}

// holding returns those that hold all of the terms; none for no terms.
func (s *Sets) holding(f field, terms []string) (*Set, error) {
	all := roaring.New()
	for i, term := range terms {
		set, err := s.of.termSet(f, term)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			all = set
		} else {
			all.And(set)
		}
	}
	return all, nil
}

func (s *Sets) holdingPrefix(l *leaf) (*Set, error) {
	found := roaring.New()
	for _, field := range l.prefixFields() {
		keys, err := s.expand(field, l.prefix)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			set, err := s.of.termSet(field, key)
			if err != nil {
				return nil, err
			}
			found.Or(set)
		}
	}
	return found, nil
}

// expand returns the terms of a field with prefix, at most maxExpansion of them.
func (s *Sets) expand(f field, prefix string) ([]string, error) {
	return s.of.termsFrom(f, prefix, prefix, maxExpansion)
}
