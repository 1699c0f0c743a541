package crossing_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// Some hosts end a stream with [DONE] alone. A call whose arguments stop in the middle must not be run then (P96).
func TestACallThatEndsInTheMiddleIsNotFinished(t *testing.T) {
	stops := map[codec.Format]struct{ broken, whole string }{
		codec.Messages:  {`"stop_reason":"max_tokens"`, `"stop_reason":"tool_use"`},
		codec.Responses: {`"status":"incomplete"`, `"type":"response.completed"`},
	}
	requests := map[codec.Format]string{
		codec.Messages:  messagesHi + `,` + messagesTool,
		codec.Responses: `"input":"hi","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`,
	}
	for surface, stop := range stops {
		for arguments, want := range map[string]string{
			`{\"path\":\"a`:     stop.broken,
			`{\"path\":\"a\"`:   stop.broken,
			`{`:                 stop.broken,
			`{\"path\":\"a\"}`:  stop.whole,
			`{\"path\":\"a}\"}`: stop.whole,
			``:                  stop.whole,
		} {
			t.Run(surface.String()+" "+arguments, func(t *testing.T) {
				x, _, err := prepare(surface, own, `{"model":"own-model","stream":true,`+requests[surface]+`}`, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Release()
				frames := []string{
					`{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Half a word","tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}}]}`,
				}
				if arguments != "" {
					frames = append(frames, `{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`+arguments+`"}}]}}]}`)
				}
				heard, complete := hear(t, x, append(frames, "[DONE]")...)
				if !complete || !strings.Contains(heard, want) || !strings.Contains(heard, "Half a word") {
					t.Errorf("complete %v, there is no %s in\n%s", complete, want, heard)
				}
			})
		}
	}
}

// Gemini asks to be called again for the rest of a long answer. The part that came must not look like all of it, and no
// client can go on from there by itself.
func TestAnAnswerThatGeminiWouldContinueIsNotFinished(t *testing.T) {
	for surface, c := range map[codec.Format]struct{ body, want string }{
		codec.Chat:      {hi, `"finish_reason":"length"`},
		codec.Messages:  {messagesHi, `"stop_reason":"max_tokens"`},
		codec.Responses: {`"input":"hi"`, `"incomplete_details":{"reason":"max_output_tokens"}`},
	} {
		x, _, err := prepare(surface, gemini, `{"model":"gemini-3.8-flash",`+c.body+`}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer := `{"candidates":[{"content":{"role":"model","parts":[{"text":"one"}]},"finishReason":"CONTINUATION","continuationToken":"t","index":0}],"modelVersion":"m"}`
		whole, _, err := x.Answer(nil, []byte(answer))
		if err != nil || !strings.Contains(string(whole), c.want) {
			t.Errorf("%s: there is no %s in\n%s (%v)", surface, c.want, whole, err)
		}
		if streamed, complete := hear(t, x, answer); !complete || !strings.Contains(streamed, c.want) {
			t.Errorf("%s: there is no %s in\n%s", surface, c.want, streamed)
		}
		x.Release()
	}
}
