// Package localhash turns texts into vectors by their spelling alone: the words of a text and the letters next to each
// other in them, hashed. It matches spelling, not meaning: "car" and "cars" are alike, "car" and "automobile" are not.
// It needs no model, no network and no state, and gives the same vector for the same text for ever. It is meant for
// work offline, for tests, for finding near-duplicates, and as a small help to a search by words.
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

// Vector gives the vector of a text, at length 1. A text without words has all zeros.
func (h *Hasher) Vector(text string) []float32 {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	clear(s.weights)
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), notInWord) {
		if !stopWords[word] {
			s.addWord(word)
		}
	}
	sums := s.sums[:h.dims] // a whole number of small units each, so that the order of adding does not matter
	clear(sums)
	for hash, f := range s.weights {
		value := math.Round(f.weight * math.Sqrt(float64(f.count)) * unit)
		if hash>>63 == 1 {
			value = -value
		}
		sums[hash%uint64(h.dims)] += value
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
	weight float64
	count  int
}

// scratch is the memory that making a vector takes.
type scratch struct {
	weights map[uint64]feature
	sums    []float64
	letters []rune // of a word
}

var scratches = sync.Pool{New: func() any {
	return &scratch{
		weights: make(map[uint64]feature),
		sums:    make([]float64, slices.Max(Dimensions[:])),
		letters: make([]rune, 0, maxWord+2),
	}
}}

func (s *scratch) addWord(word string) {
	letters := append(s.letters[:0], beginning)
	ideographic := false
	for _, r := range word {
		if len(letters) > maxWord {
			break
		}
		ideographic = ideographic || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
		letters = append(letters, r)
	}
	letters = append(letters, end)
	s.count(hashOf(wordKind, letters[1:len(letters)-1]), 1)
	size := gramSize
	if ideographic {
		size = ideographSize
	}
	for i := 0; i+size <= len(letters); i++ {
		s.count(hashOf(gramKind, letters[i:i+size]), gramWeight)
	}
}

func (s *scratch) count(hash uint64, weight float64) {
	f := s.weights[hash]
	s.weights[hash] = feature{weight, f.count + 1}
}

// hashOf is FNV-1a over the bytes of a kind and of letters, finished so that all bits depend on all of them.
func hashOf(kind byte, letters []rune) uint64 {
	h := (hashOffset ^ uint64(kind)) * uint64(hashPrime)
	var encoded [utf8.UTFMax]byte
	for _, r := range letters {
		for _, b := range encoded[:utf8.EncodeRune(encoded[:], r)] {
			h = (h ^ uint64(b)) * hashPrime
		}
	}
	for range 2 {
		h = (h ^ h>>32) * finishingPrime
	}
	return h ^ h>>32
}

func notInWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }

// stopWords are English words that say nothing of what a text is about.
var stopWords = readStopWords()

func readStopWords() map[string]bool {
	m := analysis.NewTokenMap()
	if err := m.LoadBytes(en.EnglishStopWords); err != nil {
		panic(err) // the list is part of the library
	}
	return m
}
