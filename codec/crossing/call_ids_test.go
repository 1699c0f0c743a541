package crossing_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// heard streams frames of a provider to the client of a request.
func heard(t *testing.T, surface codec.Format, model, body string, frames ...string) string {
	t.Helper()
	x, _, err := prepare(surface, model, `{"model":"`+model+`","stream":true,`+body+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	stream := x.Stream()
	var out []byte
	for _, frame := range frames {
		out, _ = stream.Frame(out, &sse.Frame{Data: []byte(frame)})
	}
	out, _ = stream.End(out, codec.EndEOF, nil)
	return string(out)
}

// chatFrames is a stream of a chat host with these deltas.
func chatFrames(finish string, deltas ...string) []string {
	frames := []string{`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`}
	for _, delta := range deltas {
		frames = append(frames, `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":`+delta+`,"finish_reason":null}]}`)
	}
	return append(frames, `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"`+finish+`"}]}`, `[DONE]`)
}

// callDelta is the delta of a chat stream that has a whole call of f.
func callDelta(index int, id, arguments string) string {
	return fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":"f","arguments":%q}}]}`, index, id, arguments)
}

// askForCalls is a request with the tool f, by surface, with HISTORY in place of what follows the question.
var askForCalls = map[codec.Format]string{
	codec.Chat:      `"messages":[{"role":"user","content":"a"}HISTORY],` + chatTool,
	codec.Responses: `"input":[{"role":"user","content":"a"}HISTORY],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`,
	codec.Messages:  `"max_tokens":9,"messages":[{"role":"user","content":"a"}HISTORY],` + messagesTool,
}

// history is a turn with calls of f, and its results in the order of results.
func history(surface codec.Format, calls, results []string) string {
	var before, after []string
	for _, id := range calls {
		switch surface {
		case codec.Chat:
			before = append(before, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"{\"path\":\"%s\"}"}}`, id, id))
		case codec.Responses:
			before = append(before, fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"f","arguments":"{\"path\":\"%s\"}"}`, id, id))
		default:
			before = append(before, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"f","input":{"path":%q}}`, id, id))
		}
	}
	for _, id := range results {
		switch surface {
		case codec.Chat:
			after = append(after, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":"content of %s"}`, id, id))
		case codec.Responses:
			after = append(after, fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":"content of %s"}`, id, id))
		default:
			after = append(after, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"content of %s"}`, id, id))
		}
	}
	turn, answers := strings.Join(before, ","), strings.Join(after, ",")
	switch surface {
	case codec.Chat:
		return `,{"role":"assistant","content":null,"tool_calls":[` + turn + `]},` + answers
	case codec.Responses:
		return `,` + turn + `,` + answers
	}
	return `,{"role":"assistant","content":[` + turn + `]},{"role":"user","content":[` + answers + `]}`
}

// The ids of calls in what a client or a provider reads, in their order.
var callIDMembers = map[codec.Format]*regexp.Regexp{
	codec.Chat:      regexp.MustCompile(`"id":"([^"]+)","type":"function"`),
	codec.Responses: regexp.MustCompile(`"type":"response.output_item.added"[^\n]*"call_id":"([^"]+)"|^\{.*?"call_id":"([^"]+)".*"call_id":"([^"]+)"`),
	codec.Messages:  regexp.MustCompile(`"type":"tool_use","id":"([^"]+)"`),
}

