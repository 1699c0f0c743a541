package search

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// clueless is an embedder whose vectors say nothing about the texts.
type clueless struct{ *speaker }

func (c clueless) Embed(_ context.Context, _ string, _ Use, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		random := rand.New(rand.NewPCG(h.Sum64(), 5))
		vectors[i] = make([]float32, c.dims)
		for j := range vectors[i] {
			vectors[i][j] = float32(random.NormFloat64())
		}
	}
	return vectors, nil
}

func TestAnEmbedderThatKnowsNothingDoesNotChangeTheOrder(t *testing.T) {
	m := openMemoryWith(t, t.TempDir(), Options{Embedder: clueless{newSpeaker("clueless", 1024)}})
	words := []string{"harbor", "glacier", "lantern", "compass", "kayak", "honey"}
	for n := range 64 { // each holds another choice of the words, in another length
		var said []string
		for i, word := range words {
			if n>>i&1 == 1 {
				said = append(said, word)
			}
		}
		m.capture("acme", talk(fmt.Sprintf("note%d: %s", n, strings.Join(said, " and ")), strings.Repeat("well then ", n%7)))
	}
	const question = "which harbor was it where the glacier and the lantern and the compass are"
	byWords := m.search("acme", Request{Query: question, Mode: Lexical, Limit: 20})
	both := m.search("acme", Request{Query: question, Limit: 20})
	scores := make(map[string]float64) // equal ones may change places
	for i := range byWords.Data {
		scores[byWords.Data[i].Exchange] = byWords.Data[i].Score
	}
	var ordered []float64
	for _, id := range exchangesOf(both) {
		ordered = append(ordered, -scores[id])
	}
	if both.ModeUsed != Hybrid || len(ordered) != 20 || !slices.IsSorted(ordered) {
		t.Errorf("%s finds %v, by words it is %v", both.ModeUsed, exchangesOf(both), exchangesOf(byWords))
	}
}

// candidates returns hits by words whose likeness is what a function makes of their place.
func candidates(many int, likeness func(i int) float64) (hits []*candidate) {
	for i := range many {
		cosine, own := likeness(i), 20/(1+float64(i)/10)
		hits = append(hits, &candidate{bm25: own, words: own, cosine: &cosine})
	}
	return hits
}

func TestVectorsWeighWhatTheyAgreeWithWords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	along := func(i int) float64 { return 0.9 / (1 + float64(i)/10) }
	for name, c := range map[string]struct {
		hits        []*candidate
		least, most float64
	}{
		"alike where words are":         {candidates(100, along), 1, 1},
		"alike at random":               {candidates(100, func(int) float64 { return random.NormFloat64() / 10 }), 0, 0},
		"alike where words are not":     {candidates(100, func(i int) float64 { return -along(i) }), 0, 0},
		"all alike":                     {candidates(100, func(int) float64 { return 0.5 }), 1, 1},
		"too few to tell":               {candidates(5, func(i int) float64 { return -along(i) }), 1, 1},
		"none":                          {nil, 1, 1},
		"alike, with noise in addition": {candidates(100, func(i int) float64 { return along(i) + random.NormFloat64()/10 }), 0.5, 1},
	} {
		if got := agreement(c.hits); got < c.least || got > c.most {
			t.Errorf("%s: the vectors deserve %.2f of their weight, want %.2f to %.2f", name, got, c.least, c.most)
		}
	}
}

func TestWhatIsAroundATurnCountsAsWords(t *testing.T) {
	plain := candidates(10, func(int) float64 { return 0 })
	if got := weightWithContext(0.25, plain); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("without anything around the weight is %v, want 0.25", got)
	}
	for _, c := range plain {
		c.words = c.bm25 + 20
	}
	// Two turns a tenth of the best BM25 apart are as far apart as before, beside the same difference in likeness.
	got := weightWithContext(0.25, plain)
	if before, now := 0.75*0.1/0.25, (1-got)*0.1/2/got; math.Abs(before-now) > 1e-9 {
		t.Errorf("a difference in words weighs %v of one in likeness, want %v", now, before)
	}
	if got := weightWithContext(1, plain); got != 1 {
		t.Errorf("vectors alone weigh %v, want 1", got)
	}
}
