// Package messages implements the Messages format (POST /v1/messages): the codec that reads requests and writes
// answers, and the codec that writes requests and reads answers.
//
// docs/wire/messages.md#4 lists what the format demands of a stream, and how clients react to violations. The rules
// this package relies on:
//
//   - every frame has an event line, because clients drop frames without one;
//   - blocks are numbered 0, 1, 2 in the order of their start, one is open at a time, and each is closed before the
//     next starts and before message_delta;
//   - a signature is sent in one delta right before its block closes: some clients assign it, others append it;
//   - message_delta with the final usage comes next, then message_stop, and nothing after it;
//   - an error event replaces everything that would have followed.
package messages

import "github.com/mnemeproxy/mneme/codec"

type client struct{}

type provider struct{}

// Client returns the codec for clients of the format.
func Client() codec.ClientCodec { return client{} }

// Provider returns the codec for providers of the format.
func Provider() codec.ProviderCodec { return provider{} }

// appendTokenCount writes the answer to a count_tokens request. The request itself has the shape of a message request
// without its limits and is read by the same decoder.
func appendTokenCount(dst []byte, tokens int64) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = appendInt(dst, tokens)
	return append(dst, '}')
}

// answerPrefix is the prefix of answer ids.
const answerPrefix = "msg_"

// Block types used in more than one file.
const (
	blockText             = "text"
	blockThinking         = "thinking"
	blockRedactedThinking = "redacted_thinking"
	blockToolUse          = "tool_use"
	blockToolResult       = "tool_result"
	blockServerToolUse    = "server_tool_use"
	blockMCPToolUse       = "mcp_tool_use"
	blockSearchResult     = "search_result"
	blockCompaction       = "compaction"
)