func callIDsIn(surface codec.Format, text string) (ids []string) {
	for _, match := range callIDMembers[surface].FindAllStringSubmatch(text, -1) {
		for _, id := range match[1:] {
			if id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// parallel is an answer to each format's client with two calls of one id, streamed and whole.
var parallel = map[codec.Format]struct {
	model, whole string
	frames       []string
}{
	codec.Messages:  {own, chatAnswer(sameCalls, "tool_calls"), chatFrames("tool_calls", callDelta(0, "same", `{"path":"a"}`), callDelta(1, "same", `{"path":"b"}`))},
	codec.Responses: {own, chatAnswer(sameCalls, "tool_calls"), chatFrames("tool_calls", callDelta(0, "same", `{"path":"a"}`), callDelta(1, "same", `{"path":"b"}`))},
	codec.Chat: {gpt, responsesAnswer(sameItems), []string{
		`{"type":"response.created","response":{"id":"r","model":"m"}}`,
		`{"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[` + sameItems + `]}}`,
	}},
}

const (
	sameCalls = `{"role":"assistant","content":null,"tool_calls":[{"id":"same","type":"function","function":{"name":"f","arguments":"{\"path\":\"a\"}"}},{"id":"same","type":"function","function":{"name":"f","arguments":"{\"path\":\"b\"}"}}]}`
	sameItems = `{"type":"function_call","id":"fc_1","call_id":"same","name":"f","arguments":"{\"path\":\"a\"}","status":"completed"},{"type":"function_call","id":"fc_2","call_id":"same","name":"f","arguments":"{\"path\":\"b\"}","status":"completed"}`
)

// A client pairs results with calls by their ids, and sends the quicker result first.
func TestParallelCallsOfOneIDReachTheClientUnderTwo(t *testing.T) {
	for surface, answer := range parallel {
		t.Run(surface.String(), func(t *testing.T) {
			body := strings.Replace(askForCalls[surface], "HISTORY", "", 1)
			x, _, err := prepare(surface, answer.model, `{"model":"`+answer.model+`",`+body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			whole, _, err := x.Answer(nil, []byte(answer.whole))
			x.Release()
			if err != nil {
				t.Fatal(err)
			}
			ids := callIDsIn(surface, string(whole))
			if len(ids) != 2 || ids[0] == ids[1] {
				t.Fatalf("the calls of the whole answer are %q\n%s", ids, whole)
			}
			streamed := heard(t, surface, answer.model, body, answer.frames...)
			if again := callIDsIn(surface, streamed); len(again) != 2 || again[0] != ids[0] || again[1] != ids[1] {
				t.Errorf("streamed, the calls are %q instead of %q\n%s", again, ids, streamed)
			}
			_, sent, err := prepare(surface, own, `{"model":"own-model",`+strings.Replace(askForCalls[surface], "HISTORY", history(surface, ids, []string{ids[1], ids[0]}), 1)+`}`, nil)
			if surface == codec.Chat {
				_, sent, err = prepare(surface, claude, `{"model":"claude-opus-4-8",`+strings.Replace(askForCalls[surface], "HISTORY", history(surface, ids, []string{ids[1], ids[0]}), 1)+`}`, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				paired := regexp.MustCompile(`"(?:tool_call_id|tool_use_id)":"` + id + `"[^}]*"content of ` + id + `"`)
				if !paired.MatchString(sent) {
					t.Errorf("the result of %s does not reach its call:\n%s", id, sent)
				}
			}
		})
	}
}

// Some hosts number the calls of every turn from 0 (docs/wire/translation.md#4.2).
func TestCallsThatAreNumberedPerTurnHaveOneIDEachInTheConversation(t *testing.T) {
	for surface, model := range map[codec.Format]string{codec.Messages: own, codec.Responses: own, codec.Chat: gpt} {
		t.Run(surface.String(), func(t *testing.T) {
			seen, past := map[string]bool{}, ""
			for turn := range 3 {
				body := strings.Replace(askForCalls[surface], "HISTORY", past, 1)
				frames := chatFrames("tool_calls", callDelta(0, "call_0", `{}`))
				if surface == codec.Chat {
					frames = []string{`{"type":"response.completed","response":{"id":"r","model":"m","status":"completed","output":[{"type":"function_call","id":"fc_1","call_id":"call_0","name":"f","arguments":"{}","status":"completed"}]}}`}
				}
				ids := callIDsIn(surface, heard(t, surface, model, body, frames...))
				if len(ids) != 1 || seen[ids[0]] {
					t.Fatalf("turn %d has the calls %q beside %v", turn, ids, seen)
				}
				seen[ids[0]] = true
				past += history(surface, ids, ids)
			}
			if surface == codec.Messages {
				return // passes to Claude as it is
			}
			_, sent, err := prepare(surface, claude, `{"model":"claude-opus-4-8",`+strings.Replace(askForCalls[surface], "HISTORY", past, 1)+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			used := map[string]bool{}
			for _, id := range callIDsIn(codec.Messages, sent) {
				if used[id] {
					t.Errorf("Claude gets two calls %s: %s", id, sent)
				}
				used[id] = true
			}
			if len(used) != 3 {
				t.Errorf("Claude gets %d calls: %s", len(used), sent)
			}
		})
	}
}

// A history may have repeated ids all the same. A result belongs to the nearest call before it.
func TestAResultBelongsToTheNearestCallOfItsID(t *testing.T) {
	use := func(path string) string {
		return `{"role":"assistant","content":[{"type":"tool_use","id":"call_0","name":"f","input":{"path":"` + path + `"}}]}`
	}
	result := func(text string) string {
		return `{"type":"tool_result","tool_use_id":"call_0","content":"` + text + `"}`
	}
	for name, c := range map[string]struct {
		messages string
		has      []string
		lacks    []string
	}{
		"the first call was not answered": {
			use("a") + `,{"role":"user","content":"never mind, read b"},` + use("b") + `,{"role":"user","content":[` + result("content of b") + `]}`,
			[]string{`"id":"call_0"`, `{\"path\":\"a\"}`, `"tool_call_id":"call_0","content":"(no result recorded)"`, `never mind`, `"id":"call_0_2"`, `{\"path\":\"b\"}`, `"tool_call_id":"call_0_2","content":"content of b"`},
			[]string{"Result of an earlier"},
		},
		"nor was the second of three": {
			use("a") + `,{"role":"user","content":[` + result("content of a") + `]},` + use("b") + `,{"role":"user","content":"go on"},` + use("c") + `,{"role":"user","content":[` + result("content of c") + `]}`,
			[]string{`"tool_call_id":"call_0","content":"content of a"`, `"tool_call_id":"call_0_2","content":"(no result recorded)"`, `"tool_call_id":"call_0_3","content":"content of c"`},
			[]string{"Result of an earlier"},
		},
		"a second result of one call is left out": {
			use("a") + `,{"role":"user","content":[` + result("content of a") + `]},` + use("b") + `,{"role":"user","content":[` + result("content of b") + `,` + result("content of b again") + `]}`,
			[]string{`"tool_call_id":"call_0","content":"content of a"`, `"tool_call_id":"call_0_2","content":"content of b"`},
			[]string{"again"},
		},
		"calls of one turn are answered in their order": {
			`{"role":"assistant","content":[{"type":"tool_use","id":"call_0","name":"f","input":{"path":"a"}},{"type":"tool_use","id":"call_0","name":"f","input":{"path":"b"}}]},{"role":"user","content":[` + result("content of a") + `,` + result("content of b") + `]}`,
			[]string{`"tool_call_id":"call_0","content":"content of a"`, `"tool_call_id":"call_0_2","content":"content of b"`},
			nil,
		},
		"a number that is another call's own id is not taken": {
			use("a") + `,{"role":"user","content":[` + result("content of a") + `]},{"role":"assistant","content":[{"type":"tool_use","id":"call_0_2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_0_2","content":"content of x"}]},` + use("b") + `,{"role":"user","content":[` + result("content of b") + `]}`,
			[]string{`"tool_call_id":"call_0","content":"content of a"`, `"tool_call_id":"call_0_2","content":"content of x"`, `"tool_call_id":"call_0_2_","content":"content of b"`},
			nil,
		},
		"one turn may be several messages": {
			`{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"assistant","content":[{"type":"tool_use","id":"t2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"content of a"},{"type":"tool_result","tool_use_id":"t2","content":"content of b"}]}`,
			[]string{`"tool_call_id":"t1","content":"content of a"`, `"tool_call_id":"t2","content":"content of b"`},
			[]string{"no result recorded", "Result of an earlier"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test := requestTest{name: name, surface: codec.Messages, model: own, body: `"max_tokens":9,"messages":[{"role":"user","content":"read a"},` + c.messages + `],` + messagesTool, has: c.has, lacks: c.lacks}
			test.run(t)
		})
	}
}
