package lexical

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// section is the documents of one account, numbered from 0, in a segment or in memory.
type section interface {
	id(number uint32) []byte
	group(number uint32) uint64
	number(id string) (uint32, bool)                         // of the newest document with an id, which may be gone
	members(group uint64, into []uint32) []uint32            // in id order
	postings(f field, term string, into []posting) []posting // ascending, without lengths
	measure(f field, list []posting)                         // fills in the lengths
	lengths(number uint32) lengths
	terms(f field, from, prefix string, limit int) []string // in order, those with prefix from from on
}

// part is a section as a searcher sees it.
type part struct {
	section
	first uint32 // number of its first document in the searcher
	count uint32
	gone  *roaring.Bitmap // by number in the section; nil: none
}

func (p *part) isGone(number uint32) bool { return p.gone != nil && p.gone.Contains(number) }

// posting is a document that contains a term.
type posting struct {
	number    uint32
	frequency uint32
	length    uint32 // of the field, in terms
}

// find returns the documents that contain a term, ascending, without lengths. The list is valid until the next call.
func (s *Searcher) find(f field, term string) ([]posting, error) {
	return s.findIn(nil, f, term, false)
}

// findIn returns those of some documents that contain a term, with lengths if measured is set; nil means all.
func (s *Searcher) findIn(some marks, f field, term string, measured bool) ([]posting, error) {
	s.found = s.found[:0]
	for i := range s.parts {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		p, from := &s.parts[i], len(s.found)
		s.found = p.postings(f, term, s.found)
		kept := p.keep(s.found[from:], some)
		if measured {
			p.measure(f, kept)
		}
		if p.first != 0 {
			for i := range kept {
				kept[i].number += p.first
			}
		}
		s.found = s.found[:from+len(kept)]
	}
	return s.found, nil
}

// keep filters postings in place, to existing documents in some; nil means all.
func (p *part) keep(list []posting, some marks) []posting {
	if gone := goneFrom(p); gone.left != nil {
		kept := list[:0]
		for _, found := range list {
			if !gone.has(found.number) {
				kept = append(kept, found)
			}
		}
		list = kept
	}
	if some == nil {
		return list
	}
	kept := list[:0]
	for _, found := range list {
		if some.has(p.first + found.number) {
			kept = append(kept, found)
		}
	}
	return kept
}

// termSet returns the documents of a term.
func (s *Searcher) termSet(f field, term string) (*Set, error) {
	found, err := s.find(f, term)
	if err != nil {
		return nil, err
	}
	if count := len(found); count > 0 {
		if last := found[count-1].number; int(last/64) < count {
			set := make(marks, last/64+1)
			for i := range found {
				set.add(found[i].number)
			}
			return roaring.FromDense(set, false), nil
		}
	}
	set := roaring.New()
	for i := range found {
		set.Add(found[i].number)
	}
	return set, nil
}

// marks is a set of documents with a bit for each.
type marks []uint64

func (m marks) add(number uint32) { m[number/64] |= 1 << (number % 64) }

// with returns the set with a document added, growing it if necessary.
func (m marks) with(number uint32) marks {
	if i := int(number / 64); i >= len(m) {
		m = append(m, make(marks, i+1-len(m))...)
	}
	m.add(number)
	return m
}

func (m marks) has(number uint32) bool {
	i := number / 64
	return int(i) < len(m) && m[i]&(1<<(number%64)) != 0
}

// termsFrom returns the terms of a field with prefix, in order from from on.
func (s *Searcher) termsFrom(f field, from, prefix string, limit int) (terms []string, err error) {
	for i := range s.parts {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		terms = append(terms, s.parts[i].terms(f, from, prefix, limit)...)
	}
	slices.Sort(terms)
	terms = slices.Compact(terms)
	return terms[:min(limit, len(terms))], nil
}

// gone iterates over the removed documents of a part, in parallel with its postings.
type gone struct {
	left roaring.IntPeekable // nil: none
	next uint64
}

func goneFrom(p *part) gone {
	g := gone{next: ^uint64(0)}
	if p.gone != nil && !p.gone.IsEmpty() {
		g.left, g.next = p.gone.Iterator(), 0
	}
	return g
}

// has must be called with ascending numbers.
func (g *gone) has(number uint32) bool {
	return uint64(number) >= g.next && g.reaches(number)
}

func (g *gone) reaches(number uint32) bool {
	g.left.AdvanceIfNeeded(number)
	if !g.left.HasNext() {
		g.next = ^uint64(0)
		return false
	}
	g.next = uint64(g.left.PeekNext())
	return g.next == uint64(number)
}

// partOf returns the part with a document.
func (s *Searcher) partOf(number uint32) *part {
	i, found := slices.BinarySearchFunc(s.parts, number, func(p part, number uint32) int { return cmp.Compare(p.first, number) })
	if !found {
		i--
	}
	return &s.parts[i]
}

// neighbors returns the documents of the same group with the next lower and next higher id; a missing one is left out.
func (s *Searcher) neighbors(number uint32, into []uint32) []uint32 {
	own := s.partOf(number)
	group, id := own.group(number-own.first), own.id(number-own.first)
	if group == 0 {
		return into
	}
	var before, after struct {
		number uint32
		id     []byte // nil: nothing found yet
	}
	for i := range s.parts {
		p := &s.parts[i]
		s.members = p.members(group, s.members[:0])
		at, here := slices.BinarySearchFunc(s.members, id, func(number uint32, id []byte) int { return bytes.Compare(p.id(number), id) })
		for j := at - 1; j >= 0; j-- {
			if found := s.members[j]; !p.isGone(found) {
				if before.id == nil || bytes.Compare(p.id(found), before.id) > 0 {
					before.number, before.id = p.first+found, p.id(found)
				}
				break
			}
		}
		for here && at < len(s.members) && bytes.Equal(p.id(s.members[at]), id) { // a head also has replaced documents
			at++
		}
		for j := at; j < len(s.members); j++ {
			if found := s.members[j]; !p.isGone(found) {
				if after.id == nil || bytes.Compare(p.id(found), after.id) < 0 {
					after.number, after.id = p.first+found, p.id(found)
				}
				break
			}
		}
	}
	if before.id != nil {
		into = append(into, before.number)
	}
	if after.id != nil {
		into = append(into, after.number)
	}
	return into
}

// laterThan reports whether a document has the higher id.
func (s *Searcher) laterThan(number, than uint32) bool {
	return bytes.Compare(s.key(number), s.key(than)) > 0
}

// key returns the id of a document, valid as long as the searcher.
func (s *Searcher) key(number uint32) []byte {
	p := s.partOf(number)
	return p.id(number - p.first)
}

func (s *Searcher) lengths(number uint32) lengths {
	p := s.partOf(number)
	return p.lengths(number - p.first)
}

// Group returns the key of a document's group, see [GroupKey]; 0 means none.
func (s *Searcher) Group(number uint32) uint64 {
	p := s.partOf(number)
	return p.group(number - p.first)
}

// GroupKey returns the key of a group of an account; 0 for no group.
func GroupKey(account uint32, group string) uint64 {
	if group == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(binary.BigEndian.AppendUint32(nil, account))
	_, _ = h.Write([]byte(group))
	return max(h.Sum64(), 1)
}
