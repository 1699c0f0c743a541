package router

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// An Embedder is how vectors of a placed model are asked for.
type Embedder struct {
	Format    codec.Format // [codec.Embeddings], or [codec.Gemini] for batchEmbedContents
	Dialect   EmbeddingsDialect
	Model     EmbeddingModel
	MaxInputs int // inputs of one upstream request; longer lists are split; 0 when no limit is known

	name string
}

// Embedder says how to ask for vectors, or [codec.KindInvalidRequest] when the provider has none.
func (r *Router) Embedder(p Placement) (Embedder, *codec.Error) {
	format := p.Provider.embeddingFormat()
	if format == codec.FormatUnknown {
		return Embedder{}, r.noEmbeddings(p)
	}
	e := Embedder{
		Format:  format,
		Dialect: p.Provider.dialect.Embeddings,
		Model:   r.models.model(p.Model).Embedding,
		name:    p.Model,
	}
	e.MaxInputs = e.Dialect.MaxInputs
	if e.Model.MaxInputs > 0 {
		e.MaxInputs = e.Model.MaxInputs
	}
	return e, nil
}

// CheckDimensions tells whether the model can be asked for vectors of n numbers. It is for requests that name a size;
// those that do not get the model's default. Sizes of unknown models are left to the provider.
func (e *Embedder) CheckDimensions(n int64) *codec.Error {
	switch {
	case n < 1:
		return codec.Invalid("dimensions", "dimensions is %d: it has to be 1 or more", n)
	case e.Model.Default == 0 || e.Model.takes(n):
		return nil
	case e.Model.fixed():
		return codec.Invalid("dimensions", "Model %s makes vectors of %d dimensions and cannot be asked for another size: leave dimensions out.",
			e.name, e.Model.Default)
	default:
		return codec.Invalid("dimensions", "Model %s cannot make vectors of %d dimensions. Legal are %s; the default is %d.",
			e.name, n, e.Model.sizes(), e.Model.Default)
	}
}

// fixed models refuse the member altogether, even with their own size.
func (m *EmbeddingModel) fixed() bool { return len(m.Dimensions) == 0 && m.Max == 0 }

func (m *EmbeddingModel) takes(n int64) bool {
	if m.Max > 0 {
		return n >= int64(m.Min) && n <= int64(m.Max)
	}
	return slices.ContainsFunc(m.Dimensions, func(d int) bool { return int64(d) == n })
}

func (m *EmbeddingModel) sizes() string {
	if m.Max > 0 {
		return fmt.Sprintf("all sizes from %d to %d", m.Min, m.Max)
	}
	list := make([]string, len(m.Dimensions))
	for i, d := range m.Dimensions {
		list[i] = strconv.Itoa(d)
	}
	return strings.Join(list, ", ")
}

// noEmbeddings names the providers that have what this one lacks.
func (r *Router) noEmbeddings(p Placement) *codec.Error {
	var have []string
	for _, name := range r.names {
		if r.providers[name].embeddingFormat() != codec.FormatUnknown {
			have = append(have, name)
		}
	}
	hint := "No configured provider has them."
	if len(have) > 0 {
		hint = "Providers that have them: " + strings.Join(have, ", ") + "."
	}
	err := codec.Invalid("model", "Model %s belongs to provider %s, which has no embeddings. %s", p.Asked, p.Provider.name, hint)
	err.Code = "model_has_no_embeddings"
	return err
}
