package gemini_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Provider frames in, events out.
func TestStreamsAreReadAsTheTranscriptsTell(t *testing.T) {
	codectest.Each(t, "streams", func(_ *testing.T, recorded string) string {
		d := gemini.Provider().NewDecoder()
		return codectest.Replay(recorded, func(in string, s *codectest.Script) { s.Means("%s", codectest.Lines(codectest.Decode(d, in))) })
	})
}

// fold reads whole events into an answer.
func fold(events []codec.Event) *codec.Answer {
	var a codec.Answer
	for i := range events {
		a.Add(&events[i])
	}
	return &a
}

// A stream's frames, and the same content as one complete answer, fold to the same.
func TestACompleteAnswerReadsLikeItsStream(t *testing.T) {
	stream := []string{
		`{"candidates":[{"content":{"role":"model","parts":[{"text":"Look","thought":true}]}}],"usageMetadata":{"promptTokenCount":9},"modelVersion":"m","responseId":"r"}`,
		`{"candidates":[{"content":{"parts":[{"text":"Let me "}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"text":"see."},{"functionCall":{"id":"a","name":"read","args":{"p":1.0,"n":9007199254740993}},"thoughtSignature":"U2ln"}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"stat"}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":4,"thoughtsTokenCount":3}}`,
	}
	complete := `{
	  "candidates": [ { "content": { "role": "model", "parts": [
	    { "text": "Look", "thought": true },
	    { "text": "Let me see." },
	    { "functionCall": { "id": "a", "name": "read", "args": { "p": 1.0,
	        "n": 9007199254740993 } }, "thoughtSignature": "U2ln" },
	    { "functionCall": { "name": "stat" } }
	  ] }, "finishReason": "STOP", "index": 0 } ],
	  "usageMetadata": { "promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3 },
	  "modelVersion": "m", "responseId": "r"
	}`
	d := gemini.Provider().NewDecoder()
	var streamed codec.Answer
	for _, frame := range stream {
		for _, ev := range d.Decode(nil, nil, []byte(frame)) {
			streamed.Add(&ev)
		}
	}
	for _, ev := range d.Finish(nil, codec.EndEOF, nil) {
		streamed.Add(&ev)
	}
	whole := fold(gemini.Provider().DecodeAnswer(nil, []byte(complete), ""))
	if diff := cmp.Diff(&streamed, whole); diff != "" {
		t.Errorf("streamed and complete answers differ: %s", diff)
	}
	if got, want := string(whole.Items[2].Text), `{\"p\":1.0,\"n\":9007199254740993}`; got != want {
		t.Errorf("P49: arguments are %s, want %s", got, want)
	}
	if whole.Usage.Total() != 16 || whole.Usage.Output != 7 {
		t.Errorf("P100: usage %+v: thoughts are output too", whole.Usage)
	}
}

