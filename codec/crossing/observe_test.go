package crossing

import (
	"slices"
	"testing"

	"github.com/bytedance/sonic"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/sse"
)

var wholeAnswers = map[codec.Format]string{
	codec.Chat:       `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"All \"is\" well."},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4}}`,
	codec.Responses:  `{"id":"resp_1","object":"response","model":"m","status":"completed","output":[{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"All is well.","annotations":[]}]}],"usage":{"input_tokens":10,"output_tokens":4}}`,
	codec.Messages:   `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"All is well."}],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":4}}`,
	codec.Gemini:     `{"responseId":"1","modelVersion":"m","candidates":[{"content":{"role":"model","parts":[{"text":"All is well."}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":4}}`,
	codec.Embeddings: `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":10}}`,
}

// The server passes an answer on as JSON where the observer reports it as sound.
func TestWhatIsNoJSONIsNeverSound(t *testing.T) {
	for format, answer := range wholeAnswers {
		t.Run(format.String(), func(t *testing.T) {
			seen, sound := Observe(format, []byte(answer), Memory{}, false)
			if seen.Model != "m" || seen.Usage.TotalInput() != 10 || seen.Err != nil || sound != (format != codec.Embeddings) {
				t.Errorf("seen: %+v, sound: %v", seen, sound)
			}
			rapid.Check(t, func(t *rapid.T) {
				body := []byte(answer)
				switch at := rapid.IntRange(0, len(body)-1).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "damage") {
				case 0:
					body = body[:at]
				case 1:
					body[at] = rapid.Byte().Draw(t, "byte")
				case 2:
					body = append(body[:at], body[at+1:]...)
				case 3:
					body = append(body, rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "behind")...)
				}
				if _, sound := Observe(format, body, Memory{}, false); sound && !sonic.Valid(body) {
					t.Fatalf("sound: %q", body)
				}
			})
		})
	}
}

// watch passes a stream by an observer and gives what it makes of it.
func watch(format codec.Format, stream string) (signs []codec.FrameKind, complete bool, seen Seen) {
	o := NewObserver(format, Memory{})
	defer o.Release()
	splitter := sse.Split([]byte(stream))
	for f := (sse.Frame{}); splitter.Next(&f); {
		signs = append(signs, o.Frame(&f))
	}
	return signs, o.End(codec.EndEOF, nil), o.Seen
}

// Azure reports a filter that was out of service inside of a chunk of an answer, which goes on after it.
func TestAnErrorInsideOfAChunkIsNotTheEndOfTheAnswer(t *testing.T) {
	signs, complete, seen := watch(codec.Chat, `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"a"},"content_filter_results":{"error":{"code":"content_filter_error","message":"The contents are not filtered"}},"finish_reason":null}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}

data: [DONE]

`)
	if !slices.Equal(signs, []codec.FrameKind{codec.FrameContent, codec.FrameContent, codec.FrameTerminal}) || !complete || seen.Err != nil || seen.Usage.Output != 1 {
		t.Errorf("signs %v, complete: %v, seen: %+v", signs, complete, seen)
	}
	if signs, _, seen = watch(codec.Chat, `data: {"error":{"message":"no","code":"server_error"}}`+"\n\n"); signs[0] != codec.FrameError || seen.Err == nil {
		t.Errorf("an error of the whole answer: signs %v, seen: %+v", signs, seen)
	}
}

// Relays reframe events, under the one name that the standard has for those without.
func TestAnEventIsKnownByItsTypeWhateverItsName(t *testing.T) {
	const answer = `event: message
data: {"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":3}}}

event: message
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: message
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}

event: message
data: {"type":"message_stop"}

`
	signs, complete, seen := watch(codec.Messages, answer)
	if signs[len(signs)-1] != codec.FrameTerminal || !complete || seen.Model != "m" || seen.Usage.Output != 7 || seen.Finish != codec.FinishEnd {
		t.Errorf("signs %v, complete: %v, seen: %+v", signs, complete, seen)
	}
}
