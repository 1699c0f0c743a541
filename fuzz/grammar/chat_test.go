package grammar_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// chunk is a frame with that choice.
func chunk(choice string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice + `]}` + "\n\n"
}

func delta(members string) string {
	return chunk(`{"index":0,"delta":{` + members + `},"finish_reason":null}`)
}

func finish(word string) string {
	return chunk(`{"index":0,"delta":{},"finish_reason":"` + word + `"}`)
}

const (
	chatDone  = "data: [DONE]\n\n"
	chatUsage = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}` + "\n\n"
	chatError = `data: {"error":{"message":"m","type":"t","param":null,"code":null}}` + "\n\n"
)

func TestChatStreams(t *testing.T) {
	role := delta(`"role":"assistant","content":""`)
	text := delta(`"content":"a"`)
	call := delta(`"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"f","arguments":""}}]`)
	more := delta(`"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]`)

	good := map[string]string{
		"text":                 role + text + finish("stop") + chatUsage + chatDone,
		"without usage":        role + finish("length") + chatDone,
		"comments":             ": ping\n\n" + role + ": ping\n\n" + finish("stop") + chatDone,
		"call":                 role + call + more + finish("tool_calls") + chatDone,
		"cut call":             role + call + more + finish("length") + chatDone,
		"error":                role + text + chatError,
		"error at once":        chatError,
		"legacy":               role + delta(`"function_call":{"name":"f","arguments":""}`) + delta(`"function_call":{"arguments":"{}"}`) + finish("function_call") + chatDone,
		"everything in deltas": role + delta(`"reasoning_content":"r"`) + delta(`"thinking_blocks":[{"index":0}]`) + delta(`"refusal":"n"`) + finish("content_filter") + chatDone,
	}
	for name, stream := range good {
		if err := grammar.Chat([]byte(stream)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	bad := map[string]string{
		"nothing":                     "",
		"no end":                      role + text,
		"no finish":                   role + text + chatDone,
		"no done":                     role + finish("stop"),
		"done twice":                  role + finish("stop") + chatDone + chatDone,
		"comment after the end":       role + finish("stop") + chatDone + ": ping\n\n",
		"half a frame":                role + finish("stop") + chatDone + "data: {",
		"event line":                  "event: x\n" + role + finish("stop") + chatDone,
		"no JSON":                     role + "data: {\n\n" + finish("stop") + chatDone,
		"no role":                     text + finish("stop") + chatDone,
		"role twice":                  role + role + finish("stop") + chatDone,
		"empty delta":                 role + delta(``) + finish("stop") + chatDone,
		"empty text":                  role + delta(`"content":""`) + finish("stop") + chatDone,
		"unknown member":              role + delta(`"text":"a"`) + finish("stop") + chatDone,
		"other id":                    role + strings.Replace(text, `"id":"c"`, `"id":"d"`, 1) + finish("stop") + chatDone,
		"other choice":                role + chunk(`{"index":1,"delta":{"content":"a"},"finish_reason":null}`) + finish("stop") + chatDone,
		"two choices":                 role + chunk(`{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}`) + finish("stop") + chatDone,
		"text after the finish":       role + finish("stop") + text + chatDone,
		"finish twice":                role + finish("stop") + finish("stop") + chatDone,
		"unknown finish":              role + finish("end_turn") + chatDone,
		"usage before the finish":     role + chatUsage + finish("stop") + chatDone,
		"usage twice":                 role + finish("stop") + chatUsage + chatUsage + chatDone,
		"done after an error":         role + chatError + chatDone,
		"error after the finish":      role + finish("stop") + chatError,
		"error without a code":        role + `data: {"error":{"message":"m","type":"t","param":null}}` + "\n\n",
		"call without a finish":       role + call + more + finish("stop") + chatDone,
		"finish without a call":       role + finish("tool_calls") + chatDone,
		"call without arguments":      role + call + finish("tool_calls") + chatDone,
		"empty fragment":              role + call + delta(`"tool_calls":[{"index":0,"function":{"arguments":""}}]`) + finish("tool_calls") + chatDone,
		"id twice":                    role + call + call + more + finish("tool_calls") + chatDone,
		"name twice":                  role + call + delta(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]`) + finish("tool_calls") + chatDone,
		"gap in the indices":          role + strings.Replace(call, `"index":0,"id"`, `"index":1,"id"`, 1) + finish("tool_calls") + chatDone,
		"fragment of nothing":         role + more + finish("tool_calls") + chatDone,
		"arguments for a custom call": role + delta(`"tool_calls":[{"index":0,"id":"1","type":"custom","custom":{"name":"f","input":""}}]`) + more + finish("tool_calls") + chatDone,
		"null choices":                role + `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":null}` + "\n\n" + finish("stop") + chatDone,
	}
	for name, stream := range bad {
		if err := grammar.Chat([]byte(stream)); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}
