package responses_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// TestTranscripts plays provider streams, frame by frame. Of each frame it shows the events that it means, and what a
// client of the same format is then sent, which has to be well-formed.
func TestTranscripts(t *testing.T) { codectest.Each(t, "stream", streamTranscript) }

func streamTranscript(t *testing.T, recorded string) string {
	dec, enc := responses.Provider().NewDecoder(), responses.Client().NewEncoder(options())
	var out []byte
	told := codectest.Replay(recorded, func(in string, s *codectest.Script) {
		events := codectest.Decode(dec, in)
		for i := range events {
			s.Means("%s", codectest.Line(&events[i]))
			from := len(out)
			out = enc.Append(out, &events[i])
			for line := range strings.Lines(string(out[from:])) {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					s.Says(shorten(data))
				}
			}
		}
	})
	if err := grammar.Responses(out); err != nil {
		t.Errorf("what the client gets is not well-formed: %v", err)
	}
	return told
}

// shorten leaves the members of a response out that only repeat the request.
func shorten(data string) string {
	head, tail, found := strings.Cut(data, `"access_programs":`)
	if !found {
		return data
	}
	_, tail, _ = strings.Cut(tail, `"user":null,`)
	return head + "…," + tail
}

func TestWhatIsLeftWithoutAFrameEnd(t *testing.T) { // P48
	const begun = `{"type":"response.output_text.delta","delta":"Hi"}`
	cases := map[string]struct {
		residue string
		end     codec.End
		want    []string
	}{
		"a terminal event without its blank line": {
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n",
			codec.EndEOF,
			[]string{"close 0", "finish end", "end terminal"},
		},
		"an error that nobody framed": {
			`{"error":{"message":"At capacity.","code":"server_is_overloaded"}}`,
			codec.EndEOF,
			[]string{"error overloaded: At capacity. code=server_is_overloaded", "end broken"},
		},
		"half a frame": {
			`data: {"type":"response.completed","respon`,
			codec.EndEOF,
			[]string{"error upstream: The provider ended the stream before the answer was complete.", "end broken"},
		},
		"nothing, on a broken connection": {
			"", codec.EndBroken, []string{"error upstream: The provider ended the stream before the answer was complete.", "end broken"},
		},
		"nothing, because the client left": {"", codec.EndCancelled, []string{"end cancelled"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dec := responses.Provider().NewDecoder()
			dec.Decode(nil, nil, []byte(begun))
			var got []string
			for _, ev := range dec.Finish(nil, c.end, []byte(c.residue)) {
				got = append(got, codectest.Line(&ev))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if more := dec.Decode(nil, nil, []byte(begun)); len(more) > 0 {
				t.Errorf("after the end: %v", more)
			}
		})
	}
}

func TestADecoderIsAsNewAfterReset(t *testing.T) { // P6
	frames := answers(t)["worked_example"]
	dec := responses.Provider().NewDecoder()
	play := func() (lines []string) {
		for _, frame := range frames {
			for _, ev := range dec.Decode(nil, nil, []byte(frame)) {
				lines = append(lines, codectest.Line(&ev))
			}
		}
		return lines
	}
	first := play()
	dec.Reset()
	if diff := cmp.Diff(first, play()); diff != "" {
		t.Error(diff)
	}
}

// A "done" that repeats one before it adds nothing, though a decoder has just read a text from a frame of the same form.
func TestARepeatedDoneAddsNothing(t *testing.T) {
	const (
		delta = `{"type":"response.reasoning_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"a"}`
		done  = `{"type":"response.reasoning_summary_text.done","item_id":"m","output_index":0,"summary_index":0,"text":"k"}`
	)
	dec := responses.Provider().NewDecoder()
	var text strings.Builder
	for _, data := range []string{delta, done, done} {
		for _, ev := range dec.Decode(nil, nil, []byte(data)) {
			if ev.Kind == codec.EventReasoning {
				text.Write(ev.Raw)
			}
		}
	}
	if got := text.String(); got != "ak" {
		t.Errorf("the reasoning is %q, not %q", got, "ak")
	}
}
