// Package responses implements both sides of the Responses format (POST /v1/responses).
//
// An answer of this format is a list of items (messages, reasoning, calls), and a request's history is the same list.
// Package codec has messages with parts instead, so the request decoder gathers neighboring items into turns, and the
// encoder spreads turns into items.
package responses

import "github.com/mnemeproxy/mneme/codec"

type client struct{}

type provider struct{}

// Client returns the codec for clients of this format.
func Client() codec.ClientCodec { return client{} }

// Provider returns the codec for providers of this format.
func Provider() codec.ProviderCodec { return provider{} }

// answerPrefix is the prefix of ids of answers.
const answerPrefix = "resp_"

// Types of items on the wire.
const (
	typeMessage         = "message"
	typeReasoning       = "reasoning"
	typeCall            = "function_call"
	typeOutput          = "function_call_output"
	typeCustomCall      = "custom_tool_call"
	typeCustomOut       = "custom_tool_call_output"
	typeWebSearch       = "web_search_call"
	typeImageGeneration = "image_generation_call"
)

// Names for tools that the client runs by a documented shape. Such a tool has no name on the wire, only a type; in the
// vocabulary these names connect its declaration, its calls and their results.
const (
	nameLocalShell = "local_shell"
	nameShell      = "shell"
	nameApplyPatch = "apply_patch"
	nameComputer   = "computer"
	nameToolSearch = "tool_search"
)

// includeState is the value in the request member include that asks for the state of reasoning items.
const includeState = "reasoning.encrypted_content"

// includeLogprobs is the value that asks for the log probabilities of output text.
const includeLogprobs = "message.output_text.logprobs"
