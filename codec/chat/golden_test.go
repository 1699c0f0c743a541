package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

var asked = codec.AnswerOptions{
	ID: "01h", Model: "asked", Created: time.Unix(1795168000, 0), IncludeUsage: true, ShowReasoning: true, EstimatedInput: 12,
}

// What a provider sends in a stream, what it means, and what the client is sent.
func TestStreams(t *testing.T) {
	codectest.Each(t, "stream", func(t *testing.T, recorded string) string {
		var sent []byte
		decoder, encoder := chat.Provider().NewDecoder(), chat.Client().NewEncoder(&asked)
		told := codectest.Replay(recorded, func(in string, s *codectest.Script) {
			events := codectest.Decode(decoder, in)
			for i := range events {
				s.Means("%s", codectest.Line(&events[i]))
				before := len(sent)
				sent = encoder.Append(sent, &events[i])
				for part := range strings.Lines(string(sent[before:])) {
					s.Says(brief(part))
				}
			}
		})
		if err := grammar.Chat(sent); err != nil {
			t.Errorf("the client's stream: %v\n%s", err, sent)
		}
		return told
	})
}

// brief leaves out of a chunk what is the same in all of them.
func brief(frame string) string {
	frame = strings.TrimPrefix(frame, "data: ")
	frame = strings.Replace(frame, `"id":"chatcmpl-01h","object":"chat.completion.chunk","created":1795168000,`, "", 1)
	return strings.Replace(frame, `,"usage":null`, "", 1)
}

// What a provider answers, what it means, and what the client is sent.
func TestCompleteAnswers(t *testing.T) {
	codectest.Each(t, "answer", func(t *testing.T, recorded string) string {
		return codectest.Replay(recorded, func(in string, s *codectest.Script) {
			var answer codec.Answer
			for _, ev := range chat.Provider().DecodeAnswer(nil, []byte(in), "") {
				s.Means("%s", codectest.Line(&ev))
				answer.Add(&ev)
			}
			var sent []byte
			if answer.Err != nil {
				sent = chat.Client().AppendError(nil, answer.Err, &asked)
			} else {
				sent = chat.Client().AppendAnswer(nil, &answer, &asked)
			}
			if !scan.Valid(sent) {
				t.Errorf("not JSON: %s", sent)
			}
			s.Says(string(sent))
		})
	})
}
