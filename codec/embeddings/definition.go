package embeddings

import "github.com/mnemeproxy/mneme/codec"

// Definition returns the format, for the table of formats. It has no codecs: vectors are not events.
func Definition() *codec.Definition {
	return &codec.Definition{Traits: codec.Traits{
		Format:  codec.Embeddings,
		Author:  codec.FamilyOpenAI,
		Vectors: true,
		HTTP: codec.HTTPTraits{
			Embed:      codec.Endpoint{Path: "/embeddings"},
			ListModels: codec.Endpoint{Path: "/models"},
			Limits:     codec.OpenAILimits,
			ListRank:   2,
		},
	}}
}
