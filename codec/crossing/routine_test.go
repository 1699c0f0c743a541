package crossing

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// A chunk that reports something never passes for one of the many that do not, whatever came before it.
func TestRoutineChunksHideNothing(t *testing.T) {
	chunk := rapid.Custom(func(t *rapid.T) string {
		text := rapid.SampledFrom([]string{``, `a`, `\\"`, `\\\\`, `\\"usage\\":{`, `say \\"finish_reason\\":\\"stop\\"`, `long text`}).Draw(t, "text")
		finish := rapid.SampledFrom([]string{`null`, `null`, `null`, `"stop"`}).Draw(t, "finish")
		usage := rapid.SampledFrom([]string{``, ``, `,"usage":null`, `,"usage":{"prompt_tokens":1}`}).Draw(t, "usage")
		member := rapid.SampledFrom([]string{`content`, `content`, `error`, `finish_reason`}).Draw(t, "member")
		pad := rapid.SampledFrom([]string{``, `,"obfuscation":"x"`, `,"obfuscation":"xyz"`}).Draw(t, "pad")
		return `{"id":"c","choices":[{"delta":{"` + member + `":"` + text + `"},"finish_reason":` + finish + `}]` + usage + pad + `}`
	})
	rapid.Check(t, func(t *rapid.T) {
		watching := NewObserver(codec.Chat, Memory{})
		defer watching.Release()
		for i, data := range rapid.SliceOfN(chunk, 2, 40).Draw(t, "chunks") {
			forgetful := Observer{format: definition(codec.Chat), started: i > 0}
			raw := "data: " + data + "\n\n"
			_, want := forgetful.judge(&sse.Frame{Raw: []byte(raw), Data: []byte(data)})
			n := watching.Routine([]byte(raw + raw))
			got := false
			if n == 0 {
				_, got = watching.judge(&sse.Frame{Raw: []byte(raw), Data: []byte(data)})
			}
			if got != want || n != 0 && n != len(raw) {
				t.Fatalf("chunk %d matters: %v, and in the stream: %v\n%s", i, want, got, data)
			}
		}
	})
}

// The same of streams whose events have types: one that ends or fails is seen, however much it looks like the others.
func TestRoutineEventsHideNothing(t *testing.T) {
	type event struct{ name, data string }
	of := func(kinds ...string) *rapid.Generator[event] {
		return rapid.Custom(func(t *rapid.T) event {
			kind := rapid.SampledFrom(kinds).Draw(t, "kind")
			name := rapid.SampledFrom([]string{kind, kind, kind, "", "message"}).Draw(t, "name")
			kind = rapid.SampledFrom([]string{`"type":"` + kind + `",`, `"type":"` + kind + `",`, ``}).Draw(t, "type")
			number := rapid.SampledFrom([]string{`1`, `2`, `10`, `null`}).Draw(t, "number")
			text := rapid.SampledFrom([]string{`a`, `b c`, `\"type\":\"error\"`, ``}).Draw(t, "text")
			return event{name, `{` + kind + `"sequence_number":` + number + `,"delta":"` + text + `"}`}
		})
	}
	for format, kinds := range map[codec.Format]*rapid.Generator[event]{
		codec.Messages:  of("content_block_delta", "content_block_delta", "content_block_stop", "message_stop", "message_delta", "ping", "error"),
		codec.Responses: of("response.output_text.delta", "response.output_text.delta", "response.output_text.done", "response.completed", "keepalive", "error"),
	} {
		t.Run(format.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				watching := NewObserver(format, Memory{})
				defer watching.Release()
				for i, e := range rapid.SliceOfN(kinds, 2, 40).Draw(t, "events") {
					raw := "event: " + e.name + "\ndata: " + e.data + "\n\n"
					frame := sse.Frame{Raw: []byte(raw), Name: []byte(e.name), Data: []byte(e.data)}
					forgetful := Observer{format: definition(format)}
					sign, matters := forgetful.judge(&frame)
					n, gotSign, got := watching.Routine([]byte(raw+raw)), codec.FrameContent, false
					if n == 0 {
						gotSign, got = watching.judge(&frame)
					}
					if got != matters || gotSign != sign || n != 0 && n != len(raw) {
						t.Fatalf("event %d is %d and matters: %v, and in the stream %d, %v\n%s\n%s", i, sign, matters, gotSign, got, e.name, e.data)
					}
				}
			})
		})
	}
}

// forgetting is a ledger that keeps nothing.
type forgetting struct{}

func (forgetting) Keep(LedgerKey, []byte)  {}
func (forgetting) Recall(LedgerKey) []byte { return nil }

// What is kept of an answer for its end costs no memory for each of its events.
func TestWatchingAnEventAllocatesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		format codec.Format
		memory Memory
		data   func(i int) string
	}{
		"reasoning that is kept": {codec.Chat, Memory{Ledger: forgetting{}, Family: codec.FamilyOther}, func(i int) string {
			return fmt.Sprintf(`{"id":"c","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"word %d"},"finish_reason":null}]}`, i)
		}},
		"numbers": {codec.Responses, Memory{}, func(i int) string {
			return fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"m","delta":"word"}`, i)
		}},
	} {
		o := NewObserver(test.format, test.memory)
		frames := make([]sse.Frame, 64)
		for i := range frames {
			data := test.data(i)
			frames[i] = sse.Frame{Raw: []byte("data: " + data + "\n\n"), Data: []byte(data)}
		}
		i := 0
		if n := testing.AllocsPerRun(1000, func() {
			f := &frames[i%len(frames)]
			if o.Routine(f.Raw) == 0 {
				o.Frame(f)
			}
			if next := o.Next(); test.format == codec.Responses && next != int64(i%len(frames))+1 {
				t.Fatalf("after event %d comes %d", i%len(frames), next)
			}
			i++
		}); n != 0 {
			t.Errorf("%s: %v allocations for an event", name, n)
		}
		o.Release()
	}
}

func BenchmarkObserverChunk(b *testing.B) {
	o := NewObserver(codec.Chat, Memory{})
	defer o.Release()
	frames := make([]sse.Frame, 64)
	for i := range frames {
		data := []byte(fmt.Sprintf(`{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1795168000,"model":"gpt-5.5","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"word %d"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"%s"}`, i, strings.Repeat("x", i%9)))
		frames[i] = sse.Frame{Raw: fmt.Appendf(nil, "data: %s\n\n", data), Data: data}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if f := &frames[i%len(frames)]; o.Routine(f.Raw) == 0 {
			o.Frame(f)
		}
	}
}
