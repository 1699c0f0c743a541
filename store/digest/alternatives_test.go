package digest_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/digest"
)

// Of several answers to one request all are on record, whole and streamed, in whatever order the pieces come.
func TestEachOfSeveralAnswersIsRead(t *testing.T) {
	const (
		request = `{"model":"m","n":3,"messages":[{"role":"user","content":"a"}]}`
		whole   = `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ALPHA1"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"BETA2"},"finish_reason":"stop"},{"index": 2,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"GAMMA3","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
		piece   = `data: {"choices":[{"index":INDEX,"delta":{"content":"TEXT"}}]}` + "\n\n"
	)
	stream := func(pieces ...string) (s string) {
		for _, p := range pieces {
			index, text, _ := strings.Cut(p, " ")
			s += strings.NewReplacer("INDEX", index, "TEXT", text).Replace(piece)
		}
		return s + "data: [DONE]\n\n"
	}
	for name, c := range map[string]struct {
		answer, kind string
		want         []string
	}{
		"whole":                     {whole, "application/json", []string{"ALPHA1", "BETA2", "GAMMA3"}},
		"streamed":                  {stream("0 AL", "1 BE", "0 PHA1", "1 TA2"), "text/event-stream", []string{"ALPHA1", "BETA2"}},
		"a filtered one first":      {strings.Replace(whole, `"content":"ALPHA1"`, `"content":null`, 1), "application/json", []string{"BETA2", "GAMMA3"}},
		"a filtered one in between": {strings.Replace(whole, `"content":"BETA2"`, `"content":null`, 1), "application/json", []string{"ALPHA1", "GAMMA3"}},
		"the other first":           {stream("1 BE", "0 ALPHA1", "1 TA2"), "text/event-stream", []string{"BETA2", "ALPHA1"}},
		"one of two calls": {
			`{"choices":[{"index":0,"message":{"role":"assistant","content":"ALPHA1","tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
			"application/json",
			[]string{"ALPHA1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := digest.Exchange(captured("chat", c.kind, request, c.answer))
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Answer) != len(c.want) {
				t.Fatalf("%d answers: %+v", len(d.Answer), d.Answer)
			}
			for i, want := range c.want {
				if p := d.Answer[i].Parts; len(p) == 0 || p[0].Text != want && p[0].Name != want {
					t.Errorf("answer %d is %+v, want %s", i, p, want)
				}
			}
		})
	}
}
