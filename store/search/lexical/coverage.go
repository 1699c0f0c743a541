package lexical

import (
	"cmp"
	"math"
	"slices"
)

// Covered is how much of a query a document holds.
type Covered struct {
	Share float64 // of the query's words, each weighed by how rare it is in the account: 0 to 1
	Words int     // words that it holds
	Names int     // identifiers that it holds
}

// Coverage gives for each of some documents how much of the query it holds. Unlike scores, coverages can be compared
// between queries.
func (s *Searcher) Coverage(q *Query, numbers []uint32) ([]Covered, error) {
	held, all := make([]Covered, len(numbers)), 0.0
	seen := make(map[string]bool)
	weigh := func(term string, isName bool, fields ...field) error {
		if seen[term] || len(seen) == maxQueryTerms {
			return nil
		}
		seen[term] = true
		holds, most := make([]bool, len(numbers)), uint64(0)
		for _, field := range fields {
			found, err := s.find(field, term)
			if err != nil {
				return err
			}
			most = max(most, uint64(len(found)))
			for i, number := range numbers {
				_, has := slices.BinarySearchFunc(found, number, func(p posting, number uint32) int { return cmp.Compare(p.number, number) })
				holds[i] = holds[i] || has
			}
		}
		weight := s.rarity(most)
		all += weight
		for i := range holds {
			if !holds[i] {
				continue
			}
			held[i].Share += weight
			if isName {
				held[i].Names++
			} else {
				held[i].Words++
			}
		}
		return nil
	}
	var err error
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		names := terms(identifiers([]byte(l.text)))
		for i, term := range append(slices.Clone(names), l.words...) {
			if err == nil {
				err = weigh(term, i < len(names), l.prefixFields()...)
			}
		}
	})
	if err != nil || all == 0 {
		return held, err
	}
	for i := range held {
		held[i].Share /= all
	}
	return held, nil
}

// leastDocuments is how many documents an account is taken to have. In a small one a word that nobody has said yet would
// weigh several times as much as a name that one turn holds.
const leastDocuments = 1000

// rarity is the weight of a term that is in so many documents, for shares of queries.
func (s *Searcher) rarity(documents uint64) float64 {
	n, df := float64(max(s.totals.Documents, leastDocuments)), float64(documents)
	return math.Log(1 + (n-min(df, n)+0.5)/(df+0.5))
}
