package lexical

import (
	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// part is a segment of a shard as a searcher sees it. A segment never changes; what was taken out of it since it was
// written is in gone.
type part struct {
	segment      segment.Segment
	id           uint64          // in the shard, as long as that is open
	first        uint32          // number of the first document
	gone         *roaring.Bitmap // by the number in the segment; nil: nothing
	dictionaries map[string]segment.TermDictionary
	columns      *columns // nil: not asked for yet
}

func (p *part) isGone(number uint32) bool { return p.gone != nil && p.gone.Contains(number) }

// posting is a document that holds a term.
type posting struct {
	number    uint32 // in the segment
	frequency uint32
	length    uint32 // of the field, in terms
}

// partsOf gives the segments that a reader sees. Their documents are numbered through, as the reader does it.
func partsOf(reader index.IndexReader) []part {
	segments := reader.(*scorch.IndexSnapshot).Segments()
	parts := make([]part, len(segments))
	var first uint64
	for i, s := range segments {
		parts[i] = part{segment: s.Segment(), id: s.Id(), first: uint32(first), gone: s.Deleted(), dictionaries: make(map[string]segment.TermDictionary, 3)}
		first += s.Segment().Count()
	}
	return parts
}

func (p *part) dictionary(field string) (segment.TermDictionary, error) {
	if known := p.dictionaries[field]; known != nil {
		return known, nil
	}
	dictionary, err := p.segment.Dictionary(field)
	if err == nil {
		p.dictionaries[field] = dictionary
	}
	return dictionary, err
}

// occurrence is where a term is.
type occurrence struct {
	part *part
	list segment.PostingsList // without what is gone
}

// find gives the parts that hold a term, and how many documents do. It is valid until the next call.
func (s *Searcher) find(field string, key []byte) (found []occurrence, documents uint64, err error) {
	if err := s.ctx.Err(); err != nil {
		return nil, 0, err
	}
	s.found = s.found[:0]
	for i := range s.parts {
		p := &s.parts[i]
		dictionary, err := p.dictionary(field)
		if err != nil {
			return nil, 0, err
		}
		list, err := dictionary.PostingsList(key, p.gone, nil)
		if err != nil {
			return nil, 0, err
		}
		if n := list.Count(); n > 0 {
			documents += n
			s.found = append(s.found, occurrence{p, list})
		}
	}
	return s.found, documents, nil
}

// longList is how many postings are worth being kept once they are decoded, which takes 30 ns for each.
const longList = 1024

// postings gives the documents of an occurrence in ascending order, and some that are gone among them. The list is not
// to be changed and is valid until the next call.
func (s *Searcher) postings(o occurrence, field string, key []byte) ([]posting, error) {
	if o.list.Count() < longList {
		var err error
		s.decoded, err = s.decode(s.decoded[:0], o.list)
		return s.decoded, err
	}
	name := listName{s.shard, o.part.id, field, string(key)}
	if list := s.lists.get(name); list != nil {
		return list, nil
	}
	dictionary, err := o.part.dictionary(field)
	if err != nil {
		return nil, err
	}
	all, err := dictionary.PostingsList(key, nil, nil) // what is gone later is in no searcher's way that way
	if err != nil {
		return nil, err
	}
	list, err := s.decode(make([]posting, 0, all.Count()), all)
	if err == nil {
		s.lists.put(name, list)
	}
	return list, err
}

// exactly is what bleve's postings have beside the inverse square root of a length.
type exactly interface{ NormUint64() uint64 }

func (s *Searcher) decode(into []posting, list segment.PostingsList) ([]posting, error) {
	postings := list.Iterator(true, true, false, nil)
	for {
		if len(into)%4096 == 0 && s.ctx.Err() != nil {
			return into, s.ctx.Err()
		}
		p, err := postings.Next()
		if p == nil || err != nil {
			return into, err
		}
		into = append(into, posting{uint32(p.Number()), uint32(p.Frequency()), uint32(p.(exactly).NormUint64())})
	}
}

// each visits the documents of a term.
func (s *Searcher) each(field string, key []byte, visit func(number uint32, p posting)) error {
	found, _, err := s.find(field, key)
	if err != nil {
		return err
	}
	for _, o := range found {
		list, err := s.postings(o, field, key)
		if err != nil {
			return err
		}
		gone := goneFrom(o.part)
		for _, p := range list {
			if !gone.has(p.number) {
				visit(o.part.first+p.number, p)
			}
		}
	}
	return nil
}

// termSet gives the documents of a term.
func (s *Searcher) termSet(field string, key []byte) (*Set, error) {
	found, _, err := s.find(field, key)
	if err != nil {
		return nil, err
	}
	set := roaring.New()
	for _, o := range found {
		postings := o.list.Iterator(false, false, false, nil).(segment.OptimizablePostingsIterator)
		if number, single := postings.DocNum1Hit(); single {
			set.Add(o.part.first + uint32(number))
		} else if numbers := postings.ActualBitmap(); numbers != nil {
			set.Or(roaring.AddOffset(numbers, o.part.first)) // a copy: the file that the numbers lie in cannot be written
		}
	}
	return set, nil
}

// holder gives a function that reports whether a document, by its number in the segment, is in a list.
func holder(list segment.PostingsList) func(number uint32) bool {
	postings := list.Iterator(false, false, false, nil).(segment.OptimizablePostingsIterator)
	if only, single := postings.DocNum1Hit(); single {
		return func(number uint32) bool { return uint64(number) == only }
	}
	numbers := postings.ActualBitmap()
	return func(number uint32) bool { return numbers != nil && numbers.Contains(number) }
}

// gone goes through what is gone from a part, beside a list of its postings.
type gone struct {
	left roaring.IntPeekable // nil: nothing is
	next uint64
}

func goneFrom(p *part) gone {
	g := gone{next: ^uint64(0)}
	if p.gone != nil && !p.gone.IsEmpty() {
		g.left, g.next = p.gone.Iterator(), 0
	}
	return g
}

// has is asked about numbers in ascending order.
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
