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
	t.Parallel()
	chunk := rapid.Custom(func(t *rapid.T) string {
		text := rapid.SampledFrom([]string{``, `a`, `\\"`, `\\\\`, `\\"usage\\":{`, `say \\"finish_reason\\":\\"stop\\"`, `long text`}).Draw(t, "text")
		finish := rapid.SampledFrom([]string{`null`, `null`, `null`, `"stop"`}).Draw(t, "finish")
		usage := rapid.SampledFrom([]string{``, ``, `,"usage":null`, `,"usage":{"prompt_tokens":1}`}).Draw(t, "usage")
		member := rapid.SampledFrom([]string{`content`, `content`, `error`, `finish_reason`}).Draw(t, "member")
		pad := rapid.SampledFrom([]string{``, `,"obfuscation":"x"`, `,"obfuscation":"xyz"`}).Draw(t, "pad")
		return `{"id":"c","choices":[{"delta":{"` + member + `":"` + text + `"},"finish_reason":` + finish + `}]` + usage + pad + `}`
	})
	rapid.Check(t, func(t *rapid.T) {
		watching := NewObserver(codec.Chat)
		defer watching.Release()
		for i, data := range rapid.SliceOfN(chunk, 2, 40).Draw(t, "chunks") {
			forgetful := Observer{format: codec.Chat, started: i > 0}
			_, want := forgetful.judge(&sse.Frame{Data: []byte(data)})
			_, got := watching.judge(&sse.Frame{Data: []byte(data)})
			if got != want {
				t.Fatalf("chunk %d matters: %v, and in the stream: %v\n%s", i, want, got, data)
			}
		}
	})
}

func TestRoutineChunksAreRecognised(t *testing.T) {
	t.Parallel()
	var r routine
	matched := 0
	for i := range 100 {
		data := []byte(fmt.Sprintf(`{"id":"c","delta":{"content":"word %d"},"obfuscation":"%s"}`, i*i, strings.Repeat("x", i%7)))
		if r.match(data) {
			matched++
		} else {
			r.learn(data)
		}
	}
	if matched < 95 {
		t.Errorf("%d of 100 chunks of one form were recognised", matched)
	}
}

func BenchmarkObserverChunk(b *testing.B) {
	o := NewObserver(codec.Chat)
	defer o.Release()
	frames := make([]sse.Frame, 64)
	for i := range frames {
		frames[i].Data = []byte(fmt.Sprintf(`{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1795168000,"model":"gpt-5.5","service_tier":"default","system_fingerprint":null,"choices":[{"index":0,"delta":{"content":"word %d"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"%s"}`, i, strings.Repeat("x", i%9)))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		o.Frame(&frames[i%len(frames)])
	}
}
