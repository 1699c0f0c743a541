package lexical

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	index "github.com/blevesearch/bleve_index_api"
)

// BM25's parameters. They were chosen on the retrieval sets of the evaluation, of which no one is alike: for short
// exchanges, passages and encyclopaedia entries this pair is within a point of the best for each.
const (
	saturation = 1.5 // k1
	lengthNorm = 0.5 // b
	// Names are told from each other by which they are, hardly by how long the list is that they stand in.
	nameLengthNorm = 0.3
	nameSaturation = 1.2
	// Output of tools is long, and most of it says nothing about the turn: it counts for less than what was said, and a
	// long one counts for less than a short one.
	outputWeight     = 0.4
	outputLengthNorm = 0.75
)

// maxExpansion bounds the terms that one prefix stands for.
const maxExpansion = 256

// Set is a set of documents of one [Searcher].
type Set = roaring.Bitmap

// Searcher sees the documents of one account as they were at one moment. It belongs to one goroutine.
type Searcher struct {
	ctx     context.Context
	account uint32
	reader  index.IndexReader
	totals  Totals
	shard   int
	parts   []part
	lists   *lists
	table   *columnTable

	found   []occurrence // see find
	decoded []posting    // see postings
}

// Searcher opens a view of an account. The caller closes it.
func (ix *Index) Searcher(ctx context.Context, account uint32) (*Searcher, error) {
	shard := shardOf(account)
	reader, err := ix.shards[shard].Reader()
	if err != nil {
		return nil, err
	}
	s := &Searcher{ctx: ctx, account: account, reader: reader, shard: shard, parts: partsOf(reader), lists: ix.lists, table: ix.table}
	if s.totals, err = readTotals(reader, account); err != nil {
		_ = reader.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the view.
func (s *Searcher) Close() error { return s.reader.Close() }

// Documents is how many documents the account has.
func (s *Searcher) Documents() uint64 { return s.totals.Documents }

// ID gives the id of a document.
func (s *Searcher) ID(number uint32) (string, error) {
	id, err := s.key(number)
	return string(id), err
}

// Number gives the number of a document; false if it is not there.
func (s *Searcher) Number(id string) (uint32, bool, error) {
	set, err := s.termSet(fieldID, termKey(s.account, id))
	if err != nil || set.IsEmpty() {
		return 0, false, err
	}
	return set.Minimum(), true, nil
}

// All is every document of the account.
func (s *Searcher) All() (*Set, error) { return s.facetSet("") }

// Facet is the documents with a property.
func (s *Searcher) Facet(name, value string) (*Set, error) { return s.facetSet(facetTerm(name, value)) }

func (s *Searcher) facetSet(term string) (*Set, error) {
	return s.termSet(fieldFacet, termKey(s.account, term))
}

// FacetRange is the documents whose property lies in [from, to], by bytes; "" leaves a side open.
func (s *Searcher) FacetRange(name, from, to string) (*Set, error) {
	first := termKey(s.account, facetTerm(name, from))
	return s.facetTerms(first, termKey(s.account, facetTerm(name, "")), func(term string) bool { return to == "" || term <= to })
}

// FacetPrefix is the documents whose property begins with prefix.
func (s *Searcher) FacetPrefix(name, prefix string) (*Set, error) {
	first := termKey(s.account, facetTerm(name, prefix))
	return s.facetTerms(first, first, func(string) bool { return true })
}

// FacetValue is a value that a property has, and of how many documents.
type FacetValue struct {
	Value string `json:"value"`
	Count uint64 `json:"count"`
}

// maxFacetValues bounds the values that are looked through for one property.
const maxFacetValues = 10_000

// FacetValues gives the values of a property, the most frequent first, at most limit.
func (s *Searcher) FacetValues(name string, limit int) ([]FacetValue, error) {
	first := termKey(s.account, facetTerm(name, ""))
	terms, err := s.reader.FieldDictRange(fieldFacet, first, after(first))
	if err != nil {
		return nil, err
	}
	defer func() { _ = terms.Close() }()
	values := []FacetValue{}
	for len(values) < maxFacetValues {
		entry, err := terms.Next()
		if err != nil {
			return nil, err
		}
		if entry == nil || !strings.HasPrefix(entry.Term, string(first)) {
			break
		}
		_, documents, err := s.find(fieldFacet, []byte(entry.Term))
		if err != nil {
			return nil, err
		}
		if value := entry.Term[len(first):]; value != "" && documents > 0 {
			values = append(values, FacetValue{value, documents})
		}
	}
	slices.SortFunc(values, func(a, b FacetValue) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	return values[:min(limit, len(values))], nil
}

// facetTerms joins the documents of the terms from first on that begin with prefix, as long as more says so of their
// values.
func (s *Searcher) facetTerms(first, prefix []byte, more func(value string) bool) (*Set, error) {
	set := roaring.New()
	terms, err := s.reader.FieldDictRange(fieldFacet, first, after(prefix))
	if err != nil {
		return nil, err
	}
	defer func() { _ = terms.Close() }()
	for {
		entry, err := terms.Next()
		if err != nil || entry == nil {
			return set, err
		}
		_, value, _ := bytes.Cut([]byte(entry.Term)[4:], []byte{0})
		if !bytes.HasPrefix([]byte(entry.Term), prefix) || !more(string(value)) {
			return set, nil
		}
		one, err := s.termSet(fieldFacet, []byte(entry.Term))
		if err != nil {
			return nil, err
		}
		set.Or(one)
	}
}

// after is the first key behind all that begin with prefix.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// expand gives the terms of a field that begin with prefix, at most maxExpansion of them.
func (s *Searcher) expand(field, prefix string) (keys [][]byte, err error) {
	first := termKey(s.account, prefix)
	terms, err := s.reader.FieldDictRange(field, first, after(first))
	if err != nil {
		return nil, err
	}
	defer func() { _ = terms.Close() }()
	for len(keys) < maxExpansion {
		entry, err := terms.Next()
		if err != nil || entry == nil {
			return keys, err
		}
		if !bytes.HasPrefix([]byte(entry.Term), first) {
			break
		}
		keys = append(keys, []byte(entry.Term))
	}
	return keys, nil
}

// measure is how a field is scored.
type measure struct {
	field           string
	k1, b, averaged float64 // averaged: mean length in terms
	share           float64 // of the whole score
}

func (s *Searcher) measureOf(field string) measure {
	documents := float64(max(s.totals.Documents, 1))
	switch field {
	case fieldName:
		return measure{field, nameSaturation, nameLengthNorm, max(float64(s.totals.NameTerms)/documents, 1), 1}
	case fieldOutput:
		return measure{field, saturation, outputLengthNorm, max(float64(s.totals.OutputTerms)/documents, 1), outputWeight}
	}
	return measure{field, saturation, lengthNorm, max(float64(s.totals.TextTerms)/documents, 1), 1}
}

// weight is what one term adds to a document in which it occurs frequency times among length terms.
func (m *measure) weight(idf, frequency, length float64) float64 {
	return m.share * idf * frequency * (m.k1 + 1) / (frequency + m.k1*(1-m.b+m.b*length/m.averaged))
}

// idf is the weight of a term that is in so many of the account's documents.
func (s *Searcher) idf(documents uint64) float64 {
	n, df := float64(s.totals.Documents), float64(documents)
	return math.Log(1 + max(n-df+0.5, 0.5)/(df+0.5))
}

// score adds what a term is worth to the documents that hold it; times is how often the query names it.
func (s *Searcher) score(into *scores, field, term string, times int) error {
	key := termKey(s.account, term)
	found, documents, err := s.find(field, key)
	if err != nil {
		return err
	}
	m, idf := s.measureOf(field), s.idf(documents)*float64(times)
	for _, o := range found {
		list, err := s.postings(o, field, key)
		if err != nil {
			return err
		}
		gone := goneFrom(o.part)
		for _, p := range list {
			if !gone.has(p.number) {
				into.add(o.part.first+p.number, m.weight(idf, float64(p.frequency), float64(p.length)))
			}
		}
	}
	return nil
}

// scoreTogether scores several terms as if they were one: the words that a prefix stands for.
func (s *Searcher) scoreTogether(into *scores, field string, keys [][]byte) error {
	found := make(map[uint32]posting)
	for _, key := range keys {
		err := s.each(field, key, func(number uint32, p posting) {
			p.frequency += found[number].frequency
			found[number] = p
		})
		if err != nil {
			return err
		}
	}
	m, idf := s.measureOf(field), s.idf(uint64(len(found)))
	for number, p := range found {
		into.add(number, m.weight(idf, float64(p.frequency), float64(p.length)))
	}
	return nil
}
