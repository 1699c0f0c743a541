package digest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// Items of requests, by surface: everything that decoders join with what stands beside it, and what has numbers.
var items = map[string][]string{
	"chat": {
		`{"role":"system","content":"You count."}`, `{"role":"developer","content":[{"type":"text","text":"be brief"}]}`,
		`{"role":"user","content":"how many?"}`, `{"role":"user","content":""}`, `{"role":"user","content":[]}`,
		`{"role":"assistant","content":"three"}`, `{"role":"assistant","content":null,"reasoning_content":"let me see"}`,
		`{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"count","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"count","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"c1","content":"3"}`, `{"role":"tool","tool_call_id":"c2","content":{"n":3}}`,
		`{"role":"assistant","content":null,"function_call":{"name":"count","arguments":"{}"}}`, `{"role":"function","name":"count","content":"4"}`,
	},
	"messages": {
		`{"role":"user","content":"how many?"}`, `{"role":"system","content":"You count."}`, `{"role":"user","content":[]}`,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"three"},{"type":"tool_use","id":"c1","name":"count","input":{"of":"é"}}]}`,
		`{"role":"user","content":[{"type":"text","text":"and?"},{"type":"tool_result","tool_use_id":"c1","content":"3"},{"type":"tool_result","tool_use_id":"c2","content":[{"type":"text","text":"4"}]}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"},{"type":"text","text":"<system-reminder>hurry</system-reminder>"}]}`,
		`{"role":"system","content":[],"output_config":{"effort":"low"}}`,
		`{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}]}`,
	},
	"responses": {
		`{"role":"user","content":"how many?"}`, `{"type":"message","role":"developer","content":[{"type":"input_text","text":"be brief"}]}`,
		`{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"e"}`,
		`{"type":"message","role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"let me see"}]}`,
		`{"type":"message","role":"assistant","phase":"final_answer","content":[{"type":"output_text","text":"three"}]}`,
		`{"type":"function_call","call_id":"c1","name":"count","arguments":"{}"}`, `{"type":"custom_tool_call","call_id":"c2","name":"run","input":"x"}`,
		`{"type":"function_call_output","call_id":"c1","output":"3"}`, `{"type":"custom_tool_call_output","call_id":"c2","output":"4"}`,
		`{"type":"additional_tools","tools":[{"type":"function","name":"more"}]}`, `{"type":"compaction","encrypted_content":"e"}`,
		`{"type":"web_search_call","id":"w","status":"completed","action":{}}`,
	},
}

// A request that is read from where one of its messages begins says what the whole one says from there on.
func TestWhatIsReadDoesNotDependOnWhatIsInFront(t *testing.T) {
	for surface, kinds := range items {
		t.Run(surface, func(t *testing.T) {
			list := "messages"
			if surface == "responses" {
				list = "input"
			}
			rapid.Check(t, func(t *rapid.T) {
				said := rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 10).Draw(t, "items")
				separator := rapid.SampledFrom([]string{",", ", ", ",\n  "}).Draw(t, "separator")
				x := captured(surface, "application/json",
					`{"model":"m","max_tokens":1,"`+list+`":[ `+strings.Join(said, separator)+` ],"tools":[{"type":"function","name":"f"}],"instructions":"i"}`, `{}`)
				whole, err := digest.Exchange(x)
				if err != nil {
					t.Skip(err)
				}
				var e codec.Envelope
				if err := e.Read(x.RawRequest); err != nil {
					t.Fatal(err)
				}
				for i, start := range whole.Starts {
					if i == 0 || whole.Starts[i-1] == start {
						continue
					}
					rest := *x
					rest.RawRequest = x.RawRequest[e.Items[start].Start:e.Items[len(e.Items)-1].End]
					rest.Items, rest.Derived = &record.RequestItems{From: start}, &chatkey.Keys{}
					got, err := digest.Exchange(&rest)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(whole.Messages[i:], got.Messages) + cmp.Diff(whole.Starts[i:], got.Starts); diff != "" {
						t.Errorf("read from item %d on:\n%s", start, diff)
					}
				}
			})
		})
	}
}

func TestCallsThatAreNumberedDependOnWhatIsInFront(t *testing.T) {
	d, err := digest.Exchange(captured("chat", "application/json",
		`{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"function_call":{"name":"count","arguments":"{}"}},{"role":"user","content":"b"}]}`, `{}`))
	if err != nil || len(d.Messages) != 3 || d.Starts != nil {
		t.Errorf("%d messages that begin with %v (%v)", len(d.Messages), d.Starts, err)
	}
}
