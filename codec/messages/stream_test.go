package messages_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// decodeStream reads the provider frames of a transcript.
func decodeStream(frames ...string) []codec.Event {
	d := messages.Provider().NewDecoder()
	var all []codec.Event
	for _, frame := range frames {
		all = append(all, copied(decodeStep(d, frame))...)
	}
	return all
}

// A complete answer and the stream of the same content fold to the same answer.
func TestCompleteAnswerEqualsStream(t *testing.T) {
	body := `{"id":"msg_01B","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[` +
		`{"type":"thinking","thinking":"Need the \"forecast\".","signature":"EqQBCg=="},` +
		`{"type":"redacted_thinking","data":"ZGF0YQ=="},` +
		`{"type":"text","text":"Let me check \ud83d\ude00","citations":[{"type":"char_location","cited_text":"x"}]},` +
		`{"type":"tool_use","id":"toolu_01C","name":"get_weather","input":{"city":"Oslo"},"caller":{"type":"direct"}}],` +
		`"stop_reason":"tool_use","stop_sequence":null,` +
		`"usage":{"input_tokens":377,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":65,"output_tokens_details":{"thinking_tokens":20}}}`
	streamed := fold(decodeStream(codectest.Inputs(codectest.All(t, "stream_decode")["full_turn"])...))
	complete := fold(messages.Provider().DecodeAnswer(nil, []byte(body), ""))
	if diff := cmp.Diff(complete, streamed); diff != "" {
		t.Errorf("(-complete +streamed):\n%s", diff)
	}
	if complete.End != codec.EndTerminal || len(complete.Items) != 4 {
		t.Errorf("the answer ends with %d and has %d items", complete.End, len(complete.Items))
	}
	for i := range complete.Items {
		if !complete.Items[i].Closed {
			t.Errorf("item %d is not closed", i)
		}
	}
	// A host that answers whole where a stream was asked for says the same in one frame.
	if diff := cmp.Diff(complete, fold(decodeStream(body))); diff != "" {
		t.Errorf("in one frame (-complete +frame):\n%s", diff)
	}
}

// A body that is no answer is an error and never an empty success.
func TestCompleteAnswerThatIsNone(t *testing.T) {
	for _, body := range []string{
		``, `<html>`, `[]`, `{}`, `{"content":{}}`, `{"error":{"message":"x"}}`, `{"type":"error","error":null}`,
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
	} {
		a := fold(messages.Provider().DecodeAnswer(nil, []byte(body), ""))
		if a.Err == nil || a.Err.Message == "" || a.End != codec.EndBroken {
			t.Errorf("%s: error %v, end %d", body, a.Err, a.End)
		}
	}
}

// P6: a decoder that served one stream is as new for the next.
func TestReuseLeavesNothingBehind(t *testing.T) {
	d := messages.Provider().NewDecoder()
	for name, recorded := range codectest.All(t, "stream_decode") {
		t.Run("decode "+name, func(t *testing.T) {
			frames := codectest.Inputs(recorded)
			d.Reset()
			var got strings.Builder
			for _, frame := range frames {
				got.WriteString(scribe(decodeStep(d, frame)))
			}
			if diff := cmp.Diff(scribe(decodeStream(frames...)), got.String()); diff != "" {
				t.Errorf("(-new +reused):\n%s", diff)
			}
		})
	}
}

// Whatever the events and their order, the client sees a well-formed stream once the end is reported.
func TestAnyEventsGiveAWellFormedStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := opening(rapid.SliceOf(anyEvent()).Draw(t, "events"))
		list = append(list, codec.Event{Kind: codec.EventEnd, End: rapid.SampledFrom([]codec.End{
			codec.EndTerminal, codec.EndEOF, codec.EndBroken, codec.EndCancelled,
		}).Draw(t, "end")})
		o := options()
		o.ShowReasoning = rapid.Bool().Draw(t, "show")
		o.EstimatedInput = rapid.Int64Range(0, 9).Draw(t, "estimate")
		stream := encode(o, list)
		if err := grammar.Messages(stream); err != nil {
			t.Fatalf("%v\n\n%s\n%s", err, scribe(list), stream)
		}
	})
}

