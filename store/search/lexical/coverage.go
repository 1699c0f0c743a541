package lexical

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Covered is how much of a query a document contains.
type Covered struct {
	Share float64 // of the query's words, weighted by rarity in the account: 0 to 1
	Words int     // words that it contains
	Names int     // identifiers that it contains
}

// coverTerm is a term that counts toward coverage.
type coverTerm struct {
	text   string
	name   bool
	fields []field // any of them may contain it
	weight float64
}

// coverTerms returns the terms of a query for coverage, without weights.
func (q *Query) coverTerms() (list []coverTerm) {
	seen := make(map[string]bool)
	q.root.leaves(func(l *leaf) {
		if l.isFacet() {
			return
		}
		names := terms(identifiers([]byte(l.text)))
		for i, text := range append(slices.Clone(names), l.words...) {
			if name := i < len(names) && isName(text); !seen[text] && len(list) < maxQueryTerms && (name || !q.question || !asks[text]) {
				seen[text] = true
				list = append(list, coverTerm{text: text, name: name, fields: l.prefixFields()})
			}
		}
	})
	return list
}

// isName reports whether an identifier is a name: a number alone is a word.
func isName(identifier string) bool {
	return strings.ContainsFunc(identifier, unicode.IsLetter)
}

// asks are stems of words with which a question asks, and which its answer need not have.
var asks = setOf(`
	choos chose chosen choic decid decis pleas again remind rememb know tell told sai said mention talk happen
	becom deal handl make made do done did get got go need can must still ever befor current
	last previou mani much us wai thing kind type sort reason caus command method name outcom right come
	came`)

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

func (c *Covered) add(t *coverTerm) {
	c.Share += t.weight
	if t.name {
		c.Names++
	} else {
		c.Words++
	}
}

// Coverage returns how much of the query each of some documents contains. Unlike scores, coverage is comparable between
// queries.
func (s *Searcher) Coverage(q *Query, numbers []uint32) ([]Covered, error) {
	return s.cover(q, len(numbers), func(_ field, _ string, found []posting, i int) (bool, error) {
		_, has := slices.BinarySearchFunc(found, numbers[i], func(p posting, number uint32) int { return cmp.Compare(p.number, number) })
		return has, nil
	})
}

// cover returns how much of the query each of so many contains; has reports whether one of them is among the documents found
// with a term.
func (s *Searcher) cover(q *Query, many int, has func(f field, term string, found []posting, i int) (bool, error)) ([]Covered, error) {
	held, all := make([]Covered, many), 0.0
	for _, t := range q.coverTerms() {
		holds, most := make([]bool, many), uint64(0)
		for _, field := range t.fields {
			found, err := s.find(field, t.text)
			if err != nil {
				return held, err
			}
			most = max(most, s.frequency(field, t.text, len(found)))
			for i := range holds {
				here, err := has(field, t.text, found, i)
				if err != nil {
					return held, err
				}
				holds[i] = holds[i] || here
			}
		}
		t.weight = s.rarity(most)
		all += t.weight
		for i := range holds {
			if holds[i] {
				held[i].add(&t)
			}
		}
	}
	for i := range held {
		if all > 0 {
			held[i].Share /= all
		}
	}
	return held, nil
}

// leastDocuments is the minimum number of documents that an account is assumed to have. In a small one, a word that has
// not occurred yet would weigh several times as much as a name in one turn.
const leastDocuments = 1000

// rarity returns the weight of a term with that document frequency, for shares of queries.
func (s *Searcher) rarity(documents uint64) float64 { return rarity(s.totals.Documents, documents) }

func rarity(documents, frequency uint64) float64 {
	n, df := float64(max(documents, leastDocuments)), float64(frequency)
	return math.Log(1 + (n-min(df, n)+0.5)/(df+0.5))
}

// Part is a part of a query that counts toward the coverage of documents that hold it.
type Part struct {
	Holds  Condition
	Weight float64
	Name   bool // it is an identifier
}

// Parts returns what counts toward coverage, weighed among the documents of a corpus.
func (q *Query) Parts(c *Corpus) (parts []Part) {
	for _, t := range q.coverTerms() {
		part, most := Part{Name: t.name}, uint64(0)
		for _, field := range t.fields {
			term := fieldLetters[field] + t.text
			part.Holds.Any = append(part.Holds.Any, Condition{Term: term})
			most = max(most, c.Frequencies[term])
		}
		part.Weight = rarity(c.Documents, most)
		parts = append(parts, part)
	}
	return parts
}
