package lexical

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Groups finds sets of the groups of a searcher's documents. A group holds what any of its documents holds. It belongs to one
// goroutine.
type Groups struct {
	Sets // of numbers of groups

	documents *Searcher
	named     *Searcher // see [Searcher.Grouped]
	account   uint32
	numbers   map[uint64]uint32 // of groups, by key
}

// Grouped returns the groups of an account's documents. Each document of named belongs to the group that its id names.
func (s *Searcher) Grouped(account uint32, named *Searcher) *Groups {
	g := &Groups{documents: s, named: named, account: account, numbers: make(map[uint64]uint32)}
	g.of = g
	return g
}

// Has reports whether a set contains a group. A nil set contains all.
func (g *Groups) Has(set *Set, key uint64) bool {
	if set == nil {
		return true
	}
	number, known := g.numbers[key]
	return known && set.Contains(number)
}

// groupSet collects groups.
type groupSet struct {
	of    *Groups
	last  uint64 // key; neighboring documents are often of one group
	found marks
}

func (s *groupSet) add(key uint64) {
	if key == s.last || key == 0 {
		return
	}
	number, known := s.of.numbers[key]
	if !known {
		number = uint32(len(s.of.numbers))
		s.of.numbers[key] = number
	}
	s.last, s.found = key, s.found.with(number)
}

func (g *Groups) all() (*Set, error) {
	documents, err := g.documents.All()
	if err != nil {
		return nil, err
	}
	set := groupSet{of: g}
	for it := documents.Iterator(); it.HasNext(); {
		set.add(g.documents.Group(it.Next()))
	}
	return roaring.FromDense(set.found, false), nil
}

func (g *Groups) termSet(f field, term string) (*Set, error) {
	set := groupSet{of: g}
	list, err := g.documents.find(f, term)
	if err != nil {
		return nil, err
	}
	for i := range list {
		set.add(g.documents.Group(list[i].number))
	}
	if list, err = g.named.find(f, term); err != nil {
		return nil, err
	}
	for i := range list {
		set.add(GroupKey(g.account, string(g.named.key(list[i].number))))
	}
	return roaring.FromDense(set.found, false), nil
}

func (g *Groups) termsFrom(f field, from, prefix string, limit int) ([]string, error) {
	terms, err := g.documents.termsFrom(f, from, prefix, limit)
	if err != nil {
		return nil, err
	}
	named, err := g.named.termsFrom(f, from, prefix, limit)
	if err != nil || len(named) == 0 {
		return terms, err
	}
	terms = append(terms, named...)
	slices.Sort(terms)
	terms = slices.Compact(terms)
	return terms[:min(limit, len(terms))], nil
}

// Coverage returns how much of the query a group holds, with the document of named that belongs to it, if there is one.
func (g *Groups) Coverage(q *Query, key uint64, named ...uint32) (Covered, error) {
	members := g.documents.membersOf(key)
	covered, err := g.documents.cover(q, 1, func(f field, term string, found []posting, _ int) (bool, error) {
		if holdAny(found, members) || len(named) == 0 {
			return holdAny(found, members), nil
		}
		found, err := g.named.find(f, term)
		return holdAny(found, named), err
	})
	return covered[0], err
}

// membersOf returns the documents of a group, ascending.
func (s *Searcher) membersOf(key uint64) (numbers []uint32) {
	for i := range s.parts {
		p := &s.parts[i]
		s.members = p.members(key, s.members[:0])
		for _, number := range s.members {
			if !p.isGone(number) {
				numbers = append(numbers, p.first+number)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

// holdAny reports whether any of some documents is among those of a term; both ascend.
func holdAny(found []posting, numbers []uint32) bool {
	for _, number := range numbers {
		at, there := slices.BinarySearchFunc(found, number, func(p posting, number uint32) int { return cmp.Compare(p.number, number) })
		if found = found[at:]; there || len(found) == 0 {
			return there
		}
	}
	return false
}

// ScoreWhole scores groups as if the documents of each were one: by how often they hold a term together, and by their length. Terms
// weigh as they do for documents, and prefixes nothing.
func (g *Groups) ScoreWhole(q *Query, keys []uint64) ([]float64, error) {
	s := g.documents
	places, sizes := make(map[uint64]int, len(keys)), make([]lengths, len(keys))
	var members marks
	for i, key := range keys {
		places[key] = i
		for _, number := range s.membersOf(key) {
			members = members.with(number)
			sizes[i].plus(s.lengths(number))
		}
	}
	scores, frequencies := make([]float64, len(keys)), make([]float64, len(keys))
	order, times, _ := q.scored()
	for _, t := range order {
		found, err := s.findIn(nil, t.field, t.text, false)
		if err != nil {
			return nil, err
		}
		idf := s.idf(s.weighed(t.field, t.text, len(found))) * float64(times[t])
		clear(frequencies)
		for _, p := range found {
			if members.has(p.number) {
				frequencies[places[s.Group(p.number)]] += float64(p.frequency)
			}
		}
		m, all := s.measureOf(t.field), 0.0
		for i := range sizes {
			all += float64(sizes[i].of(t.field))
		}
		m.averaged = max(all/float64(len(keys)), 1)
		for i, frequency := range frequencies {
			scores[i] += m.weight(idf, frequency, float64(sizes[i].of(t.field)))
		}
	}
	return scores, nil
}
