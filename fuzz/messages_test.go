package fuzz_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// Any JSON that a client may send is decoded or refused with a 400, and the result can be encoded as JSON that decodes
// to the same again.
func FuzzMessagesDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","max_tokens":5,"system":"s","messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":1.0}}]},{"role":"user","content":[{"type":"text","text":"t"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]}]}`,
		`{"messages":[{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_definition","definition":{"name":"f"}}}],"output_config":{"effort":"low"}}],"tools":[{"name":"a","input_schema":{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{}}}}],"tool_choice":{"type":"tool","name":"a","disable_parallel_tool_use":true}}`,
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"}]}},{"type":"web_search_tool_result","content":[{"title":"t","url":"u"}]}]}],"output_config":{"format":{"type":"json_schema","schema":{"oneOf":[{"minimum":1}]}}},"thinking":{"type":"enabled","budget_tokens":1024}}`,
	} {
		f.Add([]byte(seed))
	}
	target := &codec.Target{Model: "m", Family: codec.FamilyAnthropic, ForcedTools: true, Sampling: true, StructuredOutput: true}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		r := new(codec.Request)
		r.Reset()
		if err := messages.Client().DecodeRequest(r, body); err != nil {
			messagesRefusal(t, err)
			return
		}
		sent, err := messages.Provider().AppendRequest(nil, r, target)
		if err != nil {
			messagesRefusal(t, err)
			return
		}
		if !json.Valid(sent) {
			t.Fatalf("not JSON: %s", sent)
		}
		again := new(codec.Request)
		again.Reset()
		if err := messages.Client().DecodeRequest(again, sent); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, sent)
		}
		twice, err := messages.Provider().AppendRequest(nil, again, target)
		if err != nil || !bytes.Equal(sent, twice) {
			t.Fatalf("written twice: %v\n%s\n%s", err, sent, twice)
		}
	}))
}

func messagesRefusal(t *testing.T, err error) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest || e.Message == "" {
		t.Fatalf("refused with %v", err)
	}
}

