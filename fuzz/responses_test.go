package fuzz_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// Any request of a client is refused with the name of a member, or becomes a JSON document, the same one each time.
func FuzzResponsesDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":"hi"}`))
	f.Add([]byte(`{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"instructions":"s","input":[` +
		`{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image\/png;base64,AA=="},` +
		`{"type":"input_file","file_data":"AA==","filename":"f"},{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}]},` +
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"e"},` +
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"},{"type":"refusal","refusal":"r"}]},` +
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"custom_tool_call","call_id":"d","name":"g","input":"x"},` +
		`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"o"}]},` +
		`{"type":"custom_tool_call_output","call_id":"d","output":{"a":1}}]}`))
	f.Add([]byte(`{"input":[{"type":"additional_tools","tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"x"}]}]},` +
		`{"type":"local_shell_call","call_id":"c","action":{"command":[]}},{"type":"local_shell_call_output","id":"c","output":"o"},` +
		`{"type":"computer_call","call_id":"k","actions":[]},{"type":"computer_call_output","call_id":"k","output":{"image_url":"u"}},` +
		`{"type":"tool_search_call","call_id":"s","execution":"client","arguments":"{}"},{"type":"tool_search_output","call_id":"s",` +
		`"execution":"client","tools":[{"name":"x","type":"function"}]},{"id":"i"},{"type":"web_search_call","action":{"query":"q"}}],` +
		`"tools":[{"type":"shell"},{"type":"web_search"},{"type":"mcp"}],"tool_choice":{"type":"allowed_tools","tools":[{"type":"mcp"}]},` +
		`"text":{"format":{"type":"json_object"},"verbosity":"low"}}`))
	client, provider := responses.Client(), responses.Provider()
	target := &codec.Target{Model: "m", Family: codec.FamilyOpenAI}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		var r codec.Request
		r.Reset()
		if err := client.DecodeRequest(&r, body); err != nil {
			return
		}
		if _, err := written(t, provider, &r, target); err != nil {
			t.Fatalf("decoded, but not encoded: %v", err)
		}
	}))
}

// The events of a stream do not depend on where the network splits it, they are in order whatever its content, and the
// client's stream is well-formed.
func FuzzResponsesStreamDecode(f *testing.F) {
	f.Add([]byte("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}\n\n"+
		"data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"f\",\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\"}}\n\n"+
		"data: {\"type\":\"response.function_call_arguments.delta\",\"item_id\":\"f\",\"output_index\":0,\"delta\":\"{}\"}\n\n"+
		"data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"f\",\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\",\"arguments\":\"{}\"}}\n\n"+
		"data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n"), byte(3))
	f.Add([]byte("data: {\"type\":\"response.output_text.delta\",\"delta\":\"\xe6\x97\xa5\\ud83d\"}\r\n\r\n"+
		"data:{\"type\":\"response.output_text.annotation.added\",\"annotation\":{\"url\":\"u\"}}\r\n\r\n"+
		"data: {\"type\":\"response.reasoning_summary_text.delta\",\"delta\":\"x\",\"summary_index\":3}\r\n\r\n"+
		"data: {\"type\":\"response.incomplete\",\"response\":{\"incomplete_details\":{\"reason\":\"content_filter\"}}}"), byte(1))
	f.Add([]byte("data: {\"type\":\"response.completed\",\ndata: \"response\":{\"output\":[{\"type\":\"reasoning\",\"encrypted_content\":\"e\"},"+
		"{\"type\":\"message\",\"content\":[{\"text\":\"a\"},{\"refusal\":\"b\"}]},{\"type\":\"x\"},{\"type\":\"custom_tool_call\",\"id\":\"c\",\"name\":\"n\",\"input\":\"i\"}]}}\n\n"), byte(9))
	f.Add([]byte("data: {\"type\":\"error\",\"error\":{\"code\":\"slow_down\"}}\n\n"), byte(7))
	f.Add([]byte(`data: {"type":"response.completed","response":{"output":[{"type":"\"\b"}]}}`), byte(9))
	f.Fuzz(mutant.Each(200, func(t *testing.T, stream []byte, cut byte) {
		whole := responsesEvents(t, stream, len(stream)+1)
		cutUp := responsesEvents(t, stream, int(cut)%64+1)
		if whole != cutUp {
			t.Fatalf("whole:\n%s\nin pieces:\n%s", whole, cutUp)
		}
	}))
}

