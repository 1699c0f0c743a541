package crossing_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// hear returns the client's bytes for frames of a provider, and reports whether the answer ended whole.
func hear(t *testing.T, x *crossing.Exchange, frames ...string) (heard string, complete bool) {
	t.Helper()
	stream := x.Stream()
	var out []byte
	for _, frame := range frames {
		out, _ = stream.Frame(out, &sse.Frame{Data: []byte(frame)})
	}
	out, complete = stream.End(out, codec.EndEOF, nil)
	return string(out), complete
}

// The schemas of the AI SDK, and of opencode which uses it, refuse a piece of a call without the member function, and
// read a call's signature from its first piece alone.
func TestASignedCallOfGeminiOpensWithItsSignature(t *testing.T) {
	x, _, err := prepare(codec.Chat, gemini, `{"model":"gemini-3.8-flash","stream":true,`+chatTool+`,`+hi+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	heard, complete := hear(t, x, geminiAnswer(`{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"Q2lF"},{"functionCall":{"name":"f","args":{}}}`))
	if !complete {
		t.Fatal("the answer is not complete")
	}
	type piece struct {
		Index    int
		ID       *string
		Function *struct{ Name, Arguments *string }
		Extra    struct {
			Google struct {
				Signature string `json:"thought_signature"`
			}
		} `json:"extra_content"`
	}
	var opened []piece
	for line := range strings.Lines(heard) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Calls []piece `json:"tool_calls"`
				}
			}
		}
		if err := json.Unmarshal([]byte("{"+data), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, choice := range chunk.Choices {
			for _, p := range choice.Delta.Calls {
				if p.Function == nil {
					t.Errorf("a piece of a call has no function: %s", line)
				}
				if p.ID != nil {
					opened = append(opened, p)
				} else if p.Extra.Google.Signature != "" {
					t.Errorf("a signature comes after the call has begun: %s", line)
				}
			}
		}
	}
	if len(opened) != 2 || opened[0].Extra.Google.Signature != "Q2lF" || opened[1].Extra.Google.Signature != "" {
		t.Errorf("calls open with %+v\n%s", opened, heard)
	}
}
