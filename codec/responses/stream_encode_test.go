package responses_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// options are those of the exchange that the tests are about.
func options() *codec.AnswerOptions {
	return &codec.AnswerOptions{
		ID: "7k", Model: "claude-sonnet-5", Created: time.Unix(1795168000, 0), IncludeState: true, ShowReasoning: true,
	}
}

// stream is what the client gets for the events, checked against the grammar of the format.
func stream(t *testing.T, o *codec.AnswerOptions, events ...codec.Event) string {
	t.Helper()
	enc := responses.Client().NewEncoder(o)
	var out []byte
	for i := range events {
		out = enc.Append(out, &events[i])
	}
	if err := grammar.Responses(out); err != nil {
		t.Errorf("the stream is not well-formed: %v\n%s", err, out)
	}
	return string(out)
}

func start() codec.Event { return codec.Event{Kind: codec.EventStart, ID: []byte("msg_up")} }

func open(item int32, kind codec.ItemType) codec.Event {
	return codec.Event{Kind: codec.EventItemOpen, Item: item, Type: kind}
}

func openCall(item int32, id, name string) codec.Event {
	return codec.Event{Kind: codec.EventItemOpen, Item: item, Type: codec.ItemToolCall, CallID: []byte(id), Name: []byte(name)}
}

func say(kind codec.EventKind, item int32, raw string) codec.Event {
	return codec.Event{Kind: kind, Item: item, Raw: []byte(raw)}
}

func closed(item int32, kind codec.ItemType) codec.Event {
	return codec.Event{Kind: codec.EventItemClose, Item: item, Type: kind}
}

func finished(reason codec.FinishReason) codec.Event {
	return codec.Event{Kind: codec.EventFinish, Finish: reason}
}

func ended(end codec.End) codec.Event { return codec.Event{Kind: codec.EventEnd, End: end} }

// mustContain reports the pieces that are missing in out, in order.
func mustContain(t *testing.T, out string, pieces ...string) {
	t.Helper()
	rest := out
	for _, piece := range pieces {
		_, behind, found := strings.Cut(rest, piece)
		if !found {
			t.Fatalf("%s\nis missing (or out of order) in\n%s", piece, out)
		}
		rest = behind
	}
}

func mustNotContain(t *testing.T, out string, pieces ...string) {
	t.Helper()
	for _, piece := range pieces {
		if strings.Contains(out, piece) {
			t.Errorf("%s\nshould not be in\n%s", piece, out)
		}
	}
}

func TestTextsThatFollowEachOtherShareAMessage(t *testing.T) {
	out := stream(t, options(), start(),
		open(0, codec.ItemText), say(codec.EventText, 0, "one"), closed(0, codec.ItemText),
		open(1, codec.ItemText), say(codec.EventText, 1, "two"), closed(1, codec.ItemText),
		openCall(2, "call_1", "read"), closed(2, codec.ItemToolCall),
		open(3, codec.ItemText), say(codec.EventText, 3, "three"), closed(3, codec.ItemText),
		finished(codec.FinishToolCalls), ended(codec.EndTerminal))
	mustContain(t, out,
		`"item_id":"msg_7k00","output_index":0,"content_index":0,"delta":"one"`,
		`"item_id":"msg_7k00","output_index":0,"content_index":1,"delta":"two"`,
		"event: response.output_item.done", // P18: text between calls is an item of its own, and the first ends before the call begins
		`"type":"function_call","status":"in_progress"`,
		`"item_id":"msg_7k02","output_index":2,"content_index":0,"delta":"three"`,
		"event: response.completed")
}

func TestACallWithoutArgumentsHasAnEmptyObject(t *testing.T) { // P20
	out := stream(t, options(), start(), openCall(0, "call_1", "now"), closed(0, codec.ItemToolCall),
		finished(codec.FinishToolCalls), ended(codec.EndTerminal))
	mustContain(t, out, `"delta":"{}"`, `"arguments":"{}"`, `"status":"completed","call_id":"call_1","name":"now","arguments":"{}"`)
}

