package lexical

import "slices"

// A Condition selects documents that satisfy a query, by their [Document.Terms] only. If the query depends on more,
// such as the order of words, it selects more documents. It is for engines that find candidates. One kind of field is
// set; a Condition without any selects nothing.
type Condition struct {
	Term   string // the document has this term
	Prefix string // or a term with this prefix
	All    []Condition
	Any    []Condition
	Not    *Condition
}

// fieldLetters are the first letters of the terms of [Document.Terms].
var fieldLetters = [fieldCount]string{fieldText: "t", fieldName: "n", fieldOutput: "o", fieldOwn: "u", fieldFacet: "f"}

// Terms returns what a document is found by, without duplicates.
func (d *Document) Terms() (terms []string) {
	a := analyze(d)
	for f := range fieldCount {
		if f == fieldOwn {
			continue // nothing is found by it that is not found by the words of the text
		}
		for _, t := range a.of(f) {
			terms = append(terms, fieldLetters[f]+t.text)
		}
	}
	return terms
}

// HasFacet returns the condition for a property.
func HasFacet(name, value string) Condition {
	return Condition{Term: fieldLetters[fieldFacet] + facetTerm(name, value)}
}

// HasFacetPrefix returns the condition for a property with a prefix.
func HasFacetPrefix(name, prefix string) Condition {
	return Condition{Prefix: fieldLetters[fieldFacet] + facetTerm(name, prefix)}
}

// Scored returns conditions; a document that satisfies any of them is worth examining.
func (q *Query) Scored() (any []Condition) {
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		for _, f := range l.wordFields() {
			for _, word := range l.words {
				any = append(any, Condition{Term: fieldLetters[f] + word})
			}
		}
		for _, name := range l.names {
			any = append(any, Condition{Term: fieldLetters[fieldName] + name})
		}
		any = append(any, l.beginnings()...)
	})
	return any[:min(len(any), maxQueryTerms)]
}

// Synonym is what a word of a query may be replaced by.
type Synonym struct {
	Word   string // the key of the word's condition among those of [Query.Scored]
	Holds  Condition
	Weight float64 // what it says about a document, as a share of what the word says; of [Corpus.Worth], as [Corpus.Weight]
}

// Synonyms returns further conditions that documents are scored by, see [Corpus.Worth].
func (q *Query) Synonyms() (list []Synonym) {
	for _, o := range q.otherWords() {
		for _, other := range o.synonyms {
			list = append(list, Synonym{
				Word: fieldLetters[fieldText] + o.term, Holds: Condition{Term: fieldLetters[fieldText] + other.term}, Weight: synonymShare * other.weight,
			})
		}
	}
	return list
}

// Demanded returns what a document must satisfy besides containing something scored; nil means nothing.
func (q *Query) Demanded() *Condition {
	if !q.Demands() {
		return nil
	}
	if c, narrow := q.root.condition(); narrow {
		return &c
	}
	return nil
}

// condition is [group.matching] without an index. narrow is false if it excludes nothing.
func (g group) condition() (all Condition, narrow bool) {
	var required, optional, excluded []Condition
	unbounded, chosen := false, false
	for i := range g {
		c := &g[i]
		if c.empty() {
			continue
		}
		one, narrow := c.condition()
		switch {
		case c.occur == mustNot:
			if c.certain() && narrow {
				excluded = append(excluded, Condition{Not: &one})
			}
		case c.occur == should:
			chosen, unbounded = true, unbounded || !narrow
			optional = append(optional, one)
		case narrow:
			required = append(required, one)
		default:
			chosen, unbounded = true, true // required and always true, so nothing optional is needed
		}
	}
	if len(required) == 0 && chosen && !unbounded {
		required = []Condition{{Any: optional}}
	}
	all.All = slices.Concat(required, excluded)
	return all, len(all.All) > 0
}

func (c *clause) condition() (Condition, bool) {
	if c.leaf == nil {
		return c.group.condition()
	}
	l := c.leaf
	switch {
	case l.isFacet() && l.prefix != "":
		return HasFacetPrefix(l.in, l.prefix), true
	case l.isFacet():
		return HasFacet(l.in, l.value), true
	case l.prefix != "":
		return Condition{Any: l.beginnings()}, true
	}
	var ways []Condition
	for _, f := range l.wordFields() {
		var together []Condition
		for _, word := range l.indexedIn(f) {
			together = append(together, Condition{Term: fieldLetters[f] + word})
		}
		if len(together) > 0 {
			ways = append(ways, Condition{All: together})
		}
	}
	for _, name := range l.names {
		ways = append(ways, Condition{Term: fieldLetters[fieldName] + name})
	}
	return Condition{Any: ways}, true
}

// beginnings returns the terms of a prefix.
func (l *leaf) beginnings() (any []Condition) {
	if l.prefix == "" {
		return nil
	}
	for _, f := range l.prefixFields() {
		any = append(any, Condition{Prefix: fieldLetters[f] + l.prefix})
	}
	return any
}
