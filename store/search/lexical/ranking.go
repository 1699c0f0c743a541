package lexical

import (
	"container/heap"
	"sync"
)

// pageSize is how many neighbouring documents have their scores in one page.
const pageSize = 1024

type page [pageSize]float64

var pages = sync.Pool{New: func() any { return new(page) }}

// scores holds a score for each document that has one, in pages as documents come up.
type scores struct {
	pages   []*page
	touched []uint32
}

func (s *scores) add(number uint32, score float64) {
	i := int(number / pageSize)
	for i >= len(s.pages) {
		s.pages = append(s.pages, nil)
	}
	p := s.pages[i]
	if p == nil {
		p = pages.Get().(*page)
		s.pages[i] = p
	}
	slot := &p[number%pageSize]
	if *slot == 0 {
		s.touched = append(s.touched, number)
	}
	*slot += score
}

func (s *scores) of(number uint32) float64 {
	if i := int(number / pageSize); i < len(s.pages) && s.pages[i] != nil {
		return s.pages[i][number%pageSize]
	}
	return 0
}

func (s *scores) release() {
	for _, p := range s.pages {
		if p != nil {
			*p = page{}
			pages.Put(p)
		}
	}
	s.pages = nil
}

// Hit is a document that was found.
type Hit struct {
	Number uint32 // in the searcher
	Score  float64
}

// Ranking gives hits from the best to the worst, sorted as far as it is read. The caller closes it.
type Ranking struct {
	hits  hits
	all   scores
	among *Set
}

// Close gives back what the ranking holds.
func (r *Ranking) Close() { r.all.release() }

// Score is what a document is worth, whether it is a hit or not.
func (r *Ranking) Score(number uint32) float64 { return r.all.of(number) }

// Among is the documents that can be hits: those that are allowed and have what the query demands. nil is all.
func (r *Ranking) Among() *Set { return r.among }

// Len is how many hits are left.
func (r *Ranking) Len() int { return len(r.hits) }

// Next gives the best hit that is left.
func (r *Ranking) Next() (Hit, bool) {
	if len(r.hits) == 0 {
		return Hit{}, false
	}
	return heap.Pop(&r.hits).(Hit), true
}

type hits []Hit

func (h hits) Len() int { return len(h) }

func (h hits) Less(i, j int) bool {
	if h[i].Score != h[j].Score {
		return h[i].Score > h[j].Score
	}
	return h[i].Number > h[j].Number
}

func (h hits) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *hits) Push(x any) { *h = append(*h, x.(Hit)) }

func (h *hits) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Rank scores the documents that the query matches and that are in allowed; nil allows all.
func (s *Searcher) Rank(q *Query, allowed *Set) (*Ranking, error) {
	r := &Ranking{among: allowed}
	if err := q.score(s, &r.all); err != nil {
		r.Close()
		return nil, err
	}
	matching, err := q.matching(s)
	if err != nil {
		r.Close()
		return nil, err
	}
	switch {
	case matching == nil:
		r.hits = make(hits, 0, len(r.all.touched))
		for _, number := range r.all.touched {
			if allowed == nil || allowed.Contains(number) {
				r.hits = append(r.hits, Hit{number, r.all.of(number)})
			}
		}
	default:
		if allowed != nil {
			matching.And(allowed)
		}
		r.among = matching
		r.hits = make(hits, 0, matching.GetCardinality())
		for it := matching.Iterator(); it.HasNext(); {
			number := it.Next()
			r.hits = append(r.hits, Hit{number, r.all.of(number)})
		}
	}
	heap.Init(&r.hits)
	return r, nil
}
