// Package gemini is both sides of Google's generateContent: the client side reads requests, and writes answers and errors; the
// provider side writes requests for the Gemini API and reads its answers, streamed and complete, and its errors.
//
// The format has these peculiarities. Roles alternate, so neighboring contents of one role are joined. Tool results
// are in a content of their own, with role "user". Arguments are objects; other formats carry strings. A stream is a
// sequence of whole answers with neither event names nor a terminal event, so only a finish reason distinguishes a
// finished answer from a cut connection. A turn that calls tools has the same finish reason as one that does not.
package gemini

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/schemacache"
)

// Provider returns the codec for Google. It is safe for concurrent use and caches cleaned tool schemas, so one value
// should serve the whole process.
func Provider() codec.ProviderCodec {
	return &provider{schemas: schemacache.New(cleanUp)}
}

type provider struct {
	schemas *schemacache.Cache[cleanSchema]
}

func (p *provider) NewDecoder() codec.StreamDecoder { return &decoder{} }

// DecodeAnswer reads a complete answer, or the array of answers that a stream becomes without alt=sse. A complete
// answer has the shape of a frame, so the frame decoder reads it.
func (p *provider) DecodeAnswer(dst []codec.Event, body []byte, _ string) []codec.Event {
	var d decoder
	dst = d.Decode(dst, nil, body)
	return d.Finish(dst, codec.EndEOF, nil)
}
