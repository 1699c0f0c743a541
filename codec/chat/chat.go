// Package chat is both sides of the Chat Completions format: the client side and the provider side. The providers are
// OpenAI and every host that adopted the format, each with its own deviations. For requests, a [codec.Dialect] says
// which members a host accepts and how it names them. For answers, all deviations are read at once, because they do not
// contradict each other.
//
// Besides OpenAI's own members, both sides support the extensions that are common among hosts and clients:
//
//	reasoning_content, reasoning      visible reasoning as one string
//	thinking_blocks                   visible reasoning with Anthropic's signatures, and redacted blocks
//	reasoning_details                 the same with each vendor's state, for the host that sent it
//	content chunks of type thinking   Mistral's form
//	extra_content.google              thought signatures of Google's own chat endpoint
//	cache_control                     cache breakpoints on content parts and tools
package chat

import "github.com/mnemeproxy/mneme/codec"

type client struct{}

// Client returns the codec for clients of Chat Completions.
func Client() codec.ClientCodec { return client{} }

type provider struct {
	endsWithoutFinish bool
}

// Provider returns the codec for OpenAI and for compatible hosts that end their streams as OpenAI does.
func Provider() codec.ProviderCodec { return provider{} }

// ProviderOf is [Provider] for a host of that dialect: it also accepts a stream without a finish reason if the dialect
// says that this host's streams end so.
func ProviderOf(d codec.Dialect) codec.ProviderCodec {
	return provider{endsWithoutFinish: d.EndsWithoutFinish}
}
