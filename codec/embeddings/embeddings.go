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

// Model is what the router's data say about a model. The zero value means unknown: then the host decides.
type Model struct {
	Native  int   // size of the vectors that the model makes by default; 0 if it is Default
	Default int   // size of the answer if the client names none; 0 if unknown
	Sizes   []int // legal sizes, ascending; nil if Min and Max apply, or if the size is fixed
	Min     int   // any size from Min to Max is legal; 0 if Sizes applies, or if the size is fixed
	Max     int

	// Matryoshka says that a prefix of a vector is a valid vector once scaled to length 1.
	Matryoshka bool
	// Truncate allows truncating here the vectors of a Matryoshka model whose host has no size parameter.
	Truncate bool
	// Normalized says that vectors of every size have length 1; otherwise those truncated by the host are scaled here.
	Normalized bool

	MaxInputs int  // of one upstream request; 0: the dialect's
	MaxTokens int  // of all inputs of one upstream request; 0: the dialect's
	Tokens    bool // accepts arrays of token ids
}

// known reports whether the sizes of the model are known.
func (m *Model) known() bool { return m.Default > 0 || len(m.Sizes) > 0 || m.Max > 0 }

// fixed reports whether the model has a single size and refuses a request for it.
func (m *Model) fixed() bool { return m.Default > 0 && len(m.Sizes) == 0 && m.Max == 0 }

// Dialect is how a host spells its requests (docs/wire/embeddings.md#5 and #6). The rows are with the hosts' other
// data.
type Dialect struct {
	Batch bool // uses batchEmbedContents, which has none of the members below

	DimensionsMember string // "dimensions", "output_dimension"; "" if the host has none
	InputTypeMember  string // for retrieval hosts that want "query" or "document"; "" drops it
	TruncationMember string // boolean that is sent as false, so that long inputs fail instead of being truncated; "" for none
	EncodingFormat   bool   // accepts encoding_format "base64"; otherwise answers numbers
	Tokens           bool   // accepts arrays of token ids
	User             bool   // accepts user
	MaxInputs        int    // of one request; 0 if unknown
	MaxTokens        int    // of all inputs of one request; 0 if unknown
}
