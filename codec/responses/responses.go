// Package responses implements both sides of the Responses format (POST /v1/responses).
//
// An answer of this format is a list of items (messages, reasoning, calls), and a request's history is the same list.
// Package codec has messages with parts instead, so the request decoder gathers neighbouring items into turns, and the
// encoder spreads turns into items.
package responses

import "github.com/mnemeproxy/mneme/codec"

type client struct{}

type provider struct{}

// Client is the codec that talks to clients of this format.
func Client() codec.ClientCodec { return client{} }

// Provider is the codec that talks to providers of this format.
func Provider() codec.ProviderCodec { return provider{} }

// answerPrefix is how ids of answers begin.
const answerPrefix = "resp_"

// Types of items, as the wire spells them.
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

// Names that stand for the tools which the client runs by a documented shape. Such a tool has no name on the wire, only
// a type; in the vocabulary its declaration, its calls and their results are joined by these.
const (
	nameLocalShell = "local_shell"
	nameShell      = "shell"
	nameApplyPatch = "apply_patch"
	nameComputer   = "computer"
	nameToolSearch = "tool_search"
)

// includeState is the word in the request member include that asks for the state of reasoning items.
const includeState = "reasoning.encrypted_content"

// includeLogprobs is the word that asks for the log probabilities of output text.
const includeLogprobs = "message.output_text.logprobs"
