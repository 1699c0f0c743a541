// Package gemini is the provider codec of Google's generateContent: it writes requests for the Gemini API and reads its
// answers, streamed and complete, and its errors. There is no client codec: no surface speaks this format.
//
// What is peculiar about the format: roles alternate, so neighbours of one role are joined into one content; results of
// tools stand alone in a content of role "user"; arguments are objects where other formats carry strings; a stream is a
// sequence of whole answers without event names and without a terminal event, so that only a finish reason tells a
// finished answer from a cut connection; a turn that calls tools finishes with the same word as one that does not.
package gemini

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/schemacache"
)

// Provider is the codec of the format that faces Google. It is safe for concurrent use and keeps the cleaned form of tool
// schemas that it has seen, so one value should serve the whole process.
func Provider() codec.ProviderCodec {
	return &provider{schemas: schemacache.New(cleanUp)}
}

type provider struct {
	schemas *schemacache.Cache[cleanSchema]
}

func (p *provider) NewDecoder() codec.StreamDecoder { return &decoder{} }

// DecodeAnswer reads a complete answer, or the array of answers that a stream becomes without alt=sse. A complete
// answer has the shape of a frame, so the frame decoder reads it.
func (p *provider) DecodeAnswer(dst []codec.Event, body []byte) []codec.Event {
	var d decoder
	dst = d.Decode(dst, nil, body)
	return d.Finish(dst, codec.EndEOF, nil)
}
