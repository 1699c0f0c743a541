package search

import "context"

// Embedder turns texts into vectors. Its methods may be called from any goroutine.
type Embedder interface {
	// Identity names the model, its dimensions and everything else that affects vectors, as in
	// "openai/text-embedding-3-small/1536". Vectors of different identities are never compared.
	Identity() string

	// Dimensions is the length of every vector.
	Dimensions() int

	// Embed returns one vector per text, in order, on behalf of an account. An error of kind [codec.KindInvalidRequest]
	// or [codec.KindTooLarge] means that a text can never be embedded; after any other the same texts are tried again.
	Embed(ctx context.Context, account string, use Use, texts []string) ([][]float32, error)
}

// Speller is an embedder whose vectors compare spelling, not meaning. In mode [Auto] a search ranks by words only, and
// uses them only if words find too little.
type Speller interface{ Spells() }

// Use is the purpose of a vector. Some models need different prefixes.
type Use uint8

// Uses.
const (
	ForDocument Use = iota // for indexing
	ForQuery               // for a query
)
