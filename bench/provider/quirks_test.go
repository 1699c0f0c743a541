package provider_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
)

func TestQuirksOfCompatibleHosts(t *testing.T) {
	calls := ` ; call read {"path":"a.go"} ; call stat {}`
	tests := []struct {
		script string
		want   []string // pieces of the stream, in this order
		never  string
	}{
		{`quirk whole-calls` + calls, []string{`"index":0,"id":"call_`, `"name":"read","arguments":"{\"path\":\"a.go\"}"`, `"index":1,"id":`, `"finish_reason":"tool_calls"`}, `"function":{"arguments"`},
		{`quirk same-index` + calls, []string{`"index":0,"id":`, `"name":"read"`, `"index":0,"id":`, `"name":"stat"`}, `"index":1`},
		{`quirk repeated-names ; size 4` + calls, []string{`"name":"read","arguments":""`, `"name":"read","arguments":"{\"pa`, `"name":"read","arguments":"th\":`}, `"function":{"arguments"`},
		{`quirk late-names` + calls, []string{`"type":"function","function":{"arguments":""}`, `"function":{"name":"read","arguments":""}`}, ``},
		{`quirk finish-stop` + calls, []string{`"name":"stat"`, `"finish_reason":"stop"`}, `"tool_calls"}`},
		{`quirk finish-with-text ; size 3 ; text "abcdef"`, []string{`"content":"abc"`, `"content":"def"},"logprobs":null,"finish_reason":"stop"`}, ``},
		{`quirk usage-everywhere ; text "a"`, []string{`"usage":{`, `"usage":{`, `"usage":{`}, ``},
		{`quirk usage-with-finish ; text "a"`, []string{`"content":"a"`, `"finish_reason":"stop"}],"usage":{`, `[DONE]`}, `"choices":[],`},
		{`quirk empty-deltas ; text "a"`, []string{`"content":"a"`, `"content":""`, `"finish_reason":"stop"`}, ``},
		{`quirk reasoning-member ; reasoning "r" ; text "a"`, []string{`"reasoning":"r"`, `"content":"a"`}, `"reasoning_content":"r"`},
		{`quirk thinking-parts ; reasoning "r" ; text "a"`, []string{`"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]}]`, `"content":"a"`}, `reasoning_content`},
	}
	s := start(t, provider.Options{})
	for _, test := range tests {
		body := `{"model":"grok-4.7","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":` + quoted("[[sim: "+test.script+"]]") + `}]}`
		_, stream, err := send(t, s.URL()+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		var pattern []string
		for _, piece := range test.want {
			pattern = append(pattern, regexp.QuoteMeta(piece))
		}
		if !regexp.MustCompile(`(?s)`+strings.Join(pattern, `.*`)).MatchString(stream) || test.never != "" && strings.Contains(stream, test.never) {
			t.Errorf("%s gives\n%s\nwant %q, never %q", test.script, stream, test.want, test.never)
		}
	}
	_, stream, err := ask(t, s, endpoints[1], `quirk no-deltas ; text "whole"`, true)
	if err != nil || strings.Contains(stream, ".delta") || !strings.Contains(stream, `"type":"response.output_text.done"`) {
		t.Errorf("no-deltas: %v\n%s", err, stream)
	}
	_, answer, err := send(t, s.URL()+"/v1/chat/completions", `{"model":"mistral-medium","messages":[{"role":"user","content":`+quoted(`[[sim: quirk thinking-parts ; reasoning "r" ; text "a"]]`)+`}]}`)
	if err != nil || !strings.Contains(answer, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"r"}]},{"type":"text","text":"a"}]`) {
		t.Errorf("thinking-parts: %v\n%s", err, answer)
	}
}
