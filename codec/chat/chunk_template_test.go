package chat

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/codec/template/templatetest"
)

// What was learned from one chunk never changes how another is read: a decoder that knows no templates sees the same.
func TestChunksMeanTheSameWithAndWithoutAKnownTemplate(t *testing.T) {
	text := rapid.SampledFrom([]string{
		"a", "b c", "", `\n`, `\u00e9`, `\ud83d`, "日", `\"}`, `\\`, `{\"x\":`, `}`, `{}`, `"`, "\x01", "\xff", `"},"finish_reason":"stop"}],"y":[{"z":{"w":"`,
	})
	pieces := rapid.OneOf(
		rapid.Map(text, func(s string) string { return `"content":"` + s + `"` }),
		rapid.Map(text, func(s string) string { return `"reasoning_content":"` + s + `"` }),
		rapid.Map(text, func(s string) string { return `"thinking_blocks":[{"type":"thinking","thinking":"` + s + `"}]` }),
		rapid.Map(text, func(s string) string { return `"tool_calls":[{"index":0,"function":{"arguments":"` + s + `"}}]` }),
		rapid.Map(text, func(s string) string { return `"tool_calls":[{"function":{"arguments":"` + s + `"}}]` }),
		rapid.Map(text, func(s string) string {
			return `"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":"` + s + `"}}]`
		}),
		rapid.Map(text, func(s string) string {
			return `"tool_calls":[{"index":0,"id":"y","function":{"name":"g","arguments":"` + s + `"}}]`
		}),
		rapid.Map(text, func(s string) string {
			return `"tool_calls":[{"index":0,"function":{"name":"f","arguments":"` + s + `"}}]`
		}),
		rapid.Just(`"tool_calls":[{"index":1,"function":{"name":"f","arguments":{}}}],"x":"{}"`),
	)
	event := rapid.Custom(func(t *rapid.T) string {
		padding := rapid.SampledFrom([]string{"", `,"obfuscation":"q"`, `,"obfuscation":"rs"`, `,"obfuscation":1`}).Draw(t, "padding")
		return `{"id":"c","choices":[{"index":0,"delta":{` + pieces.Draw(t, "delta") + `}}]` + padding + `}`
	})
	templatetest.SameWithout(t, event, func() (codec.StreamDecoder, *template.Delta) {
		d := new(decoder)
		return d, &d.template
	})
}
