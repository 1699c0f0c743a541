package chat

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

// What was learned from one chunk never changes how another is read: a decoder that knows no forms sees the same.
func TestChunksMeanTheSameWithAndWithoutAKnownForm(t *testing.T) {
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
	rapid.Check(t, func(t *rapid.T) {
		var knowing, plain decoder
		for _, piece := range rapid.SliceOfN(pieces, 1, 30).Draw(t, "deltas") {
			padding := rapid.SampledFrom([]string{"", `,"obfuscation":"q"`, `,"obfuscation":"rs"`, `,"obfuscation":1`}).Draw(t, "padding")
			chunk := []byte(`{"id":"c","choices":[{"index":0,"delta":{` + piece + `}}]` + padding + `}`)
			plain.form.Forget()
			want := fmt.Sprint(lines(plain.Decode(nil, nil, chunk)))
			if got := fmt.Sprint(lines(knowing.Decode(nil, nil, chunk))); got != want {
				t.Fatalf("%s", cmp.Diff(want, got))
			}
		}
	})
}

func lines(events []codec.Event) (lines []string) {
	for i := range events {
		ev := &events[i]
		lines = append(lines, fmt.Sprintf("%d %d %d %q %q %q %v %v", ev.Kind, ev.Type, ev.Item, ev.Raw, ev.CallID, ev.Name, ev.Whole, ev.Err))
	}
	return lines
}
