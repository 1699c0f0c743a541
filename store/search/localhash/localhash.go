// Package localhash makes vectors from the spelling of texts alone: it hashes their words and the letters next to each
// other. It matches spelling, not meaning: "car" and "cars" are alike, "car" and "automobile" are not. It needs no
// model, no network and no state, and always returns the same vector for the same text. It is meant for offline use,
// for tests, for finding near-duplicates, and as a small help to a search by words.
package localhash

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
)

// Model is the name of the model. What its vectors are made of never changes under this name.
const Model = "local-hash-v1"

// DefaultDimensions is the length that suits searches.
const DefaultDimensions = 1024

// Dimensions are the lengths that vectors can have.
var Dimensions = [...]int{256, 512, 1024, 2048}

// The values that a search by both words and vectors gains most by, on the retrieval sets of the evaluation.
const (
	gramSize       = 4   // letters next to each other
	ideographSize  = 2   // of scripts that write a word in one or two characters
	gramWeight     = 0.4 // of a group of letters, against 1 of a word
	maxWord        = 64  // characters of a word that count
	wordKind       = 'w' // keeps words and groups of letters apart
	gramKind       = 'g'
	beginning, end = '^', '$' // stand at the ends of a word
	hashOffset     = 14695981039346656037
	hashPrime      = 1099511628211
	finishingPrime = 0xd6e8feb86659fd93
)

// Hasher makes vectors of one length. It may be used from any goroutine.
type Hasher struct{ dims int }

// New makes a hasher for vectors of a length in [Dimensions].
func New(dims int) (*Hasher, error) {
	for _, d := range Dimensions {
		if d == dims {
			return &Hasher{dims}, nil
		}
	}
	return nil, fmt.Errorf("%s has vectors of %v dimensions, not of %d", Model, Dimensions, dims)
}

// Dimensions is the length of the vectors.
func (h *Hasher) Dimensions() int { return h.dims }

// Vector returns the vector of a text, at length 1. A text without words has all zeros.
func (h *Hasher) Vector(text string) []float32 {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	s.reset()
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), notInWord) {
		if !stopWords[word] {
			s.addWord(word)
		}
	}
	sums := s.sums[:h.dims] // a whole number of small units each, so that the order of adding does not matter
	clear(sums)
	for i := range s.features {
		f := &s.features[i]
		value := math.Round(f.weight * math.Sqrt(float64(f.count)) * unit)
		if f.hash>>63 == 1 {
			value = -value
		}
		sums[f.hash&uint64(h.dims-1)] += value // dims is a power of two
	}
	var square float64
	for _, v := range sums {
		square += v * v
	}
	vector := make([]float32, h.dims)
	if square == 0 {
		return vector
	}
	scale := 1 / math.Sqrt(square)
	for i, v := range sums {
		vector[i] = float32(v * scale)
	}
	return vector
}

// unit is how finely features are weighed: sums of whole numbers below 2^53 are exact.
const unit = 1 << 20

// feature is a word or a group of letters of a text.
type feature struct {
	hash   uint64
	weight float64
	count  int
}

// scratch is the memory that making a vector takes. The features of a text are found by a hash table with open addressing,
// which the hashes fill evenly: with a map instead a vector takes twice as long.
type scratch struct {
	features []feature
	table    []int32 // places in features, from 1; 0: none. A power of two of them, at least twice the features
	sums     []float64
	letters  []rune // of a word
}

var scratches = sync.Pool{New: func() any {
	return &scratch{
		table:   make([]int32, 1<<10),
		sums:    make([]float64, slices.Max(Dimensions[:])),
		letters: make([]rune, 0, maxWord+2),
	}
}}

func (s *scratch) reset() {
	s.features = s.features[:0]
	clear(s.table)
}

// count adds a feature, or counts it once more.
func (s *scratch) count(hash uint64, weight float64) {
	slot := s.slot(hash)
	if at := s.table[slot]; at > 0 {
		s.features[at-1].count++
		return
	}
	s.features = append(s.features, feature{hash, weight, 1})
	s.table[slot] = int32(len(s.features))
	if 2*len(s.features) > len(s.table) {
		s.grow()
	}
}

// slot is where the table has a hash, or has room for it.
func (s *scratch) slot(hash uint64) uint64 {
	mask := uint64(len(s.table) - 1)
	for slot := hash & mask; ; slot = (slot + 1) & mask {
		if at := s.table[slot]; at == 0 || s.features[at-1].hash == hash {
			return slot
		}
	}
}

func (s *scratch) grow() {
	s.table = make([]int32, 2*len(s.table))
	for i := range s.features {
		s.table[s.slot(s.features[i].hash)] = int32(i + 1)
	}
}

// firstIdeographic is the first character of the scripts that ideographic looks for.
const firstIdeographic = '\u1100'

func ideographic(r rune) bool {
	return r >= firstIdeographic && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

func (s *scratch) addWord(word string) {
	letters := append(s.letters[:0], beginning)
	size := gramSize
	for _, r := range word {
		if len(letters) > maxWord {
			break
		}
		if ideographic(r) {
			size = ideographSize
		}
		letters = append(letters, r)
	}
	letters = append(letters, end)
	s.count(hashOf(wordKind, letters[1:len(letters)-1]), 1)
	for i := 0; i+size <= len(letters); i++ {
		s.count(hashOf(gramKind, letters[i:i+size]), gramWeight)
	}
}

// hashOf is FNV-1a over the bytes of a kind and of letters, finished so that all bits depend on all of them.
func hashOf(kind byte, letters []rune) uint64 {
	h := (hashOffset ^ uint64(kind)) * uint64(hashPrime)
	var encoded [utf8.UTFMax]byte
	for _, r := range letters {
		if r < utf8.RuneSelf {
			h = (h ^ uint64(r)) * hashPrime
			continue
		}
		for _, b := range encoded[:utf8.EncodeRune(encoded[:], r)] {
			h = (h ^ uint64(b)) * hashPrime
		}
	}
	for range 2 {
		h = (h ^ h>>32) * finishingPrime
	}
	return h ^ h>>32
}

func notInWord(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && (r < 'A' || r > 'Z')
	}
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
}

// stopWords are English words that say nothing of what a text is about.
var stopWords = readStopWords()

func readStopWords() map[string]bool {
	m := analysis.NewTokenMap()
	if err := m.LoadBytes(en.EnglishStopWords); err != nil {
		panic(err) // the list is part of the library
	}
	return m
}
