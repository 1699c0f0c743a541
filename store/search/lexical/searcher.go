package lexical

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"
)

// BM25's parameters, chosen on the quite different retrieval sets of the evaluation: for short exchanges, passages and
// encyclopedia entries this pair is within a point of the best for each.
const (
	saturation = 1.5 // k1
	lengthNorm = 0.5 // b
	// For names, the length of the list they are in hardly matters.
	nameLengthNorm = 0.3
	nameSaturation = 1.2
	// Output of tools is long, and most of it says nothing about the turn: it counts for less than messages do, and a
	// long one counts for less than a short one.
	outputWeight     = 0.4
	outputLengthNorm = 0.75
	// What a person asks for later is mostly what a person said, in the midst of long answers: words of the person count once more.
	ownWeight = 0.4
)

// maxExpansion bounds the terms of one prefix.
const maxExpansion = 256

// Set is a set of documents of one [Searcher].
type Set = roaring.Bitmap

// Searcher is a snapshot of one account's documents. It belongs to one goroutine.
type Searcher struct {
	Sets // of its documents

	ctx     context.Context
	totals  Totals
	corpus  *Corpus // nil: the searcher has all documents of the account
	parts   []part
	used    []*segment
	found   []posting         // see find
	members []uint32          // see neighbors
	holders map[string]uint64 // of words that were scored in the text, see weighed
}

// Searcher opens a snapshot of an account. The caller closes it.
func (ix *Index) Searcher(ctx context.Context, account uint32) (*Searcher, error) {
	s := &Searcher{ctx: ctx, found: *postingLists.Get().(*[]posting)}
	s.Sets.of = s
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	var first uint64
	ix.eachPart(account, func(from *segment, p part, totals Totals) {
		if p.count == 0 {
			return
		}
		p.first = uint32(first)
		first += uint64(p.count)
		s.parts = append(s.parts, p)
		s.totals.plus(&totals)
		if from != nil {
			from.users.Add(1)
			s.used = append(s.used, from)
		}
	})
	return s, nil
}

// Close releases the snapshot.
func (s *Searcher) Close() error {
	for _, used := range s.used {
		used.release()
	}
	s.used, s.parts = nil, nil
	if list := s.found[:0]; cap(list) <= keptPostings {
		postingLists.Put(&list)
	}
	s.found = nil
	return nil
}

// postingLists pools the lists of searchers, of at most keptPostings.
var postingLists = sync.Pool{New: func() any { return new([]posting) }}

const keptPostings = 1 << 18 // 3 MB

// Documents returns the number of the account's documents.
func (s *Searcher) Documents() uint64 { return s.totals.Documents }

// ID returns the id of a document.
func (s *Searcher) ID(number uint32) (string, error) { return string(s.key(number)), s.ctx.Err() }

// Number returns the number of a document; false if it does not exist.
func (s *Searcher) Number(id string) (uint32, bool, error) {
	for i := range s.parts {
		p := &s.parts[i]
		if number, there := p.number(id); there && !p.isGone(number) {
			return p.first + number, true, nil
		}
	}
	return 0, false, s.ctx.Err()
}

// all returns every document of the account.
func (s *Searcher) all() (*Set, error) {
	set := roaring.New()
	for i := range s.parts {
		p := &s.parts[i]
		set.AddRange(uint64(p.first), uint64(p.first)+uint64(p.count))
		if p.gone != nil {
			set.AndNot(roaring.AddOffset(p.gone, p.first))
		}
	}
	return set, s.ctx.Err()
}

// FacetValue is a value of a property, with its number of documents.
type FacetValue struct {
	Value string `json:"value"`
	Count uint64 `json:"count"`
}

// maxFacetValues bounds the values examined for one property.
const maxFacetValues = 10_000

// FacetValues returns the values of a property in the hits, the most frequent first, at most limit.
func (r *Ranking) FacetValues(name string, limit int) ([]FacetValue, error) {
	s, prefix := r.searcher, facetTerm(name, "")
	terms, err := s.termsFrom(fieldFacet, prefix, prefix, maxFacetValues)
	if err != nil {
		return nil, err
	}
	values := []FacetValue{}
	for _, term := range terms {
		found, err := s.find(fieldFacet, term)
		if err != nil {
			return nil, err
		}
		hits := uint64(0)
		for i := range found {
			if r.hits(found[i].number) {
				hits++
			}
		}
		if value := term[len(prefix):]; value != "" && hits > 0 {
			values = append(values, FacetValue{value, hits})
		}
	}
	slices.SortFunc(values, func(a, b FacetValue) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	return values[:min(limit, len(values))], nil
}

// measure is how a field is scored.
type measure struct {
	k1, b, averaged float64 // averaged: mean length in terms
	share           float64 // of the whole score
}

func (s *Searcher) measureOf(f field) measure {
	documents := float64(max(s.totals.Documents, 1))
	switch f {
	case fieldName:
		return measure{nameSaturation, nameLengthNorm, max(float64(s.totals.NameTerms)/documents, 1), 1}
	case fieldOutput:
		return measure{saturation, outputLengthNorm, max(float64(s.totals.OutputTerms)/documents, 1), outputWeight}
	case fieldOwn:
		return measure{saturation, lengthNorm, max(float64(s.totals.OwnTerms)/documents, 1), ownWeight}
	}
	return measure{saturation, lengthNorm, max(float64(s.totals.TextTerms)/documents, 1), 1}
}

// weight returns what one term adds to a document in which it occurs frequency times among length terms.
func (m *measure) weight(idf, frequency, length float64) float64 {
	return m.share * idf * frequency * (m.k1 + 1) / (frequency + m.k1*(1-m.b+m.b*length/m.averaged))
}

// idf returns the weight of a term with that document frequency in the account.
func (s *Searcher) idf(documents uint64) float64 {
	return idf(s.totals.Documents, documents)
}

// weighed returns the document frequency that a term of a field is weighed by. A word of the person weighs what it weighs in the text,
// where it is scored first.
func (s *Searcher) weighed(f field, term string, held int) uint64 {
	switch f {
	case fieldText:
		if s.holders == nil {
			s.holders = make(map[string]uint64)
		}
		s.holders[term] = s.frequency(f, term, held)
		return s.holders[term]
	case fieldOwn:
		return max(s.holders[term], uint64(held))
	}
	return s.frequency(f, term, held)
}

// score adds a term's weight to the documents that contain it, and notes them in held; times is how often it is in the query.
func (s *Searcher) score(into *scores, f field, term string, times int, held heldWords) error {
	found, err := s.findIn(nil, f, term, true)
	if err != nil {
		return err
	}
	m, frequency := s.measureOf(f), s.weighed(f, term, len(found))
	idf := s.idf(frequency)
	held.take(f, term, found, frequency, idf)
	idf *= float64(times)
	for _, p := range found {
		into.add(p.number, m.weight(idf, float64(p.frequency), float64(p.length)))
	}
	return nil
}

// scoreTogether scores the terms with a prefix as one.
func (s *Searcher) scoreTogether(into *scores, f field, prefix string, terms []string) error {
	together := make(map[uint32]posting)
	for _, term := range terms {
		found, err := s.findIn(nil, f, term, true)
		if err != nil {
			return err
		}
		for _, p := range found {
			p.frequency += together[p.number].frequency
			together[p.number] = p
		}
	}
	m, idf := s.measureOf(f), s.idf(s.frequency(f, prefix+anyEnding, len(together)))
	for number, p := range together {
		into.add(number, m.weight(idf, float64(p.frequency), float64(p.length)))
	}
	return nil
}
