package lexical

import (
	"hash/maphash"
	"sync/atomic"

	porterstemmer "github.com/blevesearch/go-porterstemmer"
)

// stemCache remembers the stems of words that come often. An entry gives way to the next word of its place, so that the
// cache has a fixed size: half a megabyte when full.
var stemCache [1 << 13]atomic.Pointer[stemmed]

var stemSeed = maphash.MakeSeed()

type stemmed struct{ word, stem string }

const maxCachedStem = 24 // bytes of a word that is remembered; longer ones seldom come again

// englishStem gives the stem of a word of lower case ASCII letters.
func englishStem(word []byte) string {
	if len(word) > maxCachedStem {
		return porterStem(word)
	}
	slot := &stemCache[maphash.Bytes(stemSeed, word)%uint64(len(stemCache))]
	if known := slot.Load(); known != nil && known.word == string(word) {
		return known.stem
	}
	s := &stemmed{word: string(word), stem: porterStem(word)}
	slot.Store(s)
	return s.stem
}

func porterStem(word []byte) string {
	return string(porterstemmer.StemWithoutLowerCasing([]rune(string(word))))
}
