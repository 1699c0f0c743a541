package crossing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// Some hosts answer whole or stream whatever they were asked for. The client gets the form that it asked for.
func TestTheClientGetsTheFormThatItAskedFor(t *testing.T) {
	for _, c := range []struct {
		surface  codec.Format
		model    string
		body     string
		whole    string
		frames   []string
		check    func([]byte) error
		streamed []string
		complete []string
	}{
		{codec.Messages, own, messagesHi, chatAnswer(`{"role":"assistant","content":"whole"}`, "stop"), chatFrames("stop", `{"content":"wh"}`, `{"content":"ole"}`), grammar.Messages, []string{"message_start", `"text":"whole"`, "message_stop"}, []string{`"type":"message"`, `"text":"whole"`, `"stop_reason":"end_turn"`}},
		{codec.Responses, claude, `"input":"hi"`, messagesAnswer(`{"type":"text","text":"whole"}`, "end_turn"), messagesFrames("wh", "ole"), grammar.Responses, []string{"response.created", `"delta":"whole"`, "response.completed"}, []string{`"object":"response"`, `"status":"completed"`, `"text":"whole"`}},
		{codec.Chat, claude, hi, messagesAnswer(`{"type":"text","text":"whole"}`, "end_turn"), messagesFrames("wh", "ole"), grammar.Chat, []string{`"content":"whole"`, `"finish_reason":"stop"`, "[DONE]"}, []string{`"object":"chat.completion"`, `"content":"whole"`}},
		{codec.Chat, gemini, hi, geminiAnswer(`{"text":"whole"}`), []string{geminiAnswer(`{"text":"whole"}`)}, grammar.Chat, []string{`"content":"whole"`, "[DONE]"}, []string{`"content":"whole"`}},
		{codec.Messages, gpt, messagesHi, responsesAnswer(`{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"whole","annotations":[]}]}`), []string{`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"whole"}`, `{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}`}, grammar.Messages, []string{`"text":"whole"`, "message_stop"}, []string{`"text":"whole"`}},
	} {
		t.Run(c.surface.String()+" "+c.model, func(t *testing.T) {
			x, _, err := prepare(c.surface, c.model, `{"model":"`+c.model+`","stream":true,`+c.body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			streamed, _, err := x.AnswerInFrames(nil, []byte(c.whole))
			x.Release()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.check(streamed); err != nil {
				t.Errorf("%v\n%s", err, streamed)
			}
			mustHold(t, string(streamed), c.streamed)

			x, _, err = prepare(c.surface, c.model, `{"model":"`+c.model+`",`+c.body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Release()
			stream := x.Gather()
			for _, frame := range c.frames {
				if out, _ := stream.Frame(nil, &sse.Frame{Data: []byte(frame)}); len(out) > 0 {
					t.Errorf("a frame is given out: %s", out)
				}
			}
			stream.End(nil, codec.EndEOF, nil)
			whole, err := stream.Whole(nil)
			if err != nil {
				t.Fatal(err)
			}
			mustHold(t, string(whole), c.complete)
		})
	}
}

// messagesFrames is a stream of Anthropic's with these pieces of text.
func messagesFrames(pieces ...string) []string {
	frames := []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	}
	for _, piece := range pieces {
		frames = append(frames, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+piece+`"}}`)
	}
	return append(frames, `{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`)
}

// A stream that broke off or failed is no complete answer.
func TestAStreamWithoutItsEndIsNoCompleteAnswer(t *testing.T) {
	for name, frames := range map[string][]string{
		"broken off": messagesFrames("half")[:3],
		"failed":     append(messagesFrames("half")[:3], `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		"empty":      nil,
	} {
		x, _, err := prepare(codec.Chat, claude, `{"model":"claude-opus-4-8",`+hi+`}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		stream := x.Gather()
		for _, frame := range frames {
			stream.Frame(nil, &sse.Frame{Data: []byte(frame)})
		}
		stream.End(nil, codec.EndEOF, nil)
		said, err := stream.Whole(nil)
		var e *codec.Error
		if !errors.As(err, &e) || len(said) > 0 || name == "failed" && (e.Kind != codec.KindOverloaded || !strings.Contains(e.Message, "Overloaded")) {
			t.Errorf("%s: %v %s", name, err, said)
		}
		x.Release()
	}
}
