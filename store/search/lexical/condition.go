package lexical

import "slices"

// A Condition says which documents satisfy a query, by their [Document.Terms] alone, or may: where that depends on more,
// such as the order of words, there are more of them. It is for engines that find candidates. One kind of field is set; a
// Condition without any lets nothing through.
type Condition struct {
	Term   string // the document has this term
	Prefix string // or one that begins so
	All    []Condition
	Any    []Condition
	Not    *Condition
}

// fieldLetters begin the terms that [Document.Terms] gives.
var fieldLetters = [fieldCount]string{fieldText: "t", fieldName: "n", fieldOutput: "o", fieldFacet: "f"}

// Terms gives what a document is found by, each once.
func (d *Document) Terms() (terms []string) {
	a := analyse(d)
	for f := range fieldCount {
		for _, t := range a.of(f) {
			terms = append(terms, fieldLetters[f]+t.text)
		}
	}
	return terms
}

// HasFacet is the condition of a property.
func HasFacet(name, value string) Condition {
	return Condition{Term: fieldLetters[fieldFacet] + facetTerm(name, value)}
}

// HasFacetPrefix is the condition of a property that begins with prefix.
func HasFacetPrefix(name, prefix string) Condition {
	return Condition{Prefix: fieldLetters[fieldFacet] + facetTerm(name, prefix)}
}

// Scored are the conditions of which any makes a document worth looking at.
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

// Demanded is what a document has to satisfy, beside holding something that is scored; nil is nothing.
func (q *Query) Demanded() *Condition {
	if !q.root.selective() {
		return nil
	}
	if c, narrow := q.root.condition(); narrow {
		return &c
	}
	return nil
}

// condition is [group.matching] without an index. narrow is false where it lets every document through.
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
			chosen, unbounded = true, true // it is required and always so: nothing optional has to be there
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

// beginnings are the terms that a prefix stands for.
func (l *leaf) beginnings() (any []Condition) {
	if l.prefix == "" {
		return nil
	}
	for _, f := range l.prefixFields() {
		any = append(any, Condition{Prefix: fieldLetters[f] + l.prefix})
	}
	return any
}
