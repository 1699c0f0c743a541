// Package crossing joins any client half to any provider half. It is the one place that knows all formats.
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
	clientHalves = map[codec.Format]codec.ClientHalf{
		codec.Chat:      chat.Client(),
		codec.Responses: responses.Client(),
		codec.Messages:  messages.Client(),
	}
	providerHalves = map[codec.Format]codec.ProviderHalf{
		codec.Chat:      chat.Provider(),
		codec.Responses: responses.Provider(),
		codec.Messages:  messages.Provider(),
		codec.Gemini:    gemini.Provider(),
	}
)

// ClientHalf is the half for a surface. Surfaces without a half of their own, embeddings among them, read chat's errors.
func ClientHalf(surface codec.Format) codec.ClientHalf {
	if half, ok := clientHalves[surface]; ok {
		return half
	}
	return clientHalves[codec.Chat]
}

// ProviderHalf is the half for a format that providers speak; errors of embeddings read like chat's.
func ProviderHalf(format codec.Format) codec.ProviderHalf {
	if half, ok := providerHalves[format]; ok {
		return half
	}
	return providerHalves[codec.Chat]
}
