package messages

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/codec/template/templatetest"
)

// What was learned from one event never changes how another is read: a decoder that knows no templates sees the same.
func TestEventsMeanTheSameWithAndWithoutAKnownTemplate(t *testing.T) {
	text := rapid.SampledFrom([]string{"a", "b c", "", `\n`, `\u00e9`, `\ud83d`, "日", `\"}`, `{\"x\":`, `{}`, `"`, "\x01", "\xff", `"},"type":"message_stop","x":{"y":"`})
	event := rapid.Custom(func(t *rapid.T) string {
		index := rapid.SampledFrom([]string{`"index":0,`, `"index":0,`, `"index":0,`, `"index":1,`, ``}).Draw(t, "index")
		s := text.Draw(t, "text")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			block := rapid.SampledFrom([]string{
				`{"type":"text","text":""}`, `{"type":"thinking","thinking":""}`, `{"type":"tool_use","id":"t","name":"f","input":{}}`, `{"type":"server_tool_use","id":"s","name":"g","input":{}}`,
			}).Draw(t, "block")
			return `{"type":"content_block_start",` + index + `"content_block":` + block + `}`
		case 1:
			return `{"type":"content_block_stop",` + index + `"x":"` + s + `"}`
		case 2:
			return rapid.SampledFrom([]string{`{"type":"ping"}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`, `{"type":"error","error":{"type":"overloaded_error","message":"no"}}`}).Draw(t, "other")
		default:
			delta := rapid.SampledFrom([]string{`"type":"text_delta","text"`, `"type":"text_delta","text"`, `"type":"thinking_delta","thinking"`, `"type":"input_json_delta","partial_json"`, `"type":"signature_delta","signature"`}).Draw(t, "delta")
			return `{"type":"content_block_delta",` + index + `"delta":{` + delta + `:"` + s + `"}}`
		}
	})
	templatetest.SameWithout(t, event, func() (codec.StreamDecoder, *template.Delta) {
		d := new(decoder)
		return d, &d.delta
	})
}
