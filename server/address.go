package server

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/store/record"
)

// verb is what a path of Google's API asks of the model that it names.
type verb struct {
	surface   codec.Format
	stream    bool
	single    bool   // the answer is one vector, not a list of them
	auxiliary string // see request
}

// addressedForm is the format of requests whose path says what is asked of which model, and of the errors that answer them.
const addressedForm = codec.Gemini

// verbs are those that are served here; all others are passed on.
var verbs = map[string]verb{
	"generateContent":       {surface: addressedForm},
	"streamGenerateContent": {surface: addressedForm, stream: true},
	"countTokens":           {surface: addressedForm, auxiliary: record.AuxiliaryTokens},
	"embedContent":          {surface: codec.Embeddings, single: true},
	"batchEmbedContents":    {surface: codec.Embeddings},
}

// addressed is what the path says of a request.
type addressed struct {
	verb
	array *gemini.Array // of a stream that is not events; nil: it is
}

// readAddress reads a path, which may lack its version.
func readAddress(path string) (model string, v verb, found bool) {
	path = strings.TrimPrefix(strings.TrimPrefix(path, "/v1beta"), "/v1")
	call, below := strings.CutPrefix(path, "/models/")
	at := strings.LastIndexByte(call, ':')
	if !below || at < 0 {
		return "", verb{}, false
	}
	v, found = verbs[call[at+1:]]
	return call[:at], v, found
}

func (r *request) address(model string, v verb) {
	r.surface, r.auxiliary, r.addressed = v.surface, v.auxiliary, &addressed{verb: v}
	if v.stream && !hasParameter(r.in.Query(), "alt", "sse") {
		r.addressed.array = new(gemini.Array)
	}
	r.envelope.Address(model, v.stream)
}

// array returns the form of a stream that is one JSON array; nil if it is events.
func (r *request) array() *gemini.Array {
	if r.addressed == nil {
		return nil
	}
	return r.addressed.array
}

// streamType is the type of a streamed answer.
func (r *request) streamType() string {
	if r.array() != nil {
		return "application/json"
	}
	return eventStream
}
