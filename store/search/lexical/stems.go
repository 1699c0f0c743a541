package lexical

import (
	"hash/maphash"
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

// letters is a word of lower-case ASCII letters, padded with zeros.
type letters [maxCachedStem]byte

const maxCachedStem = 24 // bytes of a cached word; longer ones rarely recur

// rememberedStem returns the term for a word of at most maxCachedStem lower-case ASCII letters; "" for a stop word.
func rememberedStem(word *letters, length int) term {
	slot := &stemCache[maphash.Bytes(termSeed, word[:length])%uint64(len(stemCache))]
	if known := slot.Load(); known != nil && known.word == *word {
		return known.stem
	}
	s := &stemmed{word: *word}
	if written := word[:length]; !stops[string(written)] {
		s.stem = newTerm(porterStem(written))
	}
	slot.Store(s)
	return s.stem
}

// porterStem returns the stem of an English word of lower-case letters.
func porterStem(word []byte) string {
	var room [maxCachedStem]rune
	letters := room[:0]
	for _, c := range string(word) {
		letters = append(letters, c)
	}
	return string(porterstemmer.StemWithoutLowerCasing(letters))
}