func anyEvent() *rapid.Generator[codec.Event] {
	pieces := []string{``, `a`, `{`, `}`, `\"`, `\\`, ` `, `{}`, `{\"a\":1}`, `\u007d`, `é`}
	raws := []string{
		``, `{"type":"web_search_call","id":"ws","action":{"query":"q"}}`, `{"type":"server_tool_use","id":"s","name":"n","input":{"a":1}}`,
		"{\"type\":\n\"hologram\"}", `{"type":"url_citation","url":"u"}`, `{"url":1}`, `[]`, `{}`,
	}
	return rapid.Custom(func(t *rapid.T) codec.Event {
		ev := codec.Event{
			Kind:   codec.EventKind(rapid.IntRange(0, int(codec.EventPing)).Draw(t, "kind")),
			Item:   rapid.Int32Range(-1, 5).Draw(t, "item"),
			Sub:    rapid.Int32Range(0, 2).Draw(t, "sub"),
			Type:   codec.ItemType(rapid.IntRange(0, int(codec.ItemImage)).Draw(t, "type")),
			Finish: codec.FinishReason(rapid.IntRange(0, int(codec.FinishMalformedCall)).Draw(t, "finish")),
			Whole:  rapid.Bool().Draw(t, "whole"),
			Origin: codec.Format(rapid.IntRange(0, int(codec.Gemini)).Draw(t, "origin")),
			CallID: []byte(rapid.SampledFrom([]string{"", "call_1"}).Draw(t, "id")),
			Name:   []byte(rapid.SampledFrom([]string{"", "f"}).Draw(t, "name")),
		}
		switch ev.Kind {
		case codec.EventAnnotation, codec.EventItemClose:
			ev.Raw = []byte(rapid.SampledFrom(raws).Draw(t, "raw"))
		case codec.EventError:
			if rapid.IntRange(0, 5).Draw(t, "rare") > 0 {
				ev.Kind = codec.EventPing
			}
		case codec.EventUsage, codec.EventStart:
			ev.Usage.InputUncached = rapid.Int64Range(0, 3).Draw(t, "in")
			ev.Usage.Output = rapid.Int64Range(0, 3).Draw(t, "out")
		default:
			ev.Raw = []byte(rapid.SampledFrom(pieces).Draw(t, "piece"))
		}
		return ev
	})
}

// opening gives most items that are opened the ordinal that they should have.
func opening(list []codec.Event) []codec.Event {
	next := int32(0)
	for i := range list {
		if list[i].Kind == codec.EventItemOpen && list[i].Item >= 0 {
			list[i].Item = next
			next++
		}
	}
	return list
}

// P17 as a law: however the fragments of calls and texts are mixed, each arrives whole, and the calls keep their order.
func TestMixedFragmentsArriveWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type stream struct {
			call  bool
			parts []string
		}
		var items []stream
		for i := range rapid.IntRange(1, 5).Draw(t, "items") {
			if rapid.Bool().Draw(t, "call") {
				items = append(items, stream{true, []string{`{\"n\":`, fmt.Sprint(i), `,\"s\":\"}`, `\\\"`, `\"}`}})
			} else {
				items = append(items, stream{false, []string{fmt.Sprintf("t%d-", i), "a", "b"}})
			}
		}
		var list []codec.Event
		for i, it := range items {
			typ := codec.ItemText
			if it.call {
				typ = codec.ItemToolCall
			}
			list = append(list, codec.Event{
				Kind: codec.EventItemOpen, Item: int32(i), Type: typ,
				CallID: []byte(fmt.Sprintf("call_%d", i)), Name: []byte("f"),
			})
		}
		left := make([]int, len(items))
		for {
			var open []int
			for i := range items {
				if left[i] < len(items[i].parts) {
					open = append(open, i)
				}
			}
			if len(open) == 0 {
				break
			}
			i := rapid.SampledFrom(open).Draw(t, "next")
			kind := codec.EventText
			if items[i].call {
				kind = codec.EventArguments
			}
			list = append(list, codec.Event{Kind: kind, Item: int32(i), Raw: []byte(items[i].parts[left[i]])})
			left[i]++
		}
		list = append(list, codec.Event{Kind: codec.EventFinish, Finish: codec.FinishEnd}, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
		out := encode(options(), list)
		if err := grammar.Messages(out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		// Read back by the provider codec, which is the other side of the same format.
		d := messages.Provider().NewDecoder()
		var back []codec.Event
		for frame := range bytes.SplitSeq(out, []byte("\n\n")) {
			if _, data, found := bytes.Cut(frame, []byte("data: ")); found {
				back = append(back, copied(d.Decode(nil, nil, data))...)
			}
		}
		text, wantText := map[byte]int{}, map[byte]int{}
		var calls, wantCalls []string
		for _, it := range fold(back).Items {
			if it.Type == codec.ItemToolCall {
				calls = append(calls, string(it.CallID)+string(it.Text))
				continue
			}
			for _, c := range it.Text {
				text[c]++
			}
		}
		for i, it := range items {
			whole := strings.Join(it.parts, "")
			if it.call {
				wantCalls = append(wantCalls, fmt.Sprintf("call_%d", i)+whole)
				continue
			}
			for _, c := range []byte(whole) {
				wantText[c]++
			}
		}
		if diff := cmp.Diff(wantCalls, calls); diff != "" {
			t.Fatalf("calls (-want +got):\n%s\n%s", diff, out)
		}
		if diff := cmp.Diff(wantText, text); diff != "" {
			t.Fatalf("text (-want +got):\n%s\n%s", diff, out)
		}
	})
}