func TestCallsMayInterleave(t *testing.T) { // P17, P25
	out := stream(t, options(), start(),
		openCall(0, "call_A", "read"), openCall(1, "call_B", "stat"),
		say(codec.EventArguments, 1, `{\"p\":`), say(codec.EventArguments, 0, `{\"path\":\"a.go\"}`), say(codec.EventArguments, 1, `\"b\"}`),
		closed(0, codec.ItemToolCall), closed(1, codec.ItemToolCall),
		finished(codec.FinishToolCalls), ended(codec.EndTerminal))
	mustContain(t, out, `"arguments":"{\"path\":\"a.go\"}"`, `"arguments":"{\"p\":\"b\"}"`, "response.completed")
}

// Codex takes the conversation from the done events, in the order in which they come.
func TestItemsAreDoneInTheirOrder(t *testing.T) {
	custom := codec.Event{Kind: codec.EventItemOpen, Item: 0, Type: codec.ItemCustomCall, CallID: []byte("call_A"), Name: []byte("exec")}
	out := stream(t, options(), start(),
		custom, openCall(1, "call_B", "read"),
		say(codec.EventArguments, 1, "{}"), say(codec.EventCustomInput, 0, "ls"),
		closed(0, codec.ItemCustomCall), closed(1, codec.ItemToolCall),
		finished(codec.FinishToolCalls), ended(codec.EndTerminal))
	first := strings.Index(out, `"response.output_item.done","sequence_number":7,"output_index":0`)
	second := strings.Index(out, `"response.output_item.done","sequence_number":9,"output_index":1`)
	if first < 0 || second < first {
		t.Errorf("done events at %d and %d:\n%s", first, second, out)
	}
}

func TestAnAnswerThatHitTheLimitInsideACallIsIncompleteAndSoIsTheCall(t *testing.T) { // P96
	out := stream(t, options(), start(),
		openCall(0, "call_A", "read"), say(codec.EventArguments, 0, `{\"path\":\"a.`), closed(0, codec.ItemToolCall),
		finished(codec.FinishLength), ended(codec.EndTerminal))
	mustContain(t, out, "event: response.incomplete", `"incomplete_details":{"reason":"max_output_tokens"}`,
		`"status":"incomplete","call_id":"call_A"`)
	mustNotContain(t, out, ".done") // Codex runs a call that is done, whatever its status
}

func TestACallIsDoneAsSoonAsItCannotHaveBeenCutOff(t *testing.T) { // P96
	custom := codec.Event{Kind: codec.EventItemOpen, Item: 1, Type: codec.ItemCustomCall, CallID: []byte("call_B"), Name: []byte("exec")}
	calls := []codec.Event{
		start(),
		openCall(0, "call_A", "now"), closed(0, codec.ItemToolCall),
		custom, say(codec.EventCustomInput, 1, "rm -r /tmp/x"), closed(1, codec.ItemCustomCall),
	}
	t.Run("by another item", func(t *testing.T) {
		out := stream(t, options(), append(calls, finished(codec.FinishToolCalls), ended(codec.EndTerminal))...)
		mustContain(t, out, `"status":"completed","call_id":"call_A","name":"now","arguments":"{}"}}`, `"status":"in_progress","call_id":"call_B"`,
			`"status":"completed","call_id":"call_B"`, "event: response.completed")
	})
	t.Run("not when the limit was hit", func(t *testing.T) {
		out := stream(t, options(), append(calls, finished(codec.FinishLength), ended(codec.EndTerminal))...)
		mustContain(t, out, "event: response.incomplete", `"status":"incomplete","call_id":"call_B"`)
		mustNotContain(t, out, `"status":"completed","call_id":"call_B"`, "custom_tool_call_input.done")
	})
	t.Run("not without arguments either", func(t *testing.T) {
		out := stream(t, options(), start(), openCall(0, "call_A", "now"), closed(0, codec.ItemToolCall),
			finished(codec.FinishLength), ended(codec.EndTerminal))
		mustContain(t, out, `"status":"incomplete","call_id":"call_A","name":"now","arguments":""`)
		mustNotContain(t, out, ".done")
	})
}

