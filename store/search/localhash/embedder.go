package localhash

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/store/search"
)

// Embedder is a hasher as searches use it.
type Embedder struct{ *Hasher }

// Identity names the model and the length of its vectors.
func (e Embedder) Identity() string { return fmt.Sprintf("%s/%d", Model, e.dims) }

// Embed implements [search.Embedder].
func (e Embedder) Embed(ctx context.Context, _ string, _ search.Use, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		vectors[i] = e.Vector(text)
	}
	return vectors, nil
}

// Spells implements [search.Speller].
func (Embedder) Spells() {}

var (
	_ search.Embedder = Embedder{}
	_ search.Speller  = Embedder{}
)
