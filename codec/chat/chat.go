// Package chat is both sides of the Chat Completions format: what its clients send and expect, and what its providers
// expect and send. "Its providers" are OpenAI and every host that took the format over, each with habits of its own:
// on the way out a [codec.Dialect] says which members a host takes and how it names them; on the way in all habits are
// read at once, because they do not contradict each other.
//
// Beyond OpenAI's own members both sides speak what has become common among hosts and clients:
//
//	reasoning_content, reasoning      visible reasoning as one string
//	thinking_blocks                   visible reasoning with Anthropic's signatures, and redacted blocks
//	reasoning_details                 the same with each house's state (read only)
//	content chunks of type thinking   Mistral's form
//	extra_content.google              thought signatures of Google's own chat endpoint
//	cache_control                     cache breakpoints on content parts and tools
package chat

import "github.com/mnemeproxy/mneme/codec"

type client struct{}

// Client is the codec that clients of Chat Completions talk to.
func Client() codec.ClientCodec { return client{} }

type provider struct {
	endsWithoutFinish bool
}

// Provider is the codec that talks to OpenAI and to compatible hosts that end their streams as OpenAI does.
func Provider() codec.ProviderCodec { return provider{} }

// ProviderOf is [Provider] for a host of that dialect: it also accepts a stream that ends without a finish reason where
// the dialect says that this host's streams do.
func ProviderOf(d codec.Dialect) codec.ProviderCodec {
	return provider{endsWithoutFinish: d.EndsWithoutFinish}
}
