package lexical

// A word of a question that is no English one and that hardly a document of the account has may be a typing error; the one that has it
// may be the question itself. It is then replaced by the account's words that are one error away, like a synonym. Their number, and so
// the work, depends on the length of the word, not on the size of the index.
const (
	shortestMistyped = 5  // letters
	longestMistyped  = 24 // letters
	mistypedWords    = 2  // of a question
	fewMistype       = 3  // documents that have a mistyped word
	nearWeight       = 0.9 / synonymShare
)

// near returns the account's words that a word becomes by one letter more, less, changed or exchanged with the next. The first
// letter is the one that is hardly ever wrong. More documents have these words than the word.
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

// mistyped reports whether a word is long enough to be told from a word near it, no English one, and hardly a document has it.
func (o *otherWords) mistyped(held *heldWord) bool {
	return !o.english && held.frequency <= fewMistype && len(o.written) >= shortestMistyped && len(o.written) <= longestMistyped
}
