// Package embeddings reads requests of the Embeddings surface, writes them for the hosts that make vectors, and joins
// their answers.
//
// Hosts differ in the names of a few members, in how much they accept at once, and in whether vectors are numbers or
// base64. Google's API also differs in shape. A request therefore goes upstream as one or more batches:
//
//	r, err := embeddings.Decode(body)
//	plan, err := embeddings.NewPlan(r, model, dialect)
//	for _, batch := range plan.Batches {
//		body = plan.AppendRequest(body[:0], batch, upstreamModel)
//		err = plan.DecodeAnswer(batch, answer)   // in any order
//	}
//	answer, err = plan.AppendAnswer(nil)
//
// Hosts' errors have the shapes of the chat and gemini formats; errors to clients have the shape of chat. Those codecs
// read and write them.
package embeddings

// Model is what the router's data say of a model. The zero value means that nothing is known: then the host judges.
type Model struct {
	Native  int   // size of the vectors that the model makes by itself; 0 when it is Default
	Default int   // size of the answer when the client names none; 0 when unknown
	Sizes   []int // legal sizes, ascending; nil when Min and Max say it, or when the size is fixed
	Min     int   // any size from Min to Max is legal; 0 when Sizes says it, or when the size is fixed
	Max     int

	// Matryoshka says that the first numbers of a vector are a vector themselves, once scaled to length 1.
	Matryoshka bool
	// Truncate lets this side cut the vectors of a Matryoshka model whose host cannot be asked for a size.
	Truncate bool
	// Normalized says that vectors of every size come with length 1; otherwise those that the host cut are scaled here.
	Normalized bool

	MaxInputs int  // of one upstream request; 0 leaves it to the dialect
	MaxTokens int  // of all inputs of one upstream request; 0 leaves it to the dialect
	Tokens    bool // takes arrays of token ids
}

// known reports whether the sizes of the model are known.
func (m *Model) known() bool { return m.Default > 0 || len(m.Sizes) > 0 || m.Max > 0 }

// fixed reports whether the model has a single size and refuses to be asked for it.
func (m *Model) fixed() bool { return m.Default > 0 && len(m.Sizes) == 0 && m.Max == 0 }

// Dialect is how a host spells its requests (docs/wire/embeddings.md#5 and #6). The rows stand with the hosts'
// other data.
type Dialect struct {
	Batch bool // is asked by batchEmbedContents, which knows none of the members below

	DimensionsMember string // "dimensions", "output_dimension"; "" when the host takes none
	InputTypeMember  string // where retrieval hosts want "query" or "document"; "" drops it
	TruncationMember string // boolean that is sent as false, so that long inputs fail and are not cut; "" for none
	EncodingFormat   bool   // takes encoding_format "base64"; otherwise answers numbers
	Tokens           bool   // takes arrays of token ids
	User             bool   // takes user
	MaxInputs        int    // of one request; 0 when unknown
	MaxTokens        int    // of all inputs of one request; 0 when unknown
}
