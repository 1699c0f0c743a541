package responses

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/codec/template/templatetest"
)

// What was learned from one event never changes how another is read: a decoder that knows no templates sees the same.
func TestEventsMeanTheSameWithAndWithoutAKnownTemplate(t *testing.T) {
	text := rapid.SampledFrom([]string{"a", "b c", "", `\n`, `\u00e9`, `\ud83d`, "日", `\"}`, `{\"x\":`, `{}`, `"`, "\x01", "\xff", `","type":"response.completed","x":"`})
	id := rapid.SampledFrom([]string{"m", "m", "m", "m", "m", "m", "n", "r"})
	index := rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 2})
	event := rapid.Custom(func(t *rapid.T) string {
		where := fmt.Sprintf(`"item_id":"%s","output_index":%d,"content_index":%d,"summary_index":%d`,
			id.Draw(t, "id"), index.Draw(t, "output"), index.Draw(t, "content"), index.Draw(t, "summary"))
		whole := rapid.SampledFrom([]string{"k", "k", "k", "k", "l"}).Draw(t, "whole") // another one in every event would fit no template
		number := rapid.SampledFrom([]string{"1", "2", "10", "01", `"x"`}).Draw(t, "number")
		padding := rapid.SampledFrom([]string{"", `,"obfuscation":"q"`, `,"obfuscation":"rs"`, `,"obfuscation":1`}).Draw(t, "padding")
		kind := rapid.SampledFrom([]string{
			"output_text.delta", "output_text.delta", "output_text.delta", "output_text.delta", "output_text.delta", "output_text.delta",
			"refusal.delta", "reasoning_summary_text.delta", "reasoning_text.delta",
			"function_call_arguments.delta", "custom_tool_call_input.delta", "output_text.done", "refusal.done", "reasoning_summary_text.done",
			"function_call_arguments.done", "content_part.done", "in_progress", "output_item.added", "output_item.done",
		}).Draw(t, "kind")
		item := rapid.SampledFrom([]string{
			`{"type":"message","id":"m","content":[]}`, `{"type":"message","id":"m","content":[]}`, `{"type":"message","id":"m","content":[]}`,
			`{"type":"message","id":"m","content":[]}`, `{"type":"message","id":"n","content":[{"type":"output_text","text":"z"}]}`, `{"type":"reasoning","id":"r","summary":[]}`,
			`{"type":"function_call","id":"m","call_id":"c","name":"f","arguments":""}`, `{"type":"custom_tool_call","id":"n","call_id":"d","name":"g","input":""}`,
		}).Draw(t, "item")
		s := text.Draw(t, "text")
		return fmt.Sprintf(`{"type":"response.%s","sequence_number":%s,%s,"delta":"%s","text":"%s","arguments":"%s","item":%s%s}`,
			kind, number, where, s, whole, whole, item, padding)
	})
	templatetest.SameWithout(t, event, func() (codec.StreamDecoder, *template.Delta) {
		d := new(streamDecoder)
		return d, &d.delta
	})
}
