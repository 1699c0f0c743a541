// Package crossing joins any client codec to any provider codec. It is the one place that knows all formats.
//
// Equal formats never get here for their bytes: those pass through untouched, but for what [CleanHistory] takes out of a
// conversation that another provider took part in, and an [Observer] only notes what the record wants to know of them. For
// different formats the way is: decode the client's body to the canonical request, adapt it to the target (adapt.go lists
// the steps), encode it for the provider; then, frame by frame, decode the provider's answer to events, undo what the
// adaption did (undo.go), and encode it for the client.
package crossing

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/responses"
)

// The table of formats.
var (
	clientCodecs = map[codec.Format]codec.ClientCodec{
		codec.Chat:      chat.Client(),
		codec.Responses: responses.Client(),
		codec.Messages:  messages.Client(),
	}
	providerCodecs = map[codec.Format]codec.ProviderCodec{
		codec.Chat:      chat.Provider(),
		codec.Responses: responses.Provider(),
		codec.Messages:  messages.Provider(),
		codec.Gemini:    gemini.Provider(),
	}
)

// ClientCodec is the codec for a surface. Surfaces without a codec of their own, embeddings among them, read chat's errors.
func ClientCodec(surface codec.Format) codec.ClientCodec {
	if side, ok := clientCodecs[surface]; ok {
		return side
	}
	return clientCodecs[codec.Chat]
}

// ProviderCodec is the codec for a format that providers speak; errors of embeddings read like chat's.
func ProviderCodec(format codec.Format) codec.ProviderCodec {
	if side, ok := providerCodecs[format]; ok {
		return side
	}
	return providerCodecs[codec.Chat]
}
