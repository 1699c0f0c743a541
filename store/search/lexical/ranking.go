package lexical

import (
	"cmp"
	"slices"
	"sync"
)

// pageSize is how many neighbouring documents have their scores in one page.
const pageSize = 1024

type page [pageSize]float64

var pages = sync.Pool{New: func() any { return new(page) }}

// scores holds a score for each document that has one, in pages as documents come up. 0 is none.
type scores struct{ pages []*page }

// pageOf gives the page that a document's score is in, beginning it where it is not there.
func (s *scores) pageOf(number uint32) *page {
	i := int(number / pageSize)
	for i >= len(s.pages) {
		s.pages = append(s.pages, nil)
	}
	if s.pages[i] == nil {
		s.pages[i] = pages.Get().(*page)
	}
	return s.pages[i]
}

func (s *scores) add(number uint32, score float64) { s.pageOf(number)[number%pageSize] += score }

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

// before tells the better hit; of two that are worth the same, that is the one with the higher number, until their ids are
// looked up.
func (h Hit) before(other Hit) bool {
	if h.Score != other.Score {
		return h.Score > other.Score
	}
	return h.Number > other.Number
}

// Ranking gives hits from the best to the worst, and of those that are worth the same the one with the higher id first,
// which came later. Numbers do not tell that: when segments are merged they are given anew, and who reads page by page
// would be given one hit twice and another never. The caller closes it.
type Ranking struct {
	searcher *Searcher
	all      scores
	among    *Set
	unscored bool  // hits are all of among, whatever they are worth
	best     []Hit // that were chosen and not given yet, the best first
	ordered  int   // how many of best are in their final order
	last     Hit   // that was chosen
	missed   bool  // others are worth as much as it and were not
	chosen   int   // how many hits were
	over     bool  // no more can be chosen
}

// Close gives back what the ranking holds.
func (r *Ranking) Close() { r.all.release() }

// Score is what a document is worth, whether it is a hit or not.
func (r *Ranking) Score(number uint32) float64 { return r.all.of(number) }

// Among is the documents that can be hits: those that are allowed and have what the query demands. nil is all.
func (r *Ranking) Among() *Set { return r.among }

// Next gives the best hit that is left; false if none is.
func (r *Ranking) Next() (Hit, bool, error) {
	if len(r.best) == 0 && !r.over {
		r.choose()
	}
	if len(r.best) == 0 {
		return Hit{}, false, nil
	}
	if r.ordered == 0 {
		if err := r.orderEquals(); err != nil {
			return Hit{}, false, err
		}
	}
	hit := r.best[0]
	r.best = r.best[1:]
	r.ordered--
	return hit, true, nil
}

// firstChoice is how many hits are chosen at first: what a page or the weighing with vectors needs. Each time that more
// are read, four times as many as so far are chosen, so that whoever reads all of them has them looked through a few times.
const firstChoice = 256

func (r *Ranking) choose() {
	top := choice{limit: max(firstChoice, 4*r.chosen), after: r.last, any: r.chosen == 0}
	r.offerTo(&top)
	r.over = len(top.hits) < top.limit
	r.missed = !r.over && top.missed == top.least
	if !r.over {
		r.last = top.hits[0]
	}
	slices.SortFunc(top.hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Number, a.Number))
	})
	r.best, r.chosen = top.hits, r.chosen+len(top.hits)
}

// orderEquals puts the hits that are worth as much as the best one in the order of their ids, at 1 to 2 µs each.
func (r *Ranking) orderEquals() error {
	if r.best[0].Score == r.best[len(r.best)-1].Score && r.missed {
		r.addEquals()
	}
	r.ordered = 1
	for r.ordered < len(r.best) && r.best[r.ordered].Score == r.best[0].Score {
		r.ordered++
	}
	if r.ordered == 1 {
		return nil
	}
	equals := r.best[:r.ordered]
	ids := make(map[uint32]string, len(equals))
	for _, h := range equals {
		id, err := r.searcher.ID(h.Number)
		if err != nil {
			return err
		}
		ids[h.Number] = id
	}
	slices.SortFunc(equals, func(a, b Hit) int { return cmp.Compare(ids[b.Number], ids[a.Number]) })
	return nil
}

// mostEqual bounds how many hits are added to those chosen because they are worth the same. Of more than these the order is
// that of their numbers.
const mostEqual = 2048

// addEquals adds the hits that are worth as much as the last one that was chosen.
func (r *Ranking) addEquals() {
	r.missed = false
	equals := choice{limit: mostEqual + 1, after: r.last, least: r.last.Score}
	r.offerTo(&equals)
	if len(equals.hits) <= mostEqual {
		r.best, r.chosen = append(r.best, equals.hits...), r.chosen+len(equals.hits)
		r.last.Number = 0 // none of them is left
	}
}

// offerTo offers every hit that can be worth enough.
func (r *Ranking) offerTo(top *choice) {
	if r.among == nil {
		r.all.offerTo(top)
		return
	}
	for it := r.among.Iterator(); it.HasNext(); {
		number := it.Next()
		if score := r.all.of(number); (score > 0 || r.unscored) && score >= top.least {
			top.offer(Hit{number, score})
		}
	}
}

func (s *scores) offerTo(top *choice) {
	for i, p := range s.pages {
		if p == nil {
			continue
		}
		for j, score := range p {
			if score > 0 && score >= top.least {
				top.offer(Hit{uint32(i*pageSize + j), score})
			}
		}
	}
}

// choice keeps the best hits that come after a certain one: a heap with the worst at its root.
type choice struct {
	limit  int
	after  Hit
	any    bool // there is no hit that they have to come after
	hits   []Hit
	least  float64 // what a hit needs, at least
	missed float64 // what the best one is worth for which there was no room
}

func (c *choice) offer(h Hit) {
	switch {
	case !c.any && !c.after.before(h):
		return
	case len(c.hits) < c.limit:
		c.hits = append(c.hits, h)
		c.up(len(c.hits) - 1)
	case h.before(c.hits[0]):
		c.missed = c.hits[0].Score // no better one was missed before
		c.hits[0] = h
		c.down()
	default:
		c.missed = max(c.missed, h.Score)
	}
	if len(c.hits) == c.limit {
		c.least = c.hits[0].Score
	}
}

func (c *choice) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if c.hits[i].before(c.hits[parent]) {
			return
		}
		c.hits[parent], c.hits[i] = c.hits[i], c.hits[parent]
		i = parent
	}
}

func (c *choice) down() {
	for i := 0; ; {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c.hits); child++ {
			if c.hits[worst].before(c.hits[child]) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		c.hits[i], c.hits[worst] = c.hits[worst], c.hits[i]
		i = worst
	}
}

// Rank scores the documents that the query matches and that are in allowed; nil allows all.
func (s *Searcher) Rank(q *Query, allowed *Set) (*Ranking, error) {
	matching, err := q.matching(s)
	if err != nil {
		return nil, err
	}
	r := &Ranking{searcher: s, among: allowed}
	if matching != nil {
		r.among, r.unscored = matching, true
		if allowed != nil {
			matching.And(allowed)
		}
	}
	if err := q.score(s, &r.all); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}