// P39: without alt=sse a stream is one array, which may be cut into frames at any element.
func TestAnArrayOfAnswersReadsLikeAStream(t *testing.T) {
	first := `{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}],"responseId":"r"}`
	last := `{"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}]}`
	want := fold(gemini.Provider().DecodeAnswer(nil, []byte("["+first+","+last+"]"), ""))
	if want.End != codec.EndTerminal || string(want.Items[0].Text) != "Hello" {
		t.Fatalf("got %+v", want)
	}
	for name, body := range map[string]string{
		"in one piece":              "[" + first + "\n,\r\n" + last + "\n]\n",
		"with blank lines":          "[" + first + "\r\n\r\n,\n" + last + "\r\n\r\n]\r\n\r\n",
		"as frames":                 "data: [" + first + ",\n\ndata: " + last + "]\n\n",
		"cut off behind its finish": "[" + first + "," + last,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, readStream(t, body)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if cut := readStream(t, "["+first+",\n"+last[:20]); cut.Err == nil || cut.End != codec.EndBroken {
		t.Errorf("an array that was cut looks finished: %+v", cut)
	}
}

// readStream splits and decodes a body as the server does.
func readStream(t *testing.T, body string) *codec.Answer {
	t.Helper()
	s := sse.NewSplitter(512, sse.MaxFrame)
	d := gemini.Provider().NewDecoder()
	r := strings.NewReader(body)
	var events []codec.Event
	var a codec.Answer
	var f sse.Frame
	add := func() {
		for i := range events {
			a.Add(&events[i])
		}
		events = events[:0]
	}
	for {
		_, err := s.Read(r)
		for s.Next(&f) {
			if !f.Comment {
				events = d.Decode(events, f.Name, f.Data)
				add()
			}
		}
		if err != nil {
			break
		}
	}
	f = sse.Frame{}
	s.Residue(&f)
	events = d.Finish(events, codec.EndEOF, f.Data)
	add()
	return &a
}

// P37: none of these shapes is an error, and none opens an item.
func TestAnswersWithoutContentAreEmptyAndNotBroken(t *testing.T) {
	for _, candidate := range []string{
		`{"finishReason":"STOP"}`, `{"content":{},"finishReason":"STOP"}`, `{"content":{"role":"model"},"finishReason":"STOP"}`,
		`{"content":{"parts":[]},"finishReason":"STOP"}`, `{"content":{"parts":[{}]},"finishReason":"STOP"}`,
		`{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}`, `{"content":null,"finishReason":"STOP"}`,
		`{"content":{"parts":[{"text":7},null,3,"x"]},"finishReason":"STOP"}`,
	} {
		a := fold(gemini.Provider().DecodeAnswer(nil, []byte(`{"candidates":[`+candidate+`]}`), ""))
		if len(a.Items) != 0 || a.Err != nil || a.Finish != codec.FinishEnd || a.End != codec.EndTerminal {
			t.Errorf("%s: got %+v", candidate, a)
		}
	}
}

func TestBodiesThatAreNoAnswerAreErrors(t *testing.T) {
	for _, body := range []string{``, ` `, `{}`, `[]`, `null`, `{"candidates":[]}`, `{"promptFeedback":{"safetyRatings":[]}}`, `<html>`, `{"a":`, `{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`, `"text"`, "{\"a\":\"\xff\"}"} {
		a := fold(gemini.Provider().DecodeAnswer(nil, []byte(body), ""))
		if a.Err == nil || a.Err.Kind != codec.KindUpstream || a.End != codec.EndBroken {
			t.Errorf("%q: got error %v, end %v", body, a.Err, a.End)
		}
	}
}

// P96: a call that the output limit cut is not a finished call, whatever else was called.
func TestTheProvidersWordForTheEndIsRead(t *testing.T) {
	call := `{"functionCall":{"name":"f","args":{}}}`
	cases := []struct {
		part, word string
		want       codec.FinishReason
	}{
		{`{"text":"x"}`, "STOP", codec.FinishEnd},
		{call, "STOP", codec.FinishToolCalls},
		{call, "MAX_TOKENS", codec.FinishLength},
		{call, "SAFETY", codec.FinishFilter},
		{call, "SOMETHING_NEW", codec.FinishToolCalls},
		{`{"text":"x"}`, "SOMETHING_NEW", codec.FinishEnd},
		{`{"text":"x"}`, "IMAGE_RECITATION", codec.FinishFilter},
		{`{"text":"x"}`, "CONTINUATION", codec.FinishLength},
		{`{"text":"x"}`, "MALFORMED_FUNCTION_CALL", codec.FinishMalformedCall},
		{`{"text":"x"},{"functionCall":{"args":{}}}`, "STOP", codec.FinishMalformedCall},
	}
	for _, c := range cases {
		body := fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s]},"finishReason":%q}]}`, c.part, c.word)
		if a := fold(gemini.Provider().DecodeAnswer(nil, []byte(body), "")); a.Finish != c.want || a.Err != nil {
			t.Errorf("P95: %s with %s: got %v (%v), want %v", c.part, c.word, a.Finish, a.Err, c.want)
		}
	}
}

func TestOnlyTheFirstCandidateIsRead(t *testing.T) {
	body := `{"candidates":[{"index":1,"content":{"parts":[{"text":"other"}]},"finishReason":"SAFETY"},{"content":{"parts":[{"text":"first"}]},"finishReason":"STOP"}]}`
	a := fold(gemini.Provider().DecodeAnswer(nil, []byte(body), ""))
	if len(a.Items) != 1 || string(a.Items[0].Text) != "first" || a.Finish != codec.FinishEnd {
		t.Errorf("got %+v", a)
	}
}

func TestACancelledStreamIsNeverComplete(t *testing.T) {
	d := gemini.Provider().NewDecoder()
	d.Decode(nil, nil, []byte(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`))
	if events := d.Finish(nil, codec.EndCancelled, nil); len(events) != 1 || events[0].End != codec.EndCancelled {
		t.Errorf("got %+v", events)
	}
}

