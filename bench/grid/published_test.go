package grid

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/bench/published"
	"github.com/mnemeproxy/mneme/codec"
)

// beyond lists members of translated answers that the types of the SDKs do not have, with 0 for every number. All of
// them are documented, or customary among hosts and known to clients.
var beyond = []string{
	// Chat
	".choices[0].message.reasoning_content: ChatCompletionMessage has no such member",
	".choices[0].message.thinking_blocks: ChatCompletionMessage has no such member",
	".choices[0].message.tool_calls[0].extra_content: ChatCompletionMessageFunctionToolCall has no such member",
	".choices[0].message.tool_calls[0].extra_content: ChatCompletionMessageCustomToolCall has no such member",
	".choices[0].delta.reasoning_content: ChatCompletionChunkChoiceDelta has no such member",
	".choices[0].delta.thinking_blocks: ChatCompletionChunkChoiceDelta has no such member",
	".choices[0].delta.annotations: ChatCompletionChunkChoiceDelta has no such member",
	".choices[0].delta.tool_calls[0].extra_content: ChatCompletionChunkChoiceDeltaToolCall has no such member",
	".choices[0].delta.tool_calls[0].custom: ChatCompletionChunkChoiceDeltaToolCall has no such member",
	// Responses
	".presence_penalty: Response has no such member",
	".frequency_penalty: Response has no such member",
	".response.presence_penalty: Response has no such member",
	".response.frequency_penalty: Response has no such member",
	".user: it may be missing, but not be null",
	".store: Response has no such member",
	".output[0].status: ResponseCustomToolCall has no such member",
	".response.user: it may be missing, but not be null",
	".response.store: Response has no such member",
	".response.usage: it may be missing, but not be null",
	".response.output[0].status: ResponseCustomToolCall has no such member",
	".item.status: ResponseCustomToolCall has no such member",
	".name: ResponseFunctionCallArgumentsDoneEvent has no such member",
	`: {"type":"keepalive","sequence_number":0} is no variant of ResponseStreamEventUnion`,
	// Messages
	`: {"type":"ping"} is no variant of MessageStreamEventUnion`,
	".content_block.citations" + missing, // Anthropic's own streams begin a text without them, see docs/wire/messages.md#4.1
	".error.details: OverloadedErrorObject has no such member",
}

const missing = ": it is required, and missing"

var number = regexp.MustCompile(`[0-9]+`)

// published returns where the newest answer deviates from the published types. For Chat Completions it ignores missing
// members: a translated answer has only what clients need.
func (c *client) published() (problems []string) {
	f := map[string]codec.Format{"chat": codec.Chat, "responses": codec.Responses, "messages": codec.Messages, "gemini": codec.Gemini}[c.surface]
	if !c.stream {
		problems = published.Answer(f, c.wire.Bytes())
	} else {
		for line := range bytes.Lines(c.wire.Bytes()) {
			data, is := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data: "))
			switch {
			case !is || string(data) == "[DONE]":
			case bytes.HasPrefix(data, []byte(`{"error":`)), c.surface == "messages" && bytes.HasPrefix(data, []byte(`{"type":"error"`)):
				problems = append(problems, published.Error(f, data)...)
			default:
				problems = append(problems, published.Event(f, data)...)
			}
		}
	}
	return slices.DeleteFunc(problems, func(problem string) bool {
		return c.surface == "chat" && strings.HasSuffix(problem, missing) || slices.Contains(beyond, number.ReplaceAllString(problem, "0"))
	})
}