// responsesEvents prints the events of a stream that is read in pieces of that size, and checks the client's stream.
func responsesEvents(t *testing.T, stream []byte, size int) string {
	t.Helper()
	var (
		sent    []byte
		law     = responsesLaw{}
		encoder = responses.Client().NewEncoder(responsesOptions(7))
	)
	printed := eventsOf(t, responses.Provider(), stream, size, func(ev *codec.Event) error {
		sent = encoder.Append(sent, ev)
		return law.take(ev)
	})
	if err := grammar.Responses(sent); err != nil {
		t.Fatalf("%v\n%s", err, sent)
	}
	return printed
}

// responsesLaw checks what this codec promises beyond the order of its events: no items are open at the finish, and no
// delta is empty. It has the open items.
type responsesLaw map[int32]bool

func (open responsesLaw) take(ev *codec.Event) error {
	switch ev.Kind {
	case codec.EventItemOpen:
		open[ev.Item] = true
	case codec.EventItemClose:
		delete(open, ev.Item)
	case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventSignature, codec.EventArguments, codec.EventCustomInput:
		if len(ev.Raw) == 0 {
			return fmt.Errorf("an empty event %d", ev.Kind)
		}
	case codec.EventFinish:
		if len(open) > 0 {
			return fmt.Errorf("items %v are open at the finish", open)
		}
	}
	return nil
}

func responsesOptions(bits byte) *codec.AnswerOptions {
	return &codec.AnswerOptions{
		ID: "01h", Model: "m\"x", Created: time.Unix(1, 0), IncludeState: bits&1 != 0, ShowReasoning: bits&2 != 0,
		RefusalAsText: bits&8 != 0,
	}
}

// Any events in any order become a well-formed stream.
func FuzzResponsesStreamEncode(f *testing.F) {
	f.Add([]byte{3, 1, 0, 0, 2, 0, 0, 3, 1, 0, 10, 0, 0, 11, 2, 0})
	f.Add([]byte("one two three four five six seven eight"))
	f.Add([]byte{16, 2, 4, 0, 7, 2, 0, 8, 3, 0, 2, 5, 1, 10, 4, 1})
	request := &codec.Request{Tools: []codec.Tool{{Name: []byte("shell"), WireType: []byte("shell"), Origin: codec.Responses}}}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, script []byte) {
		var bits byte
		if len(script) > 0 {
			bits = script[0]
		}
		o := responsesOptions(bits)
		if bits&16 != 0 {
			o.Request = request
		}
		encoder := responses.Client().NewEncoder(o)
		var stream []byte
		for _, ev := range responsesScript(script) {
			stream = encoder.Append(stream, &ev)
		}
		if err := grammar.Responses(stream); err != nil {
			t.Fatalf("%v\n%s", err, stream)
		}
	}))
}

// responsesScript turns a script into events in random order, with an end as the last one.
func responsesScript(script []byte) []codec.Event {
	bodies := [][]byte{nil, []byte("a"), []byte(`\n\"`), []byte("日本"), []byte(`\ud83d`), []byte(`{\"a\":1}`)}
	wires := [][]byte{
		[]byte(`{"type":"web_search_call","id":"x","status":"completed"}`), []byte("{\"n\":1,\n\"type\":\"new_call\"}"), []byte(`{}`),
		[]byte(`{"type":"server_tool_use","name":"web_search","input":{"query":"q"}}`), nil,
	}
	names := [][]byte{[]byte("read"), []byte("shell")}
	next := int32(0)
	var events []codec.Event
	for i := 1; i+2 < len(script); i += 3 {
		a, b := script[i+1], script[i+2]
		ev := codec.Event{
			Kind: codec.EventKind(script[i] % 15), Type: codec.ItemType(a%9 + 1), Item: int32(b % 6), Sub: int32(b / 6 % 3),
			Finish: codec.FinishReason(a % 9), Raw: bodies[int(a)%len(bodies)], CallID: bodies[int(b)%2], Name: names[int(a)%2],
			Family: codec.Family(b % 4), Usage: codec.Usage{Output: int64(a)}, Whole: b&64 != 0,
		}
		switch ev.Kind {
		case codec.EventItemOpen:
			if b&128 == 0 {
				ev.Item = next
			}
			next++
		case codec.EventAnnotation:
			ev.Origin, ev.Raw = codec.Format(b%5), []byte(`{"url":"u","title":"t"}`)
		case codec.EventItemClose:
			ev.Origin, ev.Raw = codec.Format(b%5), wires[int(a)%len(wires)]
		}
		events = append(events, ev)
	}
	return append(events, codec.Event{Kind: codec.EventEnd, End: codec.End(len(script)%4 + 1)})
}
