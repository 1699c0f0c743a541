package lexical

import (
	"slices"
	"strings"
	"sync"
)

// field is one of the ways to find a document.
type field uint8

// Fields of the index.
const (
	fieldText   field = iota // words, see prose
	fieldName                // names of things, see identifiers
	fieldOutput              // words of tools' inputs and outputs, see outputWords
	fieldOwn                 // words of the person who asked; they are words of the text as well
	fieldFacet               // name, zero byte, value
	fieldCount
)

// lengths counts a document's terms.
type lengths struct{ text, names, output, own uint32 }

func (l *lengths) plus(o lengths) {
	l.text += o.text
	l.names += o.names
	l.output += o.output
	l.own += o.own
}

func (l *lengths) of(f field) uint32 {
	switch f {
	case fieldText:
		return l.text
	case fieldName:
		return l.names
	case fieldOutput:
		return l.output
	case fieldOwn:
		return l.own
	}
	return 0
}

// analyzed is a document with its terms counted.
type analyzed struct {
	account uint32
	id      string
	group   uint64
	lengths lengths
	size    int       // bytes of its texts
	terms   []tallied // of all fields, one after the other
	ends    [fieldCount]int
}

// of returns the distinct terms of a field.
func (a *analyzed) of(f field) []tallied {
	if f == 0 {
		return a.terms[:a.ends[0]]
	}
	return a.terms[a.ends[f-1]:a.ends[f]]
}

// analyze counts the terms of a document.
func analyze(d *Document) *analyzed {
	a := analyzers.Get().(*analyzer)
	defer a.release()
	a.read(d.Own, &a.own, &a.names)
	for i := range a.own.terms {
		a.words.addTimes(a.own.terms[i].term, a.own.terms[i].times)
	}
	a.read(d.Text, &a.words, &a.names)
	a.read(d.Names, nil, &a.names)
	a.read(d.Output, &a.output, nil)
	a.addFacets(d.Facets)
	done := countings.Get().(*analyzed)
	*done = analyzed{
		account: d.Account, id: d.ID, group: GroupKey(d.Account, d.Group),
		lengths: lengths{uint32(a.words.total), uint32(a.names.total), uint32(a.output.total), uint32(a.own.total)},
		size:    len(d.Own) + len(d.Text) + len(d.Names) + len(d.Output),
		terms:   done.terms,
	}
	fields := [fieldCount]*tally{fieldText: &a.words, fieldName: &a.names, fieldOutput: &a.output, fieldOwn: &a.own, fieldFacet: &a.facets}
	many := 0
	for _, t := range fields {
		many += len(t.terms)
	}
	done.terms = slices.Grow(done.terms, many)
	for f, t := range fields {
		done.terms = append(done.terms, t.terms...)
		done.ends[f] = len(done.terms)
		t.reset()
	}
	return done
}

var countings = sync.Pool{New: func() any { return new(analyzed) }}

// mostTermsKept is the capacity for terms beyond which the memory of a document is not reused.
const mostTermsKept = 4 << 10

// release returns the memory for reuse. The document must not be used afterwards.
func (a *analyzed) release() {
	if cap(a.terms) <= mostTermsKept {
		clear(a.terms)
		*a = analyzed{terms: a.terms[:0]}
		countings.Put(a)
	}
}

// addFacets counts the terms of facets. They are allocated together.
func (a *analyzer) addFacets(facets []Facet) {
	size := 0
	for _, f := range facets {
		size += len(f.Name) + 1 + len(f.Value)
	}
	var terms strings.Builder
	terms.Grow(size)
	for _, f := range facets {
		from := terms.Len()
		terms.WriteString(f.Name)
		terms.WriteByte(0)
		terms.WriteString(strings.ToLower(f.Value))
		a.facets.add(newTerm(terms.String()[from:]))
	}
}

// facetTerm returns the term of a facet. Values are case-insensitive.
func facetTerm(name, value string) string { return name + "\x00" + strings.ToLower(value) }
