package router

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/embeddings"
)

// An Embedder is what has to be known to ask for vectors of a placed model: what [embeddings.NewPlan] takes.
type Embedder struct {
	Format  codec.Format // in which the provider is asked
	Model   embeddings.Model
	Dialect embeddings.Dialect
}

// Embedder says how to ask for vectors, or [codec.KindInvalidRequest] when the provider has none.
func (r *Router) Embedder(p Placement) (Embedder, *codec.Error) {
	format := p.Provider.embeddingFormat()
	if format == codec.FormatUnknown {
		return Embedder{}, r.noEmbeddings(p)
	}
	e := Embedder{Model: r.models.model(p.Model).Embedding, Dialect: p.Provider.dialect.Embeddings, Format: format}
	e.Dialect.Batch = crossing.Traits(format).HTTP.BatchEmbed
	return e, nil
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
