package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/transcript"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

var (
	kindWords = map[codec.EventKind]string{
		codec.EventStart: "start", codec.EventItemOpen: "open", codec.EventText: "text", codec.EventRefusal: "refusal",
		codec.EventReasoning: "reasoning", codec.EventSignature: "signature", codec.EventArguments: "arguments",
		codec.EventCustomInput: "input", codec.EventAnnotation: "annotation", codec.EventItemClose: "close",
		codec.EventFinish: "finish", codec.EventUsage: "usage", codec.EventError: "error", codec.EventPing: "ping",
		codec.EventEnd: "end",
	}
	typeWords = map[codec.ItemType]string{
		codec.ItemText: "text", codec.ItemRefusal: "refusal", codec.ItemReasoning: "reasoning",
		codec.ItemRedacted: "redacted", codec.ItemToolCall: "call", codec.ItemCustomCall: "custom call",
		codec.ItemServerTool: "server tool", codec.ItemOpaque: "opaque",
	}
	endWords = map[codec.End]string{
		codec.EndTerminal: "terminal", codec.EndEOF: "eof", codec.EndBroken: "broken", codec.EndCancelled: "cancelled",
	}
)

// describe writes an event as a line of a transcript.
func describe(ev *codec.Event) string {
	words := []string{kindWords[ev.Kind]}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch ev.Kind {
	case codec.EventStart:
		add("id=%s model=%s created=%d", ev.ID, ev.Model, ev.Created)
	case codec.EventItemOpen:
		add("%d %s id=%s", ev.Item, typeWords[ev.Type], ev.ID)
		if ev.CallID != nil || ev.Name != nil {
			add("call=%s name=%s", ev.CallID, ev.Name)
		}
		if ev.Namespace != nil {
			add("namespace=%s", ev.Namespace)
		}
	case codec.EventReasoning:
		add("%d.%d %s", ev.Item, ev.Sub, ev.Raw)
		if ev.Summary {
			add("(summary)")
		}
	case codec.EventItemClose:
		add("%d %s %s", ev.Item, typeWords[ev.Type], ev.Raw)
	case codec.EventFinish:
		add("%s", ev.Finish)
	case codec.EventUsage:
		add("%+v", ev.Usage)
	case codec.EventError:
		add("%v code=%s", ev.Err, ev.Err.Code)
	case codec.EventEnd:
		add("%s", endWords[ev.End])
	case codec.EventPing:
	default:
		add("%d %s", ev.Item, ev.Raw)
	}
	if ev.Whole {
		add("(whole)")
	}
	return strings.TrimRight(strings.Join(words, " "), " ")
}

// TestTranscripts plays provider streams, frame by frame. Of each frame (>) it shows the events that it means (=), and
// what a client of the same format is then sent (<), which has to be well-formed.
func TestTranscripts(t *testing.T) { transcript.Each(t, "stream", streamTranscript) }

func streamTranscript(t *testing.T, story string) string {
	var b strings.Builder
	dec := responses.Provider().NewDecoder()
	enc := responses.Client().NewEncoder(options())
	var out []byte
	show := func(events []codec.Event) {
		for i := range events {
			fmt.Fprintf(&b, "  = %s\n", describe(&events[i]))
			from := len(out)
			out = enc.Append(out, &events[i])
			for _, line := range strings.Split(string(out[from:]), "\n") {
				if data, ok := strings.CutPrefix(line, "data: "); ok {
					fmt.Fprintf(&b, "  < %s\n", shorten(data))
				}
			}
		}
	}
	for _, line := range strings.Split(story, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
			fmt.Fprintln(&b, line)
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&b, line)
			show(dec.Decode(nil, nil, []byte(line[2:])))
		}
	}
	fmt.Fprintln(&b, "end of the body")
	show(dec.Finish(nil, codec.EndEOF, nil))
	if err := grammar.Responses(out); err != nil {
		t.Errorf("what the client gets is not well-formed: %v", err)
	}
	return b.String()
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
			[]string{"close 0 text", "finish end", "end terminal"},
		},
		"an error that nobody framed": {
			`{"error":{"message":"At capacity.","code":"server_is_overloaded"}}`,
			codec.EndEOF,
			[]string{"error overloaded: At capacity. code=server_is_overloaded", "end broken"},
		},
		"half a frame": {
			`data: {"type":"response.completed","respon`,
			codec.EndEOF,
			[]string{"error upstream: The provider ended the stream before the answer was complete. code=", "end broken"},
		},
		"nothing, on a broken connection": {
			"", codec.EndBroken, []string{"error upstream: The provider ended the stream before the answer was complete. code=", "end broken"},
		},
		"nothing, because the client left": {"", codec.EndCancelled, []string{"end cancelled"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dec := responses.Provider().NewDecoder()
			dec.Decode(nil, nil, []byte(begun))
			var got []string
			for _, ev := range dec.Finish(nil, c.end, []byte(c.residue)) {
				got = append(got, describe(&ev))
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
				lines = append(lines, describe(&ev))
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