func TestNothingFollowsTheEndOrAnError(t *testing.T) {
	frame := []byte(`{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}`)
	d := gemini.Provider().NewDecoder()
	d.Decode(nil, nil, []byte(`{"error":{"code":503,"status":"UNAVAILABLE","message":"busy"}}`))
	if events := d.Decode(nil, nil, frame); len(events) != 0 {
		t.Errorf("behind an error came %+v", events)
	}
	d.Finish(nil, codec.EndEOF, nil)
	if events := append(d.Decode(nil, nil, frame), d.Finish(nil, codec.EndEOF, frame)...); len(events) != 0 {
		t.Errorf("behind the end came %+v", events)
	}
	// P6: a decoder that is used again remembers nothing.
	d.Reset()
	if a := fold(append(d.Decode(nil, nil, frame), d.Finish(nil, codec.EndEOF, nil)...)); a.Err != nil || len(a.Items) != 1 {
		t.Errorf("after a reset: %+v", a)
	}
}

// P49, B1: half of a surrogate pair in one frame and half in the next stay what they are.
func TestTextIsCopiedAndNeverDecoded(t *testing.T) {
	d := gemini.Provider().NewDecoder()
	events := d.Decode(nil, nil, []byte(`{"candidates":[{"content":{"parts":[{"text":"\u003ca\ud83d"}]}}]}`))
	events = d.Decode(events, nil, []byte(`{"candidates":[{"content":{"parts":[{"text":"\ude00\/"}]},"finishReason":"STOP"}]}`))
	if got, want := string(fold(events).Items[0].Text), `\u003ca\ud83d\ude00\/`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

var (
	textFrame = []byte(`{"candidates": [{"content": {"parts": [{"text": " and then some more words"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 812,"candidatesTokenCount": 30,"totalTokenCount": 842,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 812}],"thoughtsTokenCount": 64},"modelVersion": "gemini-3.8-flash","responseId": "q1cfaZ_9Mt0"}`)
	callFrame = []byte(`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"a1","name":"read_file","args":{"path":"go.mod","lines":[1,2]}},"thoughtSignature":"CtUBAVSoXO5"}],"role":"model"}}],"responseId":"r"}`)
)

func TestDeltasDoNotAllocate(t *testing.T) {
	thought := bytes.Replace(textFrame, []byte(`words"`), []byte(`words","thought":true`), 1)
	for name, frame := range map[string][]byte{"text": textFrame, "reasoning": thought, "arguments": callFrame} {
		if !scan.Valid(frame) {
			t.Fatalf("%s is no JSON", name)
		}
		d := gemini.Provider().NewDecoder()
		events := make([]codec.Event, 0, 16)
		events = d.Decode(events, nil, frame)
		allocs := testing.AllocsPerRun(1000, func() { events = d.Decode(events[:0], nil, frame) })
		if allocs != 0 {
			t.Errorf("%s: %v allocations for one delta, want none", name, allocs)
		}
	}
}

func BenchmarkStreamDecode(b *testing.B) {
	for name, frame := range map[string][]byte{"text": textFrame, "call": callFrame} {
		b.Run(name, func(b *testing.B) {
			d := gemini.Provider().NewDecoder()
			events := make([]codec.Event, 0, 16)
			b.ReportAllocs()
			for b.Loop() {
				events = d.Decode(events[:0], nil, frame)
			}
		})
	}
}
