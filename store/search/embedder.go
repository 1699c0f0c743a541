package search

import "context"

// Embedder turns texts into vectors. Its methods may be called from any goroutine.
type Embedder interface {
	// Identity names the model, its dimensions and whatever else changes vectors, as in
	// "openai/text-embedding-3-small/1536". Vectors of different identities are never compared.
	Identity() string

	// Dimensions is the length of every vector.
	Dimensions() int

	// Embed gives one vector for each text, in order, on behalf of an account. An error of kind
	// [codec.KindInvalidRequest] or [codec.KindTooLarge] says that a text cannot be embedded, now or later; after any
	// other the same texts are tried again.
	Embed(ctx context.Context, account string, use Use, texts []string) ([][]float32, error)
}

// Speller is an embedder whose vectors compare how texts are spelled, not what they mean. A search in the mode [Auto] ranks
// by words alone, and asks it for more only where words find too little.
type Speller interface{ Spells() }

// Use says what a vector is for. Some models put another prefix before each.
type Use uint8

// Uses.
const (
	ForDocument Use = iota // to be found
	ForQuery               // to find with
)
