package messages_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// Provider frames in, events out.
func TestStreamDecodeTranscripts(t *testing.T) {
	codectest.Each(t, "stream_decode", func(_ *testing.T, recorded string) string {
		d := messages.Provider().NewDecoder()
		return codectest.Replay(recorded, func(in string, s *codectest.Script) { s.Means("%s", scribe(decodeStep(d, in))) })
	})
}

func decodeStep(d codec.StreamDecoder, in string) []codec.Event { return codectest.Decode(d, in) }

// Events in, client frames out; every transcript is a well-formed stream.
func TestStreamEncodeTranscripts(t *testing.T) {
	codectest.Each(t, "stream_encode", func(t *testing.T, recorded string) string {
		e := messages.Client().NewEncoder(options())
		var stream []byte
		told := codectest.Replay(recorded, func(in string, s *codectest.Script) {
			ev, err := codectest.Parse(in)
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			from := len(stream)
			stream = e.Append(stream, &ev)
			s.Says(string(stream[from:]))
		})
		if err := grammar.Messages(stream); err != nil {
			t.Error(err)
		}
		return told
	})
}

func options() *codec.AnswerOptions {
	return &codec.AnswerOptions{ID: "01x", Model: "claude-x", ShowReasoning: true, EstimatedInput: 900}
}

// scribe writes events, one a line.
func scribe(events []codec.Event) string { return codectest.Lines(events) }

// encode writes the stream of a sequence of events.
func encode(o *codec.AnswerOptions, events []codec.Event) []byte {
	e := messages.Client().NewEncoder(o)
	var stream []byte
	for i := range events {
		stream = e.Append(stream, &events[i])
	}
	return stream
}

// fold folds a sequence of events into an answer.
func fold(events []codec.Event) *codec.Answer {
	a := new(codec.Answer)
	for i := range events {
		a.Add(&events[i])
	}
	return a
}

// events reads lines as scribe writes them; blank lines are skipped.
func events(t testing.TB, text string) []codec.Event {
	t.Helper()
	var list []codec.Event
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.TrimLeft(line, "\t"), "\n")
		if line == "" {
			continue
		}
		ev, err := codectest.Parse(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, ev)
	}
	return list
}

// copied is a deep copy of what the events point to, for events that outlive the decoder's next call.
func copied(list []codec.Event) []codec.Event {
	for i := range list {
		ev := &list[i]
		for _, view := range []*[]byte{&ev.Raw, &ev.ID, &ev.Model, &ev.CallID, &ev.Name, &ev.Namespace} {
			*view = bytes.Clone(*view)
		}
	}
	return list
}
