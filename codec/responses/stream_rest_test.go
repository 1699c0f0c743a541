package responses_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/responses"
)

// What the end of an item says otherwise than its deltas is not passed off as whole: the client already has the deltas
// (P22).
func TestAnItemWhoseEndContradictsItsDeltasIsAFailure(t *testing.T) {
	const (
		item = `{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":"`
		end  = `{"type":"response.completed","response":{"id":"resp_1","status":"completed","model":"m","output":[]}}`
	)
	call := []string{
		`{"type":"response.output_item.added","output_index":0,"item":` + item + `"}}`,
		`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"path\":\"/tmp"}`,
	}
	for name, c := range map[string]struct {
		frames []string
		fails  bool
	}{
		"a call":                       {append(call[:2:2], `{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":"{\"path\":\"/home\"}"}`), true},
		"a call, by the end of it":     {append(call[:2:2], `{"type":"response.output_item.done","output_index":0,"item":`+item+`{}"}}`), true},
		"a call, by its response":      {append(call[:2:2], `{"type":"response.completed","response":{"status":"completed","output":[`+item+`{}"}]}}`), true},
		"a call without a repetition":  {append(call[:2:2], `{"type":"response.output_item.done","output_index":0,"item":`+item+`"}}`), false},
		"arguments with other spaces":  {append(call[:2:2], `{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"\"}"}`, `{"type":"response.output_item.done","output_index":0,"item":`+item+`{ \"path\" : \"/tmp\" }"}}`), false},
		"a text":                       {[]string{`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"hel there"}`, `{"type":"response.output_text.done","item_id":"m","output_index":0,"content_index":0,"text":"hello there"}`}, true},
		"a text that is repeated less": {[]string{`{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"hello "}`, `{"type":"response.output_text.done","item_id":"m","output_index":0,"content_index":0,"text":"hello"}`}, false},
		"reasoning":                    {[]string{`{"type":"response.reasoning_summary_text.delta","item_id":"r","output_index":0,"summary_index":0,"delta":"a"}`, `{"type":"response.reasoning_summary_text.done","item_id":"r","output_index":0,"summary_index":0,"text":"bc"}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dec := responses.Provider().NewDecoder()
			var failed, complete bool
			for _, frame := range append(c.frames, end) {
				for _, ev := range codectest.Decode(dec, frame) {
					failed = failed || ev.Kind == codec.EventError
					complete = complete || ev.Kind == codec.EventEnd && ev.End == codec.EndTerminal
				}
			}
			if failed != c.fails || complete == c.fails {
				t.Errorf("failed %v, complete %v", failed, complete)
			}
		})
	}
}
