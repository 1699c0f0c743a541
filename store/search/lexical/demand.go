package lexical

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Demand is how much of a query a document must contain to be a hit.
type Demand struct {
	Share  float64            // of the query, at least; see [Covered]
	Name   bool               // at least one identifier
	Enough func(Covered) bool // and this must return true
}

// RankDemanding scores the documents in allowed that satisfy the demand for a plain query; nil allows all. It is Rank
// for few hits among many documents: documents that contain none of the rarest words, and so cannot contain enough, are
// never scored.
func (s *Searcher) RankDemanding(q *Query, allowed *Set, d Demand) (*Ranking, error) {
	terms := q.coverTerms()
	documents := make(map[fieldTerm]uint64) // that hold it
	total := 0.0
	for i := range terms {
		t, most := &terms[i], uint64(0)
		for _, field := range t.fields {
			found, err := s.find(field, t.text)
			if err != nil {
				return nil, err
			}
			frequency := s.weighed(field, t.text, len(found))
			documents[fieldTerm{field, t.text}] = frequency
			most = max(most, frequency)
		}
		t.weight = s.rarity(most)
		total += t.weight
	}
	among, err := s.holdingRarest(terms, total, d)
	if err != nil {
		return nil, err
	}
	found := newLooked(among, allowed)
	if len(found.numbers) == 0 {
		return found.ranking(s, q, total, d), nil
	}
	order, times, _ := q.scored()
	for i := range terms {
		for _, field := range terms[i].fields {
			t := fieldTerm{field, terms[i].text}
			held, err := s.findIn(found.marks, field, t.text, times[t] > 0)
			if err != nil {
				return nil, err
			}
			found.cover(held, &terms[i])
			found.score(held, s.measureOf(field), s.idf(documents[t])*float64(times[t]))
			times[t] = 0
		}
	}
	for _, t := range order { // words of the person, and names of only a few words
		if times[t] == 0 {
			continue
		}
		all, err := s.find(t.field, t.text)
		if err != nil {
			return nil, err
		}
		idf := s.idf(s.weighed(t.field, t.text, len(all))) * float64(times[t])
		held, err := s.findIn(found.marks, t.field, t.text, true)
		if err != nil {
			return nil, err
		}
		found.score(held, s.measureOf(t.field), idf)
	}
	return found.ranking(s, q, total, d), nil
}

// holdingRarest returns the documents that contain one of the rarest terms: as many of these terms as it takes for all
// others not to be enough together. If a name is demanded, it returns those that contain one.
func (s *Searcher) holdingRarest(terms []coverTerm, total float64, d Demand) (marks, error) {
	rarest := slices.Clone(terms)
	slices.SortStableFunc(rarest, func(a, b coverTerm) int { return cmp.Compare(b.weight, a.weight) })
	var among marks
	left := total
	for i := range rarest {
		t := &rarest[i]
		switch {
		case d.Name && !t.name:
			continue
		case !d.Name && left < d.Share*total:
			return among, nil
		}
		for _, field := range t.fields {
			found, err := s.find(field, t.text)
			if err != nil {
				return nil, err
			}
			for _, p := range found {
				among = among.with(p.number)
			}
		}
		left -= t.weight
	}
	return among, nil
}

// looked is the documents examined, with what they contain and their scores.
type looked struct {
	marks   marks // not nil
	numbers []uint32
	covered []Covered
	term    []*coverTerm // the last one added to each
	worth   []float64
	closest float64 // the best share of the query
}

// newLooked examines the allowed documents of among; nil allows all.
func newLooked(among marks, allowed *Set) *looked {
	l := &looked{marks: make(marks, len(among))}
	for i, word := range among {
		for ; word != 0; word &= word - 1 {
			number := uint32(64*i + bits.TrailingZeros64(word))
			if allowed == nil || allowed.Contains(number) {
				l.marks.add(number)
				l.numbers = append(l.numbers, number)
			}
		}
	}
	l.covered, l.term, l.worth = make([]Covered, len(l.numbers)), make([]*coverTerm, len(l.numbers)), make([]float64, len(l.numbers))
	return l
}

// each visits the places of postings, all of which are examined.
func (l *looked) each(held []posting, visit func(place int, p posting)) {
	place := 0
	for _, p := range held {
		for l.numbers[place] < p.number {
			place++
		}
		visit(place, p)
	}
}

// cover notes that documents contain a term, in one of its fields.
func (l *looked) cover(held []posting, t *coverTerm) {
	l.each(held, func(place int, _ posting) {
		if l.term[place] != t {
			l.term[place] = t
			l.covered[place].add(t)
		}
	})
}

// score adds a term's score to the documents that contain it.
func (l *looked) score(held []posting, m measure, idf float64) {
	if idf == 0 {
		return
	}
	l.each(held, func(place int, p posting) {
		l.worth[place] += m.weight(idf, float64(p.frequency), float64(p.length))
	})
}

// ranking returns the ranking of the documents that contain enough.
func (l *looked) ranking(s *Searcher, q *Query, total float64, d Demand) *Ranking {
	r := &Ranking{searcher: s, question: q.question, looked: l}
	enough := make(marks, len(l.marks))
	for i, number := range l.numbers {
		c := &l.covered[i]
		c.Share /= total
		l.closest = max(l.closest, c.Share)
		if c.Share >= d.Share && d.Enough(*c) {
			enough.add(number)
			r.all.add(number, l.worth[i])
		}
	}
	r.among = roaring.FromDense(enough, false)
	return r
}
