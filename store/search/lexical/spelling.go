package lexical

// A word of a question may be a typing error if it is not English and hardly any document of the account has it; the document that has
// it may be the question itself. The account's words that are one error away then replace the word, like synonyms. How many are tried
// depends on the length of the word, not on the size of the index. Such words have only the letters a to z.
const (
	shortestMistyped = 5  // letters
	longestMistyped  = 24 // letters
	mistypedWords    = 2  // of a question
	mostMistyped     = 3  // documents that have a mistyped word
	nearWeight       = 0.9 / synonymShare
)

// near returns the account's words that a word becomes by one letter more, less, changed or exchanged with the next. The first
// letter stays: it is hardly ever wrong. More documents have these words than the word.
func (s *Searcher) near(written, term string, frequency uint64) (found []otherWord, err error) {
	seen := map[string]bool{term: true}
	take := func(edited string) error {
		other, ok := stem([]byte(edited))
		if !ok || seen[other] {
			return nil
		}
		seen[other] = true
		documents, err := s.find(fieldText, other)
		if err == nil && s.frequency(fieldText, other, len(documents)) > frequency {
			found = append(found, otherWord{other, edited, nearWeight})
		}
		return err
	}
	for i := 1; i <= len(written); i++ {
		edits := make([]string, 0, 2+2*26)
		if i < len(written) {
			edits = append(edits, written[:i]+written[i+1:])
		}
		if i+1 < len(written) {
			edits = append(edits, written[:i]+written[i+1:i+2]+written[i:i+1]+written[i+2:])
		}
		for c := 'a'; c <= 'z'; c++ {
			edits = append(edits, written[:i]+string(c)+written[i:])
			if i < len(written) {
				edits = append(edits, written[:i]+string(c)+written[i+1:])
			}
		}
		for _, edited := range edits {
			if err := take(edited); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// mistyped reports whether a word may be a typing error, and is long enough to be told from a word near it.
func (o *otherWords) mistyped(held *heldWord) bool {
	return !o.english && held.frequency <= mostMistyped && len(o.written) >= shortestMistyped && len(o.written) <= longestMistyped
}
