package lexical

import "slices"

// Coverage gives, for each of some documents, the share of the query's words that it holds, each word weighed by how rare
// it is in the account: 1 for a document that holds all of them, 0 for one that holds none. Unlike scores, coverages can be
// compared between queries.
func (s *Searcher) Coverage(q *Query, numbers []uint32) ([]float64, error) {
	held, all := make([]float64, len(numbers)), 0.0
	seen := make(map[string]bool)
	weigh := func(term string, fields ...string) error {
		if seen[term] || len(seen) == maxQueryTerms {
			return nil
		}
		seen[term] = true
		holds, most := make([]bool, len(numbers)), uint64(0)
		for _, field := range fields {
			found, documents, err := s.find(field, termKey(s.account, term))
			if err != nil {
				return err
			}
			most = max(most, documents)
			for _, o := range found {
				has := holder(o.list)
				for i, number := range numbers {
					if p := o.part; number >= p.first && uint64(number-p.first) < p.segment.Count() {
						holds[i] = holds[i] || has(number-p.first)
					}
				}
			}
		}
		weight := s.idf(most)
		all += weight
		for i := range holds {
			if holds[i] {
				held[i] += weight
			}
		}
		return nil
	}
	var err error
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		for _, term := range append(slices.Clone(l.words), terms(identifiers([]byte(l.text)))...) {
			if err == nil {
				err = weigh(term, l.prefixFields()...)
			}
		}
	})
	if err != nil || all == 0 {
		return held, err
	}
	for i := range held {
		held[i] /= all
	}
	return held, nil
}
