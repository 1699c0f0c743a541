package lexical

import (
	"sync/atomic"

	porterstemmer "github.com/blevesearch/go-porterstemmer"
)

// stemCache caches the stems of frequent words. A new word replaces the entry at its place, so the cache has a fixed
// size: two megabytes when full.
var stemCache [1 << 14]atomic.Pointer[stemmed]

// stemmed is a word and its stem. It fits a processor cache line, because most of a lookup is waiting for memory.
type stemmed struct {
	word letters
	stem term // "" for a stop word
}

const maxCachedStem = 24 // bytes of a cached word; longer ones rarely recur

// stemEntry returns the cache's entry for a word, which may have another word.
func stemEntry(word *letters) *atomic.Pointer[stemmed] {
	return &stemCache[word.hash()%uint64(len(stemCache))]
}

// rememberedStem returns the term for a word of that many lower-case letters; "" for a stop word. known is what its entry
// had.
func rememberedStem(word *letters, length int, known *stemmed) term {
	if known != nil && known.word == *word {
		return known.stem
	}
	s := &stemmed{word: *word}
	var room [maxCachedStem]byte
	if written := word.append(room[:0], length); !stops[string(written)] {
		s.stem = newTerm(porterStem(written))
	}
	stemEntry(word).Store(s)
	return s.stem
}

// porterStem returns the stem of an English word of lower-case letters.
func porterStem(word []byte) string {
	var room [maxCachedStem]rune
	letters := room[:0]
	for _, c := range word {
		letters = append(letters, rune(c))
	}
	var stemRoom [maxCachedStem]byte
	stem := stemRoom[:0]
	for _, c := range porterstemmer.StemWithoutLowerCasing(letters) {
		stem = append(stem, byte(c))
	}
	return string(stem)
}
