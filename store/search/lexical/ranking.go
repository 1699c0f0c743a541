package lexical

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// pageSize is how many neighboring documents share a page of scores.
const pageSize = 1024

type page [pageSize]float64

var pages = sync.Pool{New: func() any { return new(page) }}

// scores holds the non-zero scores of documents, in pages that are created on demand.
type scores struct{ pages []*page }

// pageOf returns the page of a document's score, creating it if necessary.
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

// atLeast raises a score to at least so much.
func (s *scores) atLeast(number uint32, score float64) {
	p := s.pageOf(number)
	p[number%pageSize] = max(p[number%pageSize], score)
}

// plus adds other scores.
func (s *scores) plus(o *scores) {
	for i, p := range o.pages {
		if p == nil {
			continue
		}
		into := s.pageOf(uint32(i * pageSize))
		for j, score := range p {
			into[j] += score
		}
	}
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

// Hit is a found document.
type Hit struct {
	Number uint32 // in the searcher
	Score  float64
	Own    float64 // the document's own part of Score; the rest comes from its neighbors and its time
}

// HoldsWord reports whether the document itself contains a word of the query. Otherwise it is a hit because of its
// neighbors.
func (h Hit) HoldsWord() bool { return h.Own > 0 }

// Ranking returns hits from the best to the worst. Of equal hits the one with the higher id, the later one, comes
// first. Numbers cannot decide that: merging renumbers documents, and a reader of pages would get one hit twice and
// miss another. The caller closes it.
type Ranking struct {
	searcher *Searcher
	all      scores
	among    *Set
	unscored bool               // hits are all of among, whatever their scores
	question bool               // not a short lookup
	favored  *Set               // of a time named in the query; nil: none
	looked   *looked            // nil: nothing was demanded
	together map[uint64]float64 // what groups contribute to their hits, see seeSessions
	best     []Hit
	last     Hit  // the worst that was chosen
	chosen   int  // how many hits were
	over     bool // no more can be chosen
}

// Close frees the ranking's memory.
func (r *Ranking) Close() { r.all.release() }

// Score returns the score of a document itself, whether it is a hit or not.
func (r *Ranking) Score(number uint32) float64 { return r.all.of(number) }

// Among returns the documents that can be hits: those that are allowed and satisfy the query's requirements. nil means
// all.
func (r *Ranking) Among() *Set { return r.among }

// Demands reports whether the query has requirements or wants everything, so that hits need no score.
func (r *Ranking) Demands() bool { return r.unscored }

// Covered returns how much of the query each of some hits contains; false if there was no demand.
func (r *Ranking) Covered(numbers []uint32) (covered []Covered, known bool) {
	if r.looked == nil {
		return nil, false
	}
	for _, number := range numbers {
		place, _ := slices.BinarySearch(r.looked.numbers, number)
		covered = append(covered, r.looked.covered[place])
	}
	return covered, true
}

// Closest returns the best share of the query in any document of a demanding ranking, even if it was not enough; 0 if
// none contains any of its rare words.
func (r *Ranking) Closest() float64 { return r.looked.closest }

// Favor raises the scores of documents in a set: those of a time named in the query. Call it before the first Next.
func (r *Ranking) Favor(set *Set) { r.favored = set }

// Next returns the best remaining hit; false if there is none.
func (r *Ranking) Next() (Hit, bool) {
	if len(r.best) == 0 && !r.over {
		r.choose()
	}
	if len(r.best) == 0 {
		return Hit{}, false
	}
	hit := r.best[0]
	r.best = r.best[1:]
	return hit, true
}

// before reports whether hit a comes before hit b.
func (r *Ranking) before(a, b Hit) bool {
	if a.Score != b.Score {
		return a.Score > b.Score
	}
	return r.searcher.laterThan(a.Number, b.Number)
}

func (r *Ranking) sort(hits []Hit) {
	slices.SortFunc(hits, func(a, b Hit) int {
		if a.Number == b.Number {
			return 0
		}
		if r.before(a, b) {
			return -1
		}
		return 1
	})
}

// firstChoice is how many hits are chosen at first: enough for a page or for weighing with vectors. Each further choice
// is four times as large, so that reading all hits scans them only a few times.
const firstChoice = 256

// A turn is often the answer to the previous turn, and searches use words of both: the best hits count for more if
// their neighbors contain words of the query, too. The shares were chosen on one half of the dialogues of the
// evaluation and confirmed on the other.
const (
	neighborShare = 0.2
	favoredShare  = 0.4
)

func (r *Ranking) choose() {
	top := choice{ranking: r, limit: max(firstChoice, 4*r.chosen), after: r.last, any: r.chosen == 0}
	r.offerTo(&top)
	r.over = len(top.hits) < top.limit
	r.sort(top.hits)
	if len(top.hits) > 0 {
		r.last = top.hits[len(top.hits)-1]
	}
	r.best = top.hits
	if r.chosen == 0 {
		r.best = r.seeAround(r.best)
		if r.question {
			r.best = r.seeSessions(r.best)
		}
	}
	r.chosen += len(top.hits)
}

// How many of the best hits have their neighbors examined, and how many hits of a question bring in neighbors without
// any of its words: the answer to a turn that asks the same.
const (
	seenAround = 128
	expanded   = 64
)

// seeAround adds the contributions of neighbors and time to the best hits. No score decreases, so all other hits stay
// after them.
func (r *Ranking) seeAround(hits []Hit) []Hit {
	var around [2]uint32
	var wordless map[uint32]int // their indexes in hits
	for i, many := 0, len(hits); i < many; i++ {
		h := &hits[i]
		if h.Own == 0 {
			break
		}
		own := h.Own
		neighbors := around[:0]
		if i < seenAround {
			neighbors = r.searcher.neighbors(h.Number, neighbors)
		}
		for _, n := range neighbors {
			if worth := r.all.of(n); worth > 0 {
				hits[i].Score += neighborShare * worth
				continue
			}
			if !r.question || r.unscored || i >= expanded || r.among != nil && !r.among.Contains(n) {
				continue
			}
			at, known := wordless[n]
			if !known {
				if wordless == nil {
					wordless = make(map[uint32]int)
				}
				at = len(hits)
				wordless[n] = at
				hits = append(hits, Hit{Number: n})
			}
			hits[at].Score += neighborShare * own
		}
		if r.favored != nil && r.favored.Contains(hits[i].Number) {
			hits[i].Score += favoredShare * own
		}
	}
	r.sort(hits)
	return hits
}

// How much a hit of a question gets from its group: what belongs together is often said in several turns of a session, none of which holds
// all words. The shares were chosen on dialogues, chats and passages of the evaluation together; more of the group's score gains on
// dialogues, and costs where sessions go from one matter to another.
const (
	groupBestShare   = 0.9  // of the score of the group's best document
	groupRestShare   = 0.14 // of the sum of the others, divided by the root of how many of them were found
	mostGroupMembers = 4096 // documents of the groups that are read, those of the best hits; the last group may have more
)

// seeSessions adds what the groups of the best hits contribute.
func (r *Ranking) seeSessions(hits []Hit) []Hit {
	r.together = make(map[uint64]float64)
	members := 0
	for i := range hits {
		key := r.searcher.Group(hits[i].Number)
		worth, known := r.together[key]
		if !known && key != 0 && members <= mostGroupMembers {
			all := r.searcher.membersOf(key)
			members += len(all)
			worth = r.worthTogether(all)
			r.together[key] = worth
		}
		hits[i].Score += worth
	}
	r.sort(hits)
	return hits
}

// worthTogether returns what a group contributes to each of its hits.
func (r *Ranking) worthTogether(members []uint32) float64 {
	sum, best, held := 0.0, 0.0, 0
	for _, number := range members {
		if score := r.all.of(number); score > 0 {
			sum += score
			best = max(best, score)
			held++
		}
	}
	return groupBestShare*best + groupRestShare*(sum-best)/math.Sqrt(float64(max(held, 1)))
}

// Worth returns what a document scores as a hit, with its neighbors and its group, whether it is one or not. Call it after the first
// Next.
func (r *Ranking) Worth(number uint32) float64 {
	worth := r.all.of(number) + r.together[r.searcher.Group(number)]
	var around [2]uint32
	for _, n := range r.searcher.neighbors(number, around[:0]) {
		worth += neighborShare * r.all.of(n)
	}
	return worth
}

// Group is the found documents of one group.
type Group struct {
	Key   uint64 // see [GroupKey]
	Best  Hit
	Score float64

	rest float64 // score of the others
	many int
}

// restShare is what the other documents of a group add to the score of the best one.
const restShare = 0.05

// Groups returns the groups of all hits, the best first. A group's score is that of its best document plus a share of
// all others.
func (r *Ranking) Groups() ([]Group, error) {
	known := make(map[uint64]int)
	var groups []Group
	err := r.each(func(h Hit) error {
		if r.favored != nil && r.favored.Contains(h.Number) {
			h.Score += favoredShare * h.Own
		}
		key := r.searcher.Group(h.Number)
		if key == 0 {
			return nil
		}
		i, there := known[key]
		if !there {
			known[key] = len(groups)
			groups = append(groups, Group{Key: key, Best: h, many: 1})
			return nil
		}
		g := &groups[i]
		if g.many++; r.before(h, g.Best) {
			h, g.Best = g.Best, h
		}
		g.rest += h.Score
		return nil
	})
	for i := range groups {
		g := &groups[i]
		g.Score = g.Best.Score + restShare*g.rest/math.Sqrt(float64(g.many))
	}
	slices.SortFunc(groups, func(a, b Group) int {
		if a.Score != b.Score {
			return cmp.Compare(b.Score, a.Score)
		}
		if r.searcher.laterThan(a.Best.Number, b.Best.Number) {
			return -1
		}
		return 1
	})
	return groups, err
}

// hits reports whether a document is a hit.
func (r *Ranking) hits(number uint32) bool {
	return (r.unscored || r.all.of(number) > 0) && (r.among == nil || r.among.Contains(number))
}

// each visits every hit.
func (r *Ranking) each(visit func(Hit) error) error {
	if r.among != nil {
		for it := r.among.Iterator(); it.HasNext(); {
			number := it.Next()
			if score := r.all.of(number); score > 0 || r.unscored {
				if err := visit(Hit{number, score, score}); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i, p := range r.all.pages {
		if p == nil {
			continue
		}
		for j, score := range p {
			if score > 0 {
				if err := visit(Hit{uint32(i*pageSize + j), score, score}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// offerTo offers every hit whose score may be high enough.
func (r *Ranking) offerTo(top *choice) {
	if r.among == nil {
		r.all.offerTo(top)
		return
	}
	for it := r.among.ReverseIterator(); it.HasNext(); { // the newest first, since they keep most others out
		number := it.Next()
		if score := r.all.of(number); (score > 0 || r.unscored) && score >= top.least {
			top.offer(Hit{number, score, score})
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
				number := uint32(i*pageSize + j)
				top.offer(Hit{number, score, score})
			}
		}
	}
}

// choice keeps the best hits after a given one: a heap with the worst at its root.
type choice struct {
	ranking *Ranking
	limit   int
	after   Hit
	any     bool // no hit precedes them
	hits    []Hit
	least   float64 // the score that a hit needs
}

func (c *choice) offer(h Hit) {
	switch {
	case !c.any && !c.ranking.before(c.after, h):
		return
	case len(c.hits) < c.limit:
		c.hits = append(c.hits, h)
		c.up(len(c.hits) - 1)
	case c.ranking.before(h, c.hits[0]):
		c.hits[0] = h
		c.down()
	}
	if len(c.hits) == c.limit {
		c.least = c.hits[0].Score
	}
}

func (c *choice) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if c.ranking.before(c.hits[i], c.hits[parent]) {
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
			if c.ranking.before(c.hits[worst], c.hits[child]) {
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

// Rank scores the documents that match the query and are in allowed; nil allows all.
func (s *Searcher) Rank(q *Query, allowed *Set) (*Ranking, error) {
	matching, err := s.Matching(q)
	if err != nil {
		return nil, err
	}
	r := &Ranking{searcher: s, among: allowed, question: q.question}
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

// Score scores the documents that contain a word of the query, ignoring its other conditions.
func (s *Searcher) Score(q *Query) (*Ranking, error) {
	r := &Ranking{searcher: s}
	if err := q.score(s, &r.all); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Newest ranks the documents in allowed by their ids, highest first; nil means all.
func (s *Searcher) Newest(allowed *Set) (_ *Ranking, err error) {
	if allowed == nil {
		if allowed, err = s.All(); err != nil {
			return nil, err
		}
	}
	return &Ranking{searcher: s, among: allowed, unscored: true}, nil
}
