package lexical

import (
	"hash/maphash"
	"sync/atomic"

	porterstemmer "github.com/blevesearch/go-porterstemmer"
)

// stemCache remembers the stems of words that come often. An entry gives way to the next word of its place, so that the
// cache has a fixed size: two megabytes when full.
var stemCache [1 << 14]atomic.Pointer[stemmed]

// stemmed is a word and its stem. It fits a line of a processor's cache, for most of what a look-up takes is waiting for
// memory.
type stemmed struct {
	word letters
	stem term // "" of a word that says nothing
}

// letters are a word of lower case ASCII letters, with zeros behind it.
type letters [maxCachedStem]byte

const maxCachedStem = 24 // bytes of a word that is remembered; longer ones seldom come again

// rememberedStem gives the term that a word of at most maxCachedStem lower case ASCII letters is found by; "" where it says
// nothing.
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

// porterStem gives the stem of an English word of lower case letters.
func porterStem(word []byte) string {
	var room [maxCachedStem]rune
	letters := room[:0]
	for _, c := range string(word) {
		letters = append(letters, c)
	}
	return string(porterstemmer.StemWithoutLowerCasing(letters))
}
