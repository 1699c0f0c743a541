package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// sayAs makes the opening of a request in the chat key's session; each message is "role:text".
func sayAs(messages ...string) *Opening {
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
	return &Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: "k", Body: raw}
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

// Three edges serve turns of a conversation in which a system message comes and goes. They arrive in any order.
func TestLateTurnsWithOtherSystemMessagesShowEachMessageOnce(t *testing.T) {
	requests := [][]string{{"u:one", "s:environment"}, {"u:one", "s:environment", "a:0", "u:two"}, {"s:a", "s:b", "u:one", "a:0", "u:two", "a:1", "u:three"}}
	want := []string{"u:one", "u:two", "u:three"}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		centre := newConversation(t)
		var edges []*conversation
		for i, request := range requests {
			edge := newConversation(t)
			beginShipping(t, edge.s)
			edge.session(sayAs(request...), fmt.Sprint(i))
			edges = append(edges, edge)
		}
		for _, turn := range order {
			carry(t, edges[turn].s, centre.s)
			centre.settle()
		}
		page, err := centre.s.Archive().Sessions("acme", SessionQuery{})
		if err != nil || len(page.Data) != 1 {
			t.Fatalf("the sessions are %+v (%v)", page.Data, err)
		}
		lines := strings.Split(centre.timeline(page.Data[0].ID), "\n")
		for i, line := range lines {
			said := slices.DeleteFunc(strings.Fields(line), func(word string) bool { return !strings.HasPrefix(word, "u:") })
			if i >= len(want) || len(said) != 1 || said[0] != want[i] || strings.Contains(line, "branch") || i > 0 && !strings.Contains(line, fmt.Sprintf("after %d", i-1)) {
				t.Errorf("in the order %v the timeline is\n%s", order, strings.Join(lines, "\n"))
				break
			}
		}
		mustBeSound(t, centre.s)
	}
}
