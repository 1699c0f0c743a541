package lexical

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store/search/synonyms"
)

// A question is often asked in other words than those of its answer. Each of its words may be replaced by a synonym in documents that
// do not contain the word itself: such a document gets a share of what the synonym weighs there. The synonym weighs no more than the
// word would, and one that many documents contain says too little to be worth reading its postings.
const (
	synonymShare      = 0.55
	commonSynonym     = 20  // at most one of so many documents contains a synonym that is used
	fewHoldSynonyms   = 50  // or so many
	leastEnglishWords = 0.5 // share of a question's words that must be known: in other languages some look like English ones
)

// otherWords is a word of a query and what it may be replaced by.
type otherWords struct {
	term     string
	written  string
	english  bool
	synonyms []otherWord
}

type otherWord struct {
	term, written string
	weight        float64
}

// otherWords returns the words of a question that have synonyms. Names, and words of phrases, of fields and of requirements have none.
func (q *Query) otherWords() []otherWords {
	if !q.question || q.others != nil {
		return q.others
	}
	q.others = []otherWords{}
	words, known := 0, 0
	for i := range q.root {
		c := &q.root[i]
		if c.occur != should || c.leaf == nil || c.leaf.phrase || c.leaf.in != "" || c.leaf.prefix != "" {
			continue
		}
		eachPlainWord(c.leaf.text, i == 0, func(word string, name bool) {
			if words++; stops[word] {
				known++
				return
			}
			found, english := synonyms.Of(word)
			if english {
				known++
			}
			if !name && (len(found) > 0 || !english) && len(q.others) < maxQueryTerms {
				q.addOthers(word, english, found)
			}
		})
	}
	if float64(known) < leastEnglishWords*float64(words) {
		q.others = []otherWords{}
	}
	return q.others
}

func (q *Query) addOthers(word string, english bool, found []synonyms.Synonym) {
	term, ok := stem([]byte(word))
	if !ok || slices.ContainsFunc(q.others, func(o otherWords) bool { return o.term == term }) {
		return
	}
	o := otherWords{term: term, written: word, english: english}
	for _, s := range found {
		other, ok := stem([]byte(s.Word))
		if ok && other != term && !slices.ContainsFunc(o.synonyms, func(w otherWord) bool { return w.term == other }) {
			o.synonyms = append(o.synonyms, otherWord{other, s.Word, s.Weight})
		}
	}
	q.others = append(q.others, o)
}

// eachPlainWord visits the words of a text that are only letters, in lower case. name reports whether one is written like a name: with
// a capital where no sentence begins.
func eachPlainWord(text string, begins bool, visit func(word string, name bool)) {
	for field := range strings.FieldsSeq(text) {
		word := strings.TrimFunc(field, unicode.IsPunct)
		ends := strings.HasSuffix(field, ".") || strings.HasSuffix(field, "?") || strings.HasSuffix(field, "!") || strings.HasSuffix(field, ":")
		if lower := strings.ToLower(word); lowerASCII(lower) && lower != "" {
			first, _ := utf8.DecodeRuneInString(word)
			visit(lower, !begins && unicode.IsUpper(first) || len(word) > 1 && word[1:] != lower[1:])
		} else if word != "" && len(identifiers([]byte(word))) == 0 {
			visit(word, true)
		}
		begins = ends
	}
}

// heldWords is what is known of the words of a query that have synonyms, after these words were scored.
type heldWords map[string]*heldWord

type heldWord struct {
	documents marks
	frequency uint64
	idf       float64 // the most that a synonym weighs
}

// heldWords returns the words of the query that have synonyms.
func (q *Query) heldWords(s *Searcher) heldWords {
	held := make(heldWords)
	for _, o := range q.otherWords() {
		held[o.term] = &heldWord{idf: s.idf(0)}
	}
	return held
}

// take notes the documents that hold a word.
func (held heldWords) take(f field, term string, found []posting, frequency uint64, idf float64) {
	h := held[term]
	if h == nil || f != fieldText && f != fieldOutput {
		return
	}
	for _, p := range found {
		h.documents = h.documents.with(p.number)
	}
	if f == fieldText {
		h.frequency, h.idf = frequency, idf
	}
}

// commonFrom returns how many of an account's documents a word may be in at most.
func commonFrom(documents uint64) uint64 { return max(documents/commonSynonym, fewHoldSynonyms) }

// scoreSynonyms adds what synonyms of the query's words weigh in documents without these words.
func (q *Query) scoreSynonyms(s *Searcher, held heldWords, into *scores) error {
	common := commonFrom(s.totals.Documents)
	q.used = nil
	unknown := 0
	for _, o := range q.otherWords() {
		word := held[o.term]
		if word.frequency > common {
			continue
		}
		if o.mistyped(word) && unknown < mistypedWords {
			unknown++
			found, err := s.near(o.written, o.term, word.frequency)
			if err != nil {
				return err
			}
			o.synonyms = slices.Concat(found, o.synonyms)
		}
		for _, field := range [...]field{fieldText, fieldOwn} {
			var best scores
			err := q.scoreOthers(s, field, &o, word, common, &best)
			into.plus(&best)
			best.release()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// scoreOthers finds for each document without a word what the best synonym weighs there, in a field.
func (q *Query) scoreOthers(s *Searcher, f field, o *otherWords, word *heldWord, common uint64, best *scores) error {
	m := s.measureOf(f)
	for _, other := range o.synonyms {
		found, err := s.findIn(nil, f, other.term, true)
		if err != nil {
			return err
		}
		frequency := s.weighed(f, other.term, len(found))
		if len(found) == 0 || frequency > common {
			continue
		}
		idf := synonymShare * other.weight * min(s.idf(frequency), word.idf)
		for _, p := range found {
			if !word.documents.has(p.number) {
				best.atLeast(p.number, m.weight(idf, float64(p.frequency), float64(p.length)))
			}
		}
		if f == fieldText {
			q.used = append(q.used, UsedSynonym{o.written, other.written})
		}
	}
	return nil
}

// UsedSynonym is a synonym that documents were also found by.
type UsedSynonym struct {
	Word    string `json:"word"`
	Synonym string `json:"synonym"`
}

// Used returns the synonyms that the last ranking used, in the order of the query.
func (q *Query) Used() []UsedSynonym { return q.used }

// usedTerms are the terms of these synonyms.
func (q *Query) usedTerms() map[string]bool {
	terms := make(map[string]bool, len(q.used))
	for _, u := range q.used {
		if term, ok := stem([]byte(u.Synonym)); ok {
			terms[term] = true
		}
	}
	return terms
}
