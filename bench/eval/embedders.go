package main

import (
	"context"
	"hash/fnv"
	"math"
	"math/rand/v2"

	"github.com/mnemeproxy/mneme/store/search"
)

// noisy is an embedder that knows less than the one it is made of: vectors of the same length that say nothing about a text are added.
// It stands for an embedder that was trained for something else, and, where the noise is all, for one that is broken.
type noisy struct {
	*thesaurus
	name  string
	noise float32 // share of the vectors, 0 to 1
}

// Identity implements [search.Embedder].
func (n *noisy) Identity() string { return n.name }

// Embed implements [search.Embedder].
func (n *noisy) Embed(ctx context.Context, account string, use search.Use, texts []string) ([][]float32, error) {
	vectors, err := n.thesaurus.Embed(ctx, account, use, texts)
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		n.disturb(vectors[i], text)
	}
	return vectors, nil
}

// disturb adds noise that is the same whenever the text is.
func (n *noisy) disturb(v []float32, text string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	random := rand.New(rand.NewPCG(h.Sum64(), 31))
	length := 0.0
	for _, x := range v {
		length += float64(x) * float64(x)
	}
	scale := float32(1 / max(math.Sqrt(length), 1e-9))
	each := n.noise / float32(math.Sqrt(float64(len(v))))
	for i := range v {
		v[i] = v[i]*scale*(1-n.noise) + each*float32(random.NormFloat64())
	}
}
