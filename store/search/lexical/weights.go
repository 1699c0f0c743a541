package lexical

import (
	"cmp"
	"slices"
)

// Weights are the words and names of a query, with what each says by its rarity in an account. They judge texts, also those
// that are in no index.
type Weights struct {
	of    map[string]*weight
	total float64

	Names  int // identifiers that are rare in the account
	Absent int // words that no document has
}

type weight struct {
	share float64
	name  bool
}

// commonName is the share of an account's documents above which a name says no more than a word.
const commonName = 0.02

// Weights weighs the words of a query in an account.
func (s *Searcher) Weights(q *Query) (*Weights, error) {
	w := &Weights{of: make(map[string]*weight)}
	for _, t := range q.coverTerms() {
		most := uint64(0)
		for _, field := range t.fields {
			found, err := s.find(field, t.text)
			if err != nil {
				return nil, err
			}
			most = max(most, s.frequency(field, t.text, len(found)))
		}
		if _, twice := w.of[t.text]; twice {
			continue
		}
		one := &weight{share: s.rarity(most), name: t.name && float64(most) <= commonName*float64(max(s.totals.Documents, leastDocuments))}
		w.of[t.text] = one
		w.total += one.share
		switch {
		case one.name:
			w.Names++
		case most == 0:
			w.Absent++
		}
	}
	for _, one := range w.of {
		one.share /= w.total
	}
	return w, nil
}

// tokens visits the words and names of the query in a text.
func (w *Weights) tokens(text string, visit func(t token, of *weight)) {
	body := []byte(text)
	for _, list := range [...][]token{prose(body), identifiers(body)} {
		for _, t := range list {
			if of := w.of[t.term]; of != nil {
				visit(t, of)
			}
		}
	}
}

// Held returns how much of the query texts hold together.
func (w *Weights) Held(texts ...string) (c Covered) {
	seen := make(map[*weight]bool)
	for _, text := range texts {
		w.tokens(text, func(_ token, of *weight) {
			if !seen[of] {
				seen[of] = true
				c.take(of)
			}
		})
	}
	return c
}

func (c *Covered) take(of *weight) {
	c.Share += of.share
	if of.name {
		c.Names++
	} else {
		c.Words++
	}
}

// Passage returns the passage of a text, of at most size bytes, that holds most of the query, the first one of several.
func (w *Weights) Passage(text string, size int) (best Covered, start, end int) {
	type place struct {
		token
		of *weight
	}
	var places []place
	w.tokens(text, func(t token, of *weight) { places = append(places, place{t, of}) })
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.start, b.start) })
	for i := range places {
		var c Covered
		seen := make(map[*weight]bool)
		last := i
		for j := i; j < len(places) && places[j].end-places[i].start <= size && j < i+mostInPassage; j++ {
			if !seen[places[j].of] {
				seen[places[j].of] = true
				c.take(places[j].of)
				last = j
			}
		}
		if c.Share > best.Share {
			best, start, end = c, places[i].start, places[last].end
		}
	}
	return best, start, end
}

// mostInPassage bounds the words of the query that are examined in one passage: a text may repeat one of them.
const mostInPassage = 64

// Known returns the words of a text.
func Known(text string) map[string]bool {
	known := make(map[string]bool)
	for _, t := range prose([]byte(text)) {
		known[t.term] = true
	}
	return known
}

// New reports whether a text has a word that neither the query nor another text has, whose words are known.
func (w *Weights) New(text string, known map[string]bool) bool {
	return slices.ContainsFunc(prose([]byte(text)), func(t token) bool { return !known[t.term] && w.of[t.term] == nil })
}
