package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

// sayAs makes the opening of a request in the chat key's session; each message is "role:text".
func sayAs(messages ...string) *record.Opening {
	roles := map[string]string{"u": "user", "a": "assistant", "s": "system"}
	var body struct{ Messages []testMessage }
	for _, m := range messages {
		role, text, _ := strings.Cut(m, ":")
		body.Messages = append(body.Messages, testMessage{roles[role], text})
	}
	raw, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return &record.Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: "k", Body: raw}
}

func TestSystemMessagesThatComeAndGoMakeNoBranch(t *testing.T) {
	for name, tt := range map[string]struct {
		requests [][]string // each is answered with its number
		want     []string
	}{
		"rewritten between turns": {
			[][]string{{"u:one", "s:environment"}, {"u:one", "s:another", "a:0", "u:two"}, {"u:one", "a:0", "u:two", "s:environment", "a:1", "u:three"}},
			[]string{"0 u:one s:environment a:0", "1 after 0 u:two a:1", "2 after 1 u:three a:2"},
		},
		"new before and behind a question": {
			[][]string{{"u:one"}, {"u:one", "a:0", "s:plan", "u:two", "s:note"}, {"u:one", "a:0", "u:two", "a:1", "u:three"}},
			[]string{"0 u:one a:0", "1 after 0 s:plan u:two s:note a:1", "2 after 1 u:three a:2"},
		},
		"alone behind an answer": {
			[][]string{{"u:one"}, {"u:one", "a:0", "s:in French"}},
			[]string{"0 u:one a:0", "1 after 0 s:in French a:1"},
		},
		"other ones in the same request again": {
			[][]string{{"u:one", "s:environment"}, {"u:one", "s:another"}},
			[]string{"0 u:one s:environment a:0", "1 after 0 branch s:another a:1"},
		},
		"a branch stays one": {
			[][]string{{"u:one"}, {"u:one", "a:0", "u:two"}, {"s:note", "u:one", "a:0", "u:else"}},
			[]string{"0 u:one a:0", "1 after 0 u:two a:1", "2 after 0 branch u:else a:2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConversation(t)
			session := ""
			for i, request := range tt.requests {
				session = c.session(sayAs(request...), fmt.Sprint(i))
			}
			if got, want := c.timeline(session), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("the timeline is\n%s\nnot\n%s", got, want)
			}
			mustBeSound(t, c.s)
		})
	}
}
