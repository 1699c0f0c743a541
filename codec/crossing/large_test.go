package crossing_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// Requests that hold very much of one kind cost as much as they are long: comparing all with all would take minutes for
// what one client can send at once.
func TestARequestMayHoldVeryMuchOfOneKind(t *testing.T) {
	const many = 10_000
	list := func(element func(i int) string) string {
		elements := make([]string, many)
		for i := range elements {
			elements[i] = element(i)
		}
		return strings.Join(elements, ",")
	}
	for _, c := range []struct {
		name    string
		surface codec.Format
		model   string
		body    string
		counted string // stands many times in what is sent
	}{
		{
			"messages of the user in a row", codec.Chat, claude,
			`"messages":[` + list(func(int) string { return `{"role":"user","content":"a"}` }) + `]`, `{"type":"text","text":"a"`,
		},
		{
			"calls in a turn", codec.Messages, gpt,
			`"max_tokens":9,"messages":[{"role":"user","content":"a"},` +
				`{"role":"assistant","content":[` + list(func(i int) string { return `{"type":"tool_use","id":"t` + strconv.Itoa(i) + `","name":"f","input":{}}` }) + `]},` +
				`{"role":"user","content":[` + list(func(i int) string {
				return `{"type":"tool_result","tool_use_id":"t` + strconv.Itoa(many-1-i) + `","content":"r"}`
			}) + `]}],` + messagesTool, `"output":"r"`,
		},
		{
			"freeform calls in a turn", codec.Chat, gpt,
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[` +
				list(func(i int) string {
					return `{"id":"t` + strconv.Itoa(i) + `","type":"custom","custom":{"name":"f","input":"x"}}`
				}) + `]},` +
				list(func(i int) string { return chatResult("t"+strconv.Itoa(i), "r") }) + `],"tools":[{"type":"custom","custom":{"name":"f"}}]`,
			`"custom_tool_call_output"`,
		},
		{
			"tools that a search has found", codec.Responses, claude,
			`"input":[{"role":"user","content":"a"},{"type":"tool_search_output","execution":"server","tools":[` +
				list(func(i int) string { return `{"type":"function","name":"f` + strconv.Itoa(i) + `"}` }) + `]}]`, `"input_schema"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, out, err := prepare(c.surface, c.model, `{"model":"`+c.model+`",`+c.body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Release()
			if n := strings.Count(out, c.counted); n != many {
				t.Errorf("%s stands there %d times, want %d", c.counted, n, many)
			}
		})
	}
}