func TestTheTerminalEventComesWithoutAFinishReason(t *testing.T) { // P27, P95
	out := stream(t, options(), start(), open(0, codec.ItemText), say(codec.EventText, 0, "Hi"), ended(codec.EndTerminal))
	mustContain(t, out, "event: response.output_item.done", "event: response.completed")
}

func TestAnErrorBecomesAFailedResponseWithWhatThereIs(t *testing.T) { // P29, P101, P102, P103
	cases := map[string]struct {
		err  *codec.Error
		want string
	}{
		"overloaded": {&codec.Error{Kind: codec.KindOverloaded, Message: "Overloaded"}, `"error":{"code":"server_is_overloaded","message":"Overloaded"}`},
		"rate limit says when": {
			&codec.Error{Kind: codec.KindRateLimited, Message: "Slow down.", RetryAfter: 11054 * time.Millisecond},
			`"error":{"code":"rate_limit_exceeded","message":"Slow down. Please try again in 11.054s."}`,
		},
		"too long": {&codec.Error{Kind: codec.KindContextTooLong, Message: "Too long"}, `"code":"context_length_exceeded"`},
		"no quota": {&codec.Error{Kind: codec.KindQuota, Message: "No credit"}, `"code":"insufficient_quota"`},
		"upstream": {&codec.Error{Kind: codec.KindUpstream, Message: "Broken"}, `"code":"server_error"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out := stream(t, options(), start(), open(0, codec.ItemText), say(codec.EventText, 0, "Half an"),
				codec.Event{Kind: codec.EventUsage, Usage: codec.Usage{InputUncached: 5, Output: 2}},
				codec.Event{Kind: codec.EventError, Err: c.err}, ended(codec.EndBroken))
			mustContain(t, out, "event: response.failed", `"status":"failed"`, c.want,
				`"status":"incomplete","role":"assistant","content":[{"type":"output_text","text":"Half an"`, `"input_tokens":5`)
			mustNotContain(t, out, "response.completed", "event: error", "response.output_item.done")
		})
	}
}

func TestABrokenStreamIsNeverAFinishedAnswer(t *testing.T) {
	for _, end := range []codec.End{codec.EndBroken, codec.EndCancelled, codec.EndEOF} {
		out := stream(t, options(), start(), open(0, codec.ItemText), say(codec.EventText, 0, "Hi"), ended(end))
		mustContain(t, out, "event: response.failed")
	}
}

func TestNothingFollowsTheTerminalEvent(t *testing.T) { // P7, P9
	enc := responses.Client().NewEncoder(options())
	for _, ev := range []codec.Event{start(), ended(codec.EndTerminal)} {
		enc.Append(nil, &ev)
	}
	for _, ev := range []codec.Event{start(), open(0, codec.ItemText), say(codec.EventText, 0, "x"), ended(codec.EndTerminal)} {
		if got := enc.Append(nil, &ev); len(got) > 0 {
			t.Errorf("after the end: %s", got)
		}
	}
}

func TestAFailureBeforeTheBeginningIsOneEvent(t *testing.T) {
	out := stream(t, options(), codec.Event{Kind: codec.EventError, Err: codec.Errorf(codec.KindTimeout, "Too slow.")})
	if strings.Count(out, "event: ") != 1 {
		t.Errorf("%s", out)
	}
}

func TestReasoningIsASummaryWithItsStateInTheDoneItem(t *testing.T) { // P4
	events := []codec.Event{
		start(), open(0, codec.ItemReasoning),
		{Kind: codec.EventReasoning, Raw: []byte("First."), Summary: true},
		{Kind: codec.EventReasoning, Sub: 1, Raw: []byte("Then."), Summary: true},
		{Kind: codec.EventSignature, Raw: []byte("sv1.a.abc"), Family: codec.FamilyAnthropic},
		closed(0, codec.ItemReasoning),
		open(1, codec.ItemText), say(codec.EventText, 1, "Done."), closed(1, codec.ItemText),
		finished(codec.FinishEnd), ended(codec.EndTerminal),
	}
	t.Run("with state", func(t *testing.T) {
		mustContain(t, stream(t, options(), events...),
			`"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_7k00","type":"reasoning","summary":[]}`,
			`"summary_index":0,"delta":"First."`, `"summary_index":1,"delta":"Then."`,
			`"summary":[{"type":"summary_text","text":"First."},{"type":"summary_text","text":"Then."}],"encrypted_content":"sv1.a.abc"}`)
	})
	t.Run("the client wants no state", func(t *testing.T) {
		o := options()
		o.IncludeState = false
		mustNotContain(t, stream(t, o, events...), "sv1.a.abc")
	})
	t.Run("the client may not see reasoning", func(t *testing.T) {
		o := options()
		o.ShowReasoning = false
		out := stream(t, o, events...)
		mustNotContain(t, out, "First.")
		mustContain(t, out, `"summary":[],"encrypted_content":"sv1.a.abc"`)
	})
	t.Run("neither", func(t *testing.T) {
		o := options()
		o.ShowReasoning, o.IncludeState = false, false
		mustNotContain(t, stream(t, o, events...), "reasoning_summary", "rs_7k00")
	})
}

func TestRedactedReasoningIsStateAlone(t *testing.T) {
	out := stream(t, options(), start(), open(0, codec.ItemRedacted), say(codec.EventSignature, 0, "sv1.a.xyz"),
		closed(0, codec.ItemRedacted), finished(codec.FinishEnd), ended(codec.EndTerminal))
	mustContain(t, out, `"type":"reasoning","summary":[],"encrypted_content":"sv1.a.xyz"`)
}

func TestRefusals(t *testing.T) { // P82
	events := []codec.Event{
		start(), open(0, codec.ItemRefusal), say(codec.EventRefusal, 0, "I can't."),
		closed(0, codec.ItemRefusal), finished(codec.FinishFilter), ended(codec.EndTerminal),
	}
	t.Run("are parts of their own and complete answers", func(t *testing.T) {
		out := stream(t, options(), events...)
		mustContain(t, out, "response.refusal.delta", `"content":[{"type":"refusal","refusal":"I can't."}]`, "event: response.completed")
	})
	t.Run("are text for clients that drop them", func(t *testing.T) {
		o := options()
		o.RefusalAsText = true
		out := stream(t, o, events...)
		mustContain(t, out, `"type":"output_text","text":"I can't."`, "event: response.completed")
		mustNotContain(t, out, `"refusal"`)
	})
	t.Run("a filter without words is incomplete", func(t *testing.T) {
		out := stream(t, options(), start(), finished(codec.FinishFilter), ended(codec.EndTerminal))
		mustContain(t, out, "event: response.incomplete", `"reason":"content_filter"`)
	})
}

func TestAnswersRepeatWhatTheRequestSaid(t *testing.T) { // P30: the model is the one that was asked for
	body := "{\"model\":\"claude-sonnet-5\",\"input\":\"hi\",\"temperature\":0.2,\"store\":false,\n" +
		"\"metadata\":{\n\"a\":\"b\"},\"tools\":[{\"type\":\"function\",\r\n\"name\":\"t\",\"parameters\":{}}],\"reasoning\":{\"effort\":\"high\"}}"
	var r codec.Request
	r.Reset()
	if err := responses.Client().DecodeRequest(&r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Request = &r
	out := stream(t, o, start(), ended(codec.EndTerminal))
	mustContain(t, out, "response.created", `"model":"claude-sonnet-5"`, `"metadata":{ "a":"b"}`, `"reasoning":{"effort":"high","summary":null}`,
		`"store":false,"temperature":0.2`, `"tools":[{"type":"function",  "name":"t","parameters":{},"description":null,"strict":false}]`)
	if n := strings.Count(out, `"temperature":0.2`); n != 3 {
		t.Errorf("the temperature is repeated %d times, want in each of the three responses", n)
	}
}

// A client reads the members of a response without looking whether they are there (docs/wire/responses.md#8).
func TestARequestThatSaysLittleIsAnsweredWithEveryMember(t *testing.T) {
	for _, asked := range []string{
		`{"model":"m","input":"hi","text":{"verbosity":"low"},"reasoning":{},"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}],"presence_penalty":0.5}`,
		`{"model":"m","input":"hi","text":{ },"reasoning":null,"tools":null,"frequency_penalty":null}`,
		`{"model":"m","input":"hi"}`,
	} {
		var r codec.Request
		r.Reset()
		if err := responses.Client().DecodeRequest(&r, []byte(asked)); err != nil {
			t.Fatal(err)
		}
		o := options()
		o.Request, o.Clock = &r, func() time.Time { return o.Created.Add(3 * time.Second) }
		out := stream(t, o, start(), ended(codec.EndTerminal))
		mustContain(t, out, `"type":"response.created"`, `"completed_at":null,"status":"in_progress"`, `"completed_at":1795168003,"status":"completed"`)
		for name, least := range map[string]string{
			"presence_penalty": "0", "frequency_penalty": "0", "reasoning": `{"effort":null,"summary":null}`, "parallel_tool_calls": "true", "truncation": `"disabled"`,
			"background": "false", "max_tool_calls": "null", "service_tier": `"default"`, "top_logprobs": "0", "text": `"format":{"type":"text"}}`, "metadata": "{}",
			"previous_response_id": "null", "safety_identifier": "null", "prompt_cache_key": "null", "tools": "[",
		} {
			if name == "presence_penalty" && strings.Contains(asked, name) {
				least = "0.5"
			}
			if n := strings.Count(out, `"`+name+`":`); n != 3 || !strings.Contains(out, least) {
				t.Errorf("%s is in %d of the three responses, want %s:\n%s", name, n, least, out)
			}
		}
	}
	var r codec.Request
	r.Reset()
	if err := responses.Client().DecodeRequest(&r, []byte(`{"input":"","tools":[{"type":"custom","name":"c"},{"type":"function","name":"f"},{"type":"function","name":"g","strict":true,"description":"d","parameters":null}],"text":{}}`)); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.Request = &r
	mustContain(t, stream(t, o, start(), ended(codec.EndTerminal)), `"text":{"format":{"type":"text"}}`,
		`"tools":[{"type":"custom","name":"c"},{"type":"function","name":"f","description":null,"parameters":null,"strict":false},{"type":"function","name":"g","strict":true,"description":"d","parameters":null}]`)
}

func TestAnAnswerThatIsNotCompleteWasNotCompleted(t *testing.T) {
	for _, events := range [][]codec.Event{
		{start(), finished(codec.FinishLength), ended(codec.EndTerminal)},
		{start(), {Kind: codec.EventError, Err: codec.Errorf(codec.KindUpstream, "broken")}},
	} {
		o := options()
		o.Clock = time.Now
		mustNotContain(t, stream(t, o, events...), `"completed_at":1`)
	}
}

// Open Responses has no event for it, and a stream that is silent gets heartbeats whether its provider sends pings or not.
func TestAPingOfTheProviderSaysNothing(t *testing.T) { // P40
	enc := responses.Client().NewEncoder(options())
	begin := start()
	for _, before := range []*codec.Event{nil, &begin} {
		if before != nil {
			mustContain(t, string(enc.Append(nil, before)), "event: response.created", "event: response.in_progress")
		}
		if got := enc.Append(nil, &codec.Event{Kind: codec.EventPing}); len(got) > 0 {
			t.Errorf("got %s", got)
		}
	}
}

func TestUsage(t *testing.T) { // P28, P97, P98
	usage := func(u codec.Usage) codec.Event { return codec.Event{Kind: codec.EventUsage, Usage: u} }
	t.Run("the last report counts, all members are there", func(t *testing.T) {
		out := stream(t, options(), start(), usage(codec.Usage{Output: 1}),
			usage(codec.Usage{InputUncached: 56, CacheRead: 64, CacheWrite: 3, Output: 48, Reasoning: 16}), ended(codec.EndTerminal))
		mustContain(t, out, `"usage":{"input_tokens":123,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":3},`+
			`"output_tokens":48,"output_tokens_details":{"reasoning_tokens":16},"total_tokens":171}}}`)
	})
	t.Run("nothing reported, the prompt's size known", func(t *testing.T) {
		o := options()
		o.EstimatedInput = 100
		out := stream(t, o, start(), open(0, codec.ItemText), say(codec.EventText, 0, "12345678"), ended(codec.EndTerminal))
		mustContain(t, out, `"input_tokens":100`, `"output_tokens":2`)
	})
	t.Run("nothing known", func(t *testing.T) {
		mustContain(t, stream(t, options(), start(), ended(codec.EndTerminal)), "response.completed", `"usage":null`)
	})
}

func TestCitations(t *testing.T) {
	note := func(origin codec.Format, raw string) codec.Event {
		return codec.Event{Kind: codec.EventAnnotation, Raw: []byte(raw), Origin: origin}
	}
	out := stream(t, options(), start(), open(0, codec.ItemText), say(codec.EventText, 0, `Gr\u00fc\ud83d\ude00\n`),
		note(codec.Messages, `{"type":"web_search_result_location","url":"https://a.example","title":"A","cited_text":"x"}`),
		note(codec.Chat, `{"type":"url_citation","url_citation":{"url":"https://b.example","title":"B","start_index":1,"end_index":2}}`),
		note(codec.Responses, "{\"type\":\"url_citation\",\n\"url\":\"https://c.example\"}"),
		note(codec.Messages, `{"type":"char_location","document_index":0}`),
		closed(0, codec.ItemText), ended(codec.EndTerminal))
	mustContain(t, out,
		`"annotation_index":0,"annotation":{"type":"url_citation","url":"https://a.example","title":"A","start_index":0,"end_index":5}`,
		`"annotation_index":1,"annotation":{"type":"url_citation","url":"https://b.example","title":"B","start_index":1,"end_index":2}`,
		`"annotation_index":2,"annotation":{"type":"url_citation", "url":"https://c.example"}`)
	mustNotContain(t, out, `"annotation_index":3`)
}

func TestAWebSearchOfAnthropicIsAWebSearchCall(t *testing.T) {
	out := stream(t, options(), start(),
		open(0, codec.ItemServerTool),
		codec.Event{
			Kind: codec.EventItemClose, Type: codec.ItemServerTool, Origin: codec.Messages,
			Raw: []byte(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"netpoll"}}`),
		},
		open(1, codec.ItemServerTool),
		codec.Event{
			Kind: codec.EventItemClose, Item: 1, Type: codec.ItemServerTool, Origin: codec.Messages,
			Raw: []byte(`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`),
		},
		finished(codec.FinishEnd), ended(codec.EndTerminal))
	mustContain(t, out, `"output":[{"id":"ws_7k00","type":"web_search_call","status":"completed","action":{"type":"search","query":"netpoll"}}]`)
}

func TestCallsOfToolsWithAShapeOfTheirOwnComeInIt(t *testing.T) { // P85
	body := `{"model":"m","input":"x","tools":[{"type":"local_shell"},{"type":"shell"},{"type":"apply_patch"},` +
		`{"type":"tool_search","execution":"client","description":"Finds tools","parameters":{"type":"object"}}]}`
	var r codec.Request
	r.Reset()
	if err := responses.Client().DecodeRequest(&r, []byte(body)); err != nil {
		t.Fatal(err)
	}
	for i := range r.Tools { // what the crossing does with them
		r.Tools[i].Kind, r.Tools[i].Raw = codec.ToolFunction, nil
	}
	cases := []struct{ name, arguments, want string }{
		{"local_shell", `{\"command\":[\"ls\"]}`, `{"id":"lsh_7k00","type":"local_shell_call","action":{"type":"exec","command":["ls"],"env":{}},"status":"completed","call_id":"call_1"}`},
		{"shell", `{\"commands\":[\"ls\"]}`, `{"id":"sh_7k00","type":"shell_call","action":{"commands":["ls"]},"status":"completed","call_id":"call_1"}`},
		{"apply_patch", `{\"type\":\"delete_file\",\"path\":\"a\"}`, `{"id":"apc_7k00","type":"apply_patch_call","operation":{"type":"delete_file","path":"a"},"status":"completed","call_id":"call_1"}`},
		{"tool_search", `{\"query\":\"x\"}`, `{"id":"tsc_7k00","type":"tool_search_call","execution":"client","arguments":{"query":"x"},"status":"completed","call_id":"call_1"}`},
		{"shell", `{\"comm`, `{"id":"fc_7k00","type":"function_call","status":"completed","call_id":"call_1","name":"shell","arguments":"{\"comm"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.Request = &r
			out := stream(t, o, start(), openCall(0, "call_1", c.name), say(codec.EventArguments, 0, c.arguments),
				closed(0, codec.ItemToolCall), finished(codec.FinishToolCalls), ended(codec.EndTerminal))
			mustContain(t, out, `"output":[`+c.want+`]`)
		})
	}
}

func TestNamespacesComeBack(t *testing.T) {
	out := stream(t, options(), start(),
		codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemCustomCall, CallID: []byte("call_1"), Name: []byte("exec"), Namespace: []byte("functions")},
		say(codec.EventCustomInput, 0, `ls\n`), closed(0, codec.ItemCustomCall), ended(codec.EndTerminal))
	mustContain(t, out, `"call_id":"call_1","name":"exec","namespace":"functions","input":""`, "custom_tool_call_input.delta",
		`"custom_tool_call","status":"completed","call_id":"call_1","name":"exec","namespace":"functions","input":"ls\n"`)
}

// bodies are pieces of text as they can stand inside a string.
var bodies = []string{"a", `\n`, `\ud83d`, `\ude00`, "ü", `{\"a\":1}`, `{\"a`, `\"`, ""}

// anyEvent draws an event as a decoder could have made it, in no order at all.
func anyEvent(t *rapid.T) codec.Event {
	return codec.Event{
		Kind:      codec.EventKind(rapid.IntRange(1, int(codec.EventPing)).Draw(t, "kind")),
		Item:      int32(rapid.IntRange(-1, 4).Draw(t, "item")),
		Type:      codec.ItemType(rapid.IntRange(1, int(codec.ItemOpaque)).Draw(t, "type")),
		Sub:       int32(rapid.IntRange(0, 2).Draw(t, "sub")),
		Finish:    codec.FinishReason(rapid.IntRange(0, int(codec.FinishMalformedCall)).Draw(t, "finish")),
		Raw:       []byte(rapid.SampledFrom(bodies).Draw(t, "raw")),
		CallID:    []byte(rapid.SampledFrom([]string{"", "call_1", "call_2"}).Draw(t, "call")),
		Name:      []byte(rapid.SampledFrom([]string{"read", "shell"}).Draw(t, "name")),
		Whole:     rapid.Bool().Draw(t, "whole"),
		Namespace: nil,
	}
}

func TestAnyEventsMakeAWellFormedStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options()
		o.IncludeState = rapid.Bool().Draw(t, "state")
		o.ShowReasoning = rapid.Bool().Draw(t, "show")
		enc := responses.Client().NewEncoder(o)
		var out []byte
		next := int32(0)
		for _, ev := range rapid.SliceOfN(rapid.Custom(anyEvent), 0, 40).Draw(t, "events") {
			switch ev.Kind {
			case codec.EventItemOpen:
				ev.Item = next
				next++
			case codec.EventAnnotation:
				ev.Raw, ev.Origin = []byte(`{"type":"url_citation","url":"https://x.example"}`), codec.Chat+codec.Format(ev.Sub)
			case codec.EventItemClose:
				ev.Raw, ev.Origin = []byte(`{"type":"web_search_call","status":"completed","action":{}}`), codec.Responses
			}
			out = enc.Append(out, &ev)
		}
		last := codec.Event{Kind: codec.EventEnd, End: codec.End(rapid.IntRange(1, 4).Draw(t, "end"))}
		out = enc.Append(out, &last)
		if err := grammar.Responses(out); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
