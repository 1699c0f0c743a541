package main

import (
	"context"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"unicode"

	porterstemmer "github.com/blevesearch/go-porterstemmer"

	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// thesaurus stands for an embedder that compares meaning. It knows words that mean the same, how rare each word is in the
// texts that it was made for, and how words are spelled; of the questions and their judgements it knows nothing. The same
// texts always give the same vectors.
type thesaurus struct {
	rarity map[string]float64 // by concept
	rarest float64            // of concepts in no text
	hasher *localhash.Hasher
}

// thesaurusDimensions are enough that unrelated words hardly ever look alike.
const thesaurusDimensions = 2048

// newThesaurus learns how rare words are from the documents of a set.
func newThesaurus(s *set) (*thesaurus, error) {
	hasher, err := localhash.New(thesaurusDimensions)
	if err != nil {
		return nil, err
	}
	t := &thesaurus{hasher: hasher, rarity: make(map[string]float64), rarest: math.Log(float64(1 + len(s.documents)))}
	for i := range s.documents {
		d := &s.documents[i]
		user, assistant := d.spoken()
		held := concepts(user + " " + assistant + " " + d.Command + " " + d.Output)
		slices.Sort(held)
		for _, concept := range slices.Compact(held) {
			t.rarity[concept]++
		}
	}
	for concept, documents := range t.rarity {
		t.rarity[concept] = math.Log(1 + (float64(len(s.documents))-documents+0.5)/(documents+0.5))
	}
	return t, nil
}

// Identity implements [search.Embedder].
func (t *thesaurus) Identity() string { return "thesaurus" }

// Dimensions implements [search.Embedder].
func (t *thesaurus) Dimensions() int { return thesaurusDimensions }

// Embed implements [search.Embedder].
func (t *thesaurus) Embed(ctx context.Context, _ string, _ search.Use, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = t.vector(text)
	}
	return vectors, nil
}

// vector is half of meaning and half of spelling. Meaning is the sum of a direction for each concept, weighed by how rare it
// is and, less and less, how often it comes.
func (t *thesaurus) vector(text string) []float32 {
	words := concepts(text)
	held := slices.Sorted(slices.Values(words)) // sums of floats depend on their order
	v := make([]float32, thesaurusDimensions)
	for len(held) > 0 {
		concept, times := held[0], 1
		for times < len(held) && held[times] == concept {
			times++
		}
		held = held[times:]
		rarity, known := t.rarity[concept]
		if !known {
			rarity = t.rarest
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(concept))
		seed := h.Sum64()
		for range 8 { // values that a concept changes
			seed = seed*6364136223846793005 + 1442695040888963407
			v[(seed>>33)%thesaurusDimensions] += (1 - 2*float32(seed>>63)) * float32(rarity*(1+math.Log(float64(times))))
		}
	}
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	scale := float32(1 / max(math.Sqrt(length), 1e-9))
	for i, x := range t.hasher.Vector(strings.Join(words, " ")) {
		v[i] = v[i]*scale + x
	}
	return v
}

// concepts returns the concepts of a text's words: synonyms are one concept, any other word is its stem.
func concepts(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	for i, word := range words {
		words[i] = conceptOf(word)
	}
	return words
}

func conceptOf(word string) string {
	stem := string(porterstemmer.StemWithoutLowerCasing([]rune(word)))
	if concept, known := conceptsByStem[stem]; known {
		return concept
	}
	return stem
}

// synonyms are words that mean the same.
var synonyms = [][]string{
	{"buy", "purchase", "acquire"},
	{"repair", "fix", "mend"},
	{"begin", "start", "commence"},
	{"sell", "vend"},
	{"borrow", "lend"},
	{"clean", "wash"},
	{"find", "locate"},
	{"hide", "conceal"},
	{"build", "construct"},
	{"choose", "select"},
	{"car", "automobile"},
	{"bicycle", "bike"},
	{"sofa", "couch"},
	{"lamp", "lantern"},
	{"carpet", "rug"},
	{"house", "home"},
	{"boat", "vessel"},
	{"coat", "jacket"},
	{"camera", "camcorder"},
	{"garden", "yard"},
	{"photo", "picture", "photograph"},
	{"fast", "quick", "rapid"},
	{"large", "big", "huge"},
	{"cheap", "inexpensive"},
	{"old", "ancient"},
	{"broken", "damaged"},
	{"beautiful", "lovely", "pretty"},
	{"costly", "expensive"},
	{"tiny", "small", "little"},
	{"strange", "odd", "weird"},
	{"sturdy", "robust"},
	{"physician", "doctor"},
	{"film", "movie"},
	{"illness", "disease"},
	{"job", "work", "occupation"},
	{"child", "kid"},
	{"suggest", "recommend", "advise"},
	{"happy", "glad"},
	{"sad", "unhappy"},
	{"hobby", "pastime"},
	{"trip", "journey", "travel"},
	{"error", "failure", "fault"},
	{"stop", "end", "finish"},
	{"help", "assist"},
	{"answer", "reply"},
	{"meal", "dish"},
}

var conceptsByStem = func() map[string]string {
	m := make(map[string]string)
	for _, group := range synonyms {
		for _, word := range group {
			m[string(porterstemmer.StemWithoutLowerCasing([]rune(word)))] = "same" + group[0]
		}
	}
	return m
}()
