package crossing_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func TestForeignStateIsLeftOutOfBodiesThatPassThrough(t *testing.T) {
	cases := map[string]struct {
		format     codec.Format
		body, want string
	}{
		"nothing foreign": {
			codec.Messages,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"EqQB"}]}]}`, "",
		},
		"the words alone are not foreign": {
			codec.Messages,
			`{"messages":[{"role":"user","content":"what is sv1.x.abc?"}]}`, "",
		},
		"thinking in an older turn": {
			codec.Messages,
			`{"thinking":{"type":"adaptive"},"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"sv1.o.AA"} , {"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`,
			`{"thinking":{"type":"adaptive"},"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`,
		},
		"thinking in the middle and at the end": {
			codec.Messages,
			`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"","signature":"sv1.o.AA"},{"type":"redacted_thinking","data":"sv1.o.AA"}]},{"role":"user","content":"b"}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`,
		},
		"a running tool loop cannot think on": {
			codec.Messages,
			`{"model":"m","thinking":{"type":"adaptive"},"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"sv1.g.AA"},{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`,
			`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`,
		},
		"the same with thinking as the last member": {
			codec.Messages,
			`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"sv1.g.AA"},{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}], "thinking":{"type":"adaptive"} }`,
			`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}]}`,
		},
		"a tool result that quotes a carrier stays": {
			codec.Messages,
			`{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"sv1.x.AA"}]}]}`, "",
		},
		"reasoning items of Responses": {
			codec.Responses,
			`{"input":[{"type":"reasoning","summary":[],"encrypted_content":"sv1.a.AA"},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"},{"type":"reasoning","encrypted_content":"gAAAA"}]}`,
			`{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":"{}"},{"type":"reasoning","encrypted_content":"gAAAA"}]}`,
		},
		"P84 items and tools that nobody knows pass as they are": {
			codec.Responses,
			`{"input":[{"type":"newest_item","x":1.0},{"type":"reasoning","id":"rs_0123456789abcdef0123456789abcdef0123456789abcdef","summary":[]}],"tools":[{"type":"newest_tool"}]}`, "",
		},
		"thinking blocks of a chat client": {
			codec.Chat,
			`{"messages":[{"role":"assistant","content":"a","thinking_blocks":[{"type":"thinking","thinking":"p","signature":"sv1.a.AA"}]}]}`,
			`{"messages":[{"role":"assistant","content":"a"}]}`,
		},
		"a turn of nothing but thinking": {
			codec.Messages,
			`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":""}]},{"role":"user","content":"y"}]}`,
			`{"messages":[{"role":"user","content":"x"},{"role":"user","content":"y"}]}`,
		},
		"a search that another provider ran": {
			codec.Messages,
			`{"messages":[{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"encrypted_content":"sv1.x."}]},{"type":"text","text":"a","citations":[{"encrypted_index":"sv1.x."}]}]}]}`,
			`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"}]}]}`,
		},
		"reasoning items of ours without state": {
			codec.Responses,
			`{"input":[{"id":"rs_0123456789abcdefghjkmnpqrs00","type":"reasoning","summary":[]},{"role":"user","content":"x"}]}`,
			`{"input":[{"role":"user","content":"x"}]}`,
		},
		"members that OpenAI does not know": {
			codec.Chat,
			`{"messages":[{"role":"assistant","reasoning_content":"r","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}],"tool_calls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{}"},"extra_content":{"google":{"thought_signature":"Q2lF"}}}]}]}`,
			`{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}]}]}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want, changes := c.want, c.want != ""
			if !changes {
				want = c.body
			}
			family := codec.FamilyOpenAI
			if c.format == codec.Messages {
				family = codec.FamilyAnthropic
			}
			got, dropped := crossing.CleanHistory([]byte(c.body), c.format, &crossing.Settings{Target: codec.Target{Family: family}})
			if string(got) != want || (len(dropped) > 0) != changes {
				t.Errorf("dropped: %v\ngot  %s\nwant %s", dropped, got, want)
			}
			if !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
			body, pieces := longMessages(c.body)
			whole, _ := crossing.CleanHistory(body, c.format, &crossing.Settings{Target: codec.Target{Family: family}})
			for range 2 {
				got, _ := crossing.CleanHistory(body, c.format, &crossing.Settings{
					Target: codec.Target{Family: family}, Pieces: pieces, Prints: codec.Fingerprints(nil, "acme", body, pieces),
				})
				if !bytes.Equal(got, whole) {
					t.Errorf("told its pieces it gives\n%s\nand without\n%s", got, whole)
				}
			}
		})
	}
}

// DeepSeek wants the reasoning of every turn from the first with calls on. What a client has dropped is put back word for
// word, and never from the ledger of another account.
func TestAHostThatWantsItsReasoningBackGetsIt(t *testing.T) {
	memory := crossing.Memory{Ledger: make(remembering), Account: "acme", Family: codec.FamilyOther}
	memory.Ledger.Keep(crossing.LedgerKey{Account: "acme", Family: codec.FamilyOther, Kind: "reasoning", ID: "c1"}, []byte(`say \"so\"`))
	const call = `"tool_calls":[{"id":"c0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]`
	for name, c := range map[string]struct{ account, turn, want string }{
		"dropped":                      {"acme", call, call + `,"reasoning_content":"say \"so\""`},
		"null":                         {"acme", `"reasoning_content":null,` + call, call + `,"reasoning_content":"say \"so\""`},
		"emptied":                      {"acme", call + `,"reasoning_content":""`, call + `,"reasoning_content":"say \"so\""`},
		"the client's own":             {"acme", call + `,"reasoning_content":"mine"`, call + `,"reasoning_content":"mine"`},
		"under another name":           {"acme", `"reasoning":"mine",` + call, `"reasoning":"mine",` + call + `,"reasoning_content":"mine"`},
		"another account":              {"other", call, call + `,"reasoning_content":""`},
		"another account, and empty":   {"other", `"reasoning_content":"",` + call, `"reasoning_content":"",` + call},
		"a turn that called nothing":   {"acme", call + `,"reasoning_content":"a"},{"role":"assistant","content":"b"`, call + `,"reasoning_content":"a"},{"role":"assistant","content":"b","reasoning_content":""`},
		"a turn before any call":       {"acme", `"content":"a"},{"role":"assistant",` + call + `,"reasoning_content":"b"`, `"content":"a"},{"role":"assistant",` + call + `,"reasoning_content":"b"`},
		"a call that is not on record": {"acme", strings.ReplaceAll(call, "c1", "c2"), strings.ReplaceAll(call, "c1", "c2") + `,"reasoning_content":""`},
	} {
		settings := crossing.Settings{Ledger: memory.Ledger, Account: c.account}
		settings.Target.Family, settings.Target.Dialect.ReplayReasoning = memory.Family, true
		body := func(turn string) string { return `{"messages":[{"role":"assistant",` + turn + `}]}` }
		got, dropped := crossing.CleanHistory([]byte(body(c.turn)), codec.Chat, &settings)
		if string(got) != body(c.want) || dropped != nil {
			t.Errorf("%s: dropped %v\ngot  %s\nwant %s", name, dropped, got, body(c.want))
		}
	}
}

// longMessages makes the messages of a body so long that they have fingerprints, and says where they are.
func longMessages(body string) (long []byte, pieces []codec.Span) {
	long = []byte(strings.ReplaceAll(body, `"role":`, `"pad":"`+strings.Repeat("-", 200)+`","role":`))
	for m := scan.Object(long); m.NextName(); {
		if !m.Elements(func(start, end int) { pieces = append(pieces, codec.Span{Start: start, End: end}) }) {
			m.Skip()
		}
	}
	return long, pieces
}