// A provider that opens items without end, or mixes without end, is cut off before it fills the memory.
func TestEncoderBoundsWhatItKeeps(t *testing.T) {
	e := messages.Client().NewEncoder(options())
	var dst []byte
	for i := range int32(70_000) {
		dst = e.Append(dst[:0], &codec.Event{Kind: codec.EventItemOpen, Item: i, Type: codec.ItemText})
		if bytes.Contains(dst, []byte("event: error")) {
			break
		}
	}
	if !bytes.Contains(dst, []byte("event: error")) {
		t.Error("items without end were taken")
	}
	e = messages.Client().NewEncoder(options())
	e.Append(nil, &codec.Event{Kind: codec.EventItemOpen, Item: 0, Type: codec.ItemToolCall, CallID: []byte("a"), Name: []byte("f")})
	e.Append(nil, &codec.Event{Kind: codec.EventItemOpen, Item: 1, Type: codec.ItemText})
	megabyte := bytes.Repeat([]byte("x"), 1<<20)
	dst = dst[:0]
	for range 40 {
		dst = e.Append(dst, &codec.Event{Kind: codec.EventText, Item: 1, Raw: megabyte})
	}
	if !bytes.HasPrefix(dst, []byte("event: error")) {
		t.Error("text without end was kept")
	}
}

// A wire value that is spread over lines does not break its frame.
func TestLineEndsInsideWireValues(t *testing.T) {
	for _, raw := range []string{"{\n\"type\": \"hologram\"\r\n}", "{\"type\":\"server_tool_use\",\n\"id\":\"a\",\"name\":\"f\",\"input\":{\n\"a\":1}}"} {
		stream := encode(options(), []codec.Event{
			{Kind: codec.EventItemOpen, Type: codec.ItemServerTool},
			{Kind: codec.EventItemClose, Raw: []byte(raw), Origin: codec.Messages},
			{Kind: codec.EventEnd, End: codec.EndTerminal},
		})
		if err := grammar.Messages(stream); err != nil {
			t.Error(err)
		}
	}
}

func TestHeartbeatIsAPingUntilTheEnd(t *testing.T) {
	e := messages.Client().NewEncoder(options())
	stream := e.Append(nil, &codec.Event{Kind: codec.EventPing})
	stream = e.Append(stream, &codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
	if err := grammar.Messages(e.Append(stream, &codec.Event{Kind: codec.EventPing})); err != nil {
		t.Error(err)
	}
}

// The complete answer is JSON whatever its items hold.
func TestCompleteAnswerOfAnyItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := fold(opening(rapid.SliceOf(anyEvent()).Draw(t, "events")))
		if body := messages.Client().AppendAnswer(nil, a, options()); !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
	})
}

// P19, P99: figures are never zero, whether the provider reported none or only some.
func TestUsageIsNeverNothing(t *testing.T) {
	start := encode(&codec.AnswerOptions{ID: "1"}, events(t, "start id=1 model=m"))
	if !bytes.Contains(start, []byte(`"input_tokens":1,`)) {
		t.Errorf("without an estimate: %s", start)
	}
	stream := encode(options(), events(t, `
		start id=1 model=m
		open 0 text
		text 0 eight ch
		finish end
		usage in=0 out=7
		end terminal`))
	if !bytes.Contains(stream, []byte(`"usage":{"input_tokens":900,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":7,`)) {
		t.Errorf("got %s", stream)
	}
}

// A provider that opens blocks without end is stopped.
func TestDecoderBoundsOpenBlocks(t *testing.T) {
	d := messages.Provider().NewDecoder()
	for i := range 1000 {
		list := d.Decode(nil, nil, fmt.Appendf(nil, `{"type":"content_block_start","index":%d,"content_block":{"type":"text"}}`, i))
		if last := list[len(list)-1]; last.Kind == codec.EventError {
			return
		}
	}
	t.Error("a thousand open blocks were taken")
}
