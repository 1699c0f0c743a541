package crossing_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// The done events of Responses have the final value. What the deltas lacked of it reaches clients of all formats (P22).
func TestWhatTheDeltasLackedReachesTheClient(t *testing.T) {
	frames := func(events ...string) []string {
		frames := append([]string{`{"type":"response.created","response":{"id":"r","model":"m"}}`}, events...)
		return append(frames, `{"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[]}}`)
	}
	const item = `{"id":"fc_1","type":"function_call","call_id":"call_1","name":"f","arguments":"`
	call := frames(
		`{"type":"response.output_item.added","output_index":0,"item":`+item+`"}}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"path\":"}`,
		`{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":"{\"path\":\"a\"}"}`,
		`{"type":"response.output_item.done","output_index":0,"item":`+item+`{\"path\":\"a\"}"}}`,
	)
	text := frames(
		`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"hello"}`,
		`{"type":"response.output_text.done","item_id":"msg_1","output_index":0,"content_index":0,"text":"hello there"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"hello there","annotations":[]}]}}`,
	)
	for surface, want := range map[codec.Format][2][]string{
		codec.Chat:     {{`"arguments":"{\"path\":"`, `"arguments":"\"a\"}"`, `"finish_reason":"tool_calls"`}, {`"content":"hello"`, `"content":" there"`, `"finish_reason":"stop"`}},
		codec.Messages: {{`"partial_json":"{\"path\":"`, `"partial_json":"\"a\"}"`, `"stop_reason":"tool_use"`}, {`"text":"hello"`, `"text":" there"`, `"stop_reason":"end_turn"`}},
	} {
		body := strings.Replace(askForCalls[surface], "HISTORY", "", 1)
		mustHold(t, heard(t, surface, gpt, body, call...), want[0])
		mustHold(t, heard(t, surface, gpt, body, text...), want[1])
	}

	call[3] = strings.Replace(call[3], `\"a\"`, `[\"b\"]`, 1)
	call[2] = strings.Replace(call[2], `{\"path\"`, `{\"file\"`, 1)
	said := heard(t, codec.Chat, gpt, strings.Replace(askForCalls[codec.Chat], "HISTORY", "", 1), call...)
	if !strings.Contains(said, `"error"`) || strings.Contains(said, "finish_reason\":\"") || strings.Contains(said, "[DONE]") {
		t.Errorf("a call that contradicts itself ends so:\n%s", said)
	}
}

// A call that was cut off has no done event: Codex runs what has one, whatever its status.
func TestACallThatWasCutOffIsNotDone(t *testing.T) {
	const request = `"input":"hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}},{"type":"custom","name":"sh"}]`
	half := map[string]string{
		"arguments":             `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{\"path\":\"/tmp"}}]}`,
		"input of a freeform":   `{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"sh","arguments":"{\"input\":\"rm -rf /tmp/build"}}]}`,
		"input of a custom one": `{"tool_calls":[{"index":0,"id":"c1","type":"custom","custom":{"name":"sh","input":"rm -rf /tmp/build"}}]}`,
	}
	for name, delta := range half {
		for end, frames := range map[string][]string{
			"[DONE] alone":      append(chatFrames("", delta)[:2], "[DONE]"),
			"the output limit":  chatFrames("length", delta),
			"a filter":          chatFrames("content_filter", delta),
			"no end whatsoever": chatFrames("", delta)[:2],
		} {
			t.Run(name+", "+end, func(t *testing.T) {
				said := heard(t, codec.Responses, own, request, frames...)
				if strings.Contains(said, ".done\"") {
					t.Errorf("something is done:\n%s", said)
				}
				if end != "no end whatsoever" && !strings.Contains(said, `"type":"response.incomplete"`) {
					t.Errorf("the answer is not incomplete:\n%s", said)
				}
			})
		}
	}
	whole := heard(t, codec.Responses, own, request, chatFrames("tool_calls", callDelta(0, "c1", `{"path":"/tmp"}`))...)
	mustHold(t, whole, []string{"response.function_call_arguments.done", "response.output_item.done", "response.completed"})
}
