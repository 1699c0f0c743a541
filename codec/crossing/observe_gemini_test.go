package crossing_test

import (
	"fmt"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/internal/racing"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Each frame of Gemini's is a whole answer with counts, so all of them are read. That costs no memory.
func TestAFrameOfGeminiPassesWithoutAllocating(t *testing.T) {
	if racing.On {
		t.Skip("counted without the race detector")
	}
	frame := func(n int, more string) *sse.Frame {
		data := fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[{"text":"piece %d"}]},"index":0%s}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":%d,"totalTokenCount":%d},"modelVersion":"m","responseId":"r"}`, n, more, n, 9+n)
		return &sse.Frame{Data: []byte(data), Raw: []byte("data: " + data + "\n\n")}
	}
	o := crossing.NewObserver(codec.Gemini, crossing.Memory{})
	defer o.Release()
	o.Frame(frame(1, ""))
	next := frame(2, "")
	if n := testing.AllocsPerRun(100, func() { o.Frame(next) }); n > 0 {
		t.Errorf("a frame allocates %v times", n)
	}
	if o.End(codec.EndEOF, nil) {
		t.Error("a stream without a finish reason is complete")
	}
	whole := crossing.NewObserver(codec.Gemini, crossing.Memory{})
	defer whole.Release()
	whole.Frame(frame(1, ""))
	whole.Frame(frame(2, `,"finishReason":"STOP"`))
	if !whole.End(codec.EndEOF, nil) || whole.Seen.Usage.Output != 2 || whole.Seen.Usage.InputUncached != 9 || whole.Seen.ID != "r" {
		t.Errorf("seen is %+v", whole.Seen)
	}
}
