package lexical

import "math"

// Corpus is what is known of all documents of an account where an index holds only some of them.
type Corpus struct {
	Documents   uint64            // their number
	Frequencies map[string]uint64 // of [Condition.Key]: how many of them satisfy it
}

// Weight returns how much a condition says about a document that satisfies it: its inverse document frequency.
func (c *Corpus) Weight(of *Condition) float64 {
	return idf(c.Documents, c.Frequencies[of.Key()])
}

// Worth returns those synonyms that are neither absent nor too common, nor stand for a word that is, with their weights.
func (c *Corpus) Worth(synonyms []Synonym) (worth []Synonym) {
	common := commonFrom(c.Documents)
	for _, s := range synonyms {
		if found := c.Frequencies[s.Holds.Key()]; found > 0 && found <= common && c.Frequencies[s.Word] <= common {
			s.Weight *= min(c.Weight(&s.Holds), c.Weight(&Condition{Term: s.Word}))
			worth = append(worth, s)
		}
	}
	return worth
}

// Key names a condition of [Query.Scored] in a [Corpus].
func (c *Condition) Key() string {
	if c.Prefix != "" {
		return c.Prefix + anyEnding
	}
	return c.Term
}

// anyEnding follows a prefix in a key. No term has it.
const anyEnding = "*"

// idf returns the weight of a term with that document frequency.
func idf(documents, frequency uint64) float64 {
	n, df := float64(documents), float64(frequency)
	return math.Log(1 + max(n-df+0.5, 0.5)/(df+0.5))
}

// Within has the searcher weigh terms as an index of the whole corpus would. The mean length of documents stays that of those in
// the index.
func (s *Searcher) Within(c *Corpus) {
	s.corpus = c
	if held := s.totals.Documents; held > 0 && c.Documents > held {
		times := float64(c.Documents) / float64(held)
		s.totals = Totals{
			Documents:   c.Documents,
			TextTerms:   uint64(float64(s.totals.TextTerms) * times),
			NameTerms:   uint64(float64(s.totals.NameTerms) * times),
			OutputTerms: uint64(float64(s.totals.OutputTerms) * times),
			OwnTerms:    uint64(float64(s.totals.OwnTerms) * times),
		}
	}
}

// frequency returns how many documents of the account contain a term; held of them are in the searcher.
func (s *Searcher) frequency(f field, term string, held int) uint64 {
	if s.corpus == nil {
		return uint64(held)
	}
	return max(uint64(held), s.corpus.Frequencies[fieldLetters[f]+term])
}
