package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// Chat clients drop the reasoning that they have no use for, and DeepSeek refuses a conversation with tools that lacks it.
func TestDeepSeekGetsTheReasoningBackThatAChatClientDrops(t *testing.T) {
	h := build(t)
	h.account("other")
	others := h.createKey("other", store.ScopeWrite)
	const script, thought = `reasoning "Look \"there\" first."; call lookup {"q":"x"}`, `Look "there" first.`
	deepseek := surface{name: "chat", path: chat.path, model: "deepseek-v4-pro", format: chat.format}
	for _, stream := range []bool{false, true} {
		first := deepseek.body(script, stream)
		a := h.post(deepseek.path, first)
		_, id, called := strings.Cut(a.body, `"id":"call_`)
		id, _, _ = strings.Cut("call_"+id, `"`)
		if a.status != 200 || !called || !strings.Contains(a.body, `"reasoning_content":"Look`) {
			t.Fatalf("stream=%t: %d %s", stream, a.status, a.body)
		}
		second := func(member string) string {
			return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Hello."},`+
				`{"role":"assistant","content":null,%s"tool_calls":[{"id":%q,"type":"function","function":{"name":"lookup","arguments":"{\"q\":\"x\"}"}}]},`+
				`{"role":"tool","tool_call_id":%q,"content":"found"}]}`, deepseek.model, member, id, id)
		}
		for _, test := range []struct{ who, key, member, want string }{
			{"the account", h.key, ``, quoted(thought)},
			{"the account, with a text of its own", h.key, `"reasoning_content":"mine",`, `"mine"`},
			{"another account", others, ``, `""`},
		} {
			a := h.post(deepseek.path, second(test.member), "Authorization", "Bearer "+test.key)
			if up := string(h.upstream().Body); a.status != 200 || strings.Count(up, `"reasoning_content":`) != 1 || !strings.Contains(up, `"reasoning_content":`+test.want) {
				t.Errorf("stream=%t, %s: %d, DeepSeek gets %s", stream, test.who, a.status, up)
			}
		}
	}
}