// However a provider's stream is split into reads, the events are the same: items numbered without gaps, one end,
// nothing after it. The client's stream is well-formed.
func FuzzMessagesStreamDecode(f *testing.F) {
	f.Add([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{\"input_tokens\":3}}}\n\n"+
		"data:{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}}\r\n\r\n"+
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\\\"é\\\"}\"}}\r\r"+
		"event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"tool_use\"},\ndata: \"usage\":{\"output_tokens\":3}}\n\n"+
		"data: {\"type\":\"message_stop\"}\n\n"), uint16(7))
	f.Add([]byte("data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"x\"}}\n\n{\"error\":{\"message\":\"busy\"}}"), uint16(3))
	f.Add([]byte(": ping\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"server_tool_use\",\"id\":\"s\",\"name\":\"n\",\"input\":{}}}\n\n"+
		"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n"), uint16(1))
	f.Fuzz(mutant.Each(1000, func(t *testing.T, stream []byte, size uint16) {
		whole := messagesEvents(t, stream, len(stream)+1)
		cutUp := messagesEvents(t, stream, int(size)%64+1)
		if whole != cutUp {
			t.Fatalf("whole:\n%s\nin pieces:\n%s", whole, cutUp)
		}
	}))
}

// messagesEvents prints the events of a stream that is read in pieces of that size, and checks the client's stream.
func messagesEvents(t *testing.T, stream []byte, size int) string {
	t.Helper()
	var sent []byte
	encoder := messages.Client().NewEncoder(&codec.AnswerOptions{ID: "1", Model: "m", ShowReasoning: true})
	printed := eventsOf(t, messages.Provider(), stream, size, func(ev *codec.Event) error {
		tame := messagesTame(*ev)
		sent = encoder.Append(sent, &tame)
		return nil
	})
	if err := grammar.Messages(sent); err != nil {
		t.Fatalf("%v\nevents:\n%s", err, printed)
	}
	return printed
}

// messagesTame removes what the engine between the codecs would correct, ids that clients refuse, and the provider's
// own wire values, which are passed on unchanged.
func messagesTame(ev codec.Event) codec.Event {
	if ev.Kind == codec.EventItemClose || ev.Kind == codec.EventAnnotation {
		ev.Raw = nil
	}
	for _, c := range ev.CallID {
		if c != '_' && c != '-' && c-'0' > 9 && c|0x20-'a' > 25 {
			ev.CallID = nil
			return ev
		}
	}
	return ev
}

// Any events in any order become a well-formed stream once it has ended, and the complete answer of the same events is
// JSON.
func FuzzMessagesStreamEncode(f *testing.F) {
	f.Add([]byte{1, 0, 0, 2, 1, 0, 3, 0, 1, 7, 0, 8, 10, 0, 0, 11, 1, 0, 12, 3, 3, 15, 1, 0})
	f.Add([]byte{2, 5, 0, 2, 5, 1, 7, 1, 8, 7, 0, 9, 3, 0, 2, 2, 1, 2, 3, 2, 1, 11, 5, 0, 15, 1, 0})
	f.Add([]byte{2, 3, 0, 5, 0, 1, 6, 0, 1, 2, 4, 1, 6, 1, 1, 10, 0, 0, 10, 1, 1, 6, 0, 1, 15, 2, 0})
	f.Fuzz(mutant.Each(1000, func(t *testing.T, script []byte) {
		o := &codec.AnswerOptions{ID: "1", Model: "m", ShowReasoning: len(script)%2 == 0, EstimatedInput: int64(len(script))}
		encoder := messages.Client().NewEncoder(o)
		var stream []byte
		var answer codec.Answer
		opened := int32(0)
		for ; len(script) >= 3; script = script[3:] {
			ev := messagesEvent(script[0], script[1], script[2])
			if ev.Kind == codec.EventItemOpen {
				ev.Item = opened
				opened++
			}
			stream = encoder.Append(stream, &ev)
			answer.Add(&ev)
		}
		stream = encoder.Append(stream, &codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
		if err := grammar.Messages(stream); err != nil {
			t.Fatalf("%v\n%s", err, stream)
		}
		if body := messages.Client().AppendAnswer(nil, &answer, o); !json.Valid(body) {
			t.Fatalf("not JSON: %s", body)
		}
	}))
}

// messagesEvent makes an event from three bytes: its kind, its item or type, its payload.
func messagesEvent(kind, a, b byte) codec.Event {
	payloads := [...]string{``, `a`, `é`, `\n`, `\"`, `\\`, `\u007b`, `{`, `{\"a\":`, `\"b\"}`, `}`, `{}`, `[`, `]`}
	wires := [...]string{
		``, `{}`, `[]`, `{"type":"server_tool_use","id":"s","name":"n","input":{"q":1}}`, "{\"type\":\n\"new\"}",
		`{"type":"web_search_call","id":"w","action":{"query":"q","sources":[{"url":"u"}]}}`, `{"type":"url_citation","url":"u","title":"t"}`,
	}
	ev := codec.Event{
		Kind: codec.EventKind(kind % byte(codec.EventEnd+1)), Item: int32(a % 8), Sub: int32(b % 3),
		Type: codec.ItemType(a % byte(codec.ItemOpaque+1)), Finish: codec.FinishReason(a % byte(codec.FinishMalformedCall+1)),
		End: codec.End(a % byte(codec.EndCancelled+1)), Whole: b%5 == 0, Origin: codec.Format(b % byte(codec.Embeddings+1)),
		CallID: []byte("call_1")[:6*(int(b)%2)], Name: []byte("f")[:min(1, int(a)%7)],
	}
	switch ev.Kind {
	case codec.EventAnnotation, codec.EventItemClose:
		ev.Raw = []byte(wires[int(b)%len(wires)])
	case codec.EventUsage, codec.EventStart:
		ev.Usage = codec.Usage{InputUncached: int64(a), Output: int64(b)}
	case codec.EventError:
		if b%2 == 0 {
			ev.Err = &codec.Error{Kind: codec.Kind(a % byte(codec.KindStorage+1)), Message: "m"}
		}
	default:
		ev.Raw = []byte(payloads[int(b)%len(payloads)])
	}
	return ev
}
