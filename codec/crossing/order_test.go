package crossing_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// A chat client puts all thinking of a turn before its text and its calls. Anthropic refuses a turn whose blocks have moved
// (docs/wire/translation.md#5.1, P72).
func TestThinkingGoesBackBeforeTheCallItLedTo(t *testing.T) {
	const (
		first  = `{"type":"thinking","thinking":"T1","signature":"c2lnbmF0dXJlLW9mLVQx"}`
		second = `{"type":"thinking","thinking":"T2","signature":"c2lnbmF0dXJlLW9mLVQy"}`
		third  = `{"type":"redacted_thinking","data":"cmVkYWN0ZWQ="}`
		call   = `{"type":"tool_use","id":"toolu_ID","name":"f","input":{"path":"ID"}}`
	)
	id := func(id string) string { return strings.ReplaceAll(call, "ID", id) }
	ledger := make(remembering)
	with := func(s *crossing.Settings) { s.Ledger = ledger }
	body := `{"model":"claude-opus-4-8","reasoning_effort":"high",` + strings.Replace(askForCalls[codec.Chat], "HISTORY", "", 1) + `}`
	x, _, err := prepare(codec.Chat, claude, body, with)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	answer, _, err := x.Answer(nil, []byte(messagesAnswer(strings.Join([]string{first, `{"type":"text","text":"A"}`, id("a"), second, third, id("b"), id("c")}, ","), "tool_use")))
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Choices []struct{ Message json.RawMessage }
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		t.Fatal(err)
	}
	again := `,` + string(said.Choices[0].Message)
	for _, call := range []string{"toolu_c", "toolu_a", "toolu_b"} {
		again += `,{"role":"tool","tool_call_id":"` + call + `","content":"r"}`
	}
	body = `{"model":"claude-opus-4-8","reasoning_effort":"high",` + strings.Replace(askForCalls[codec.Chat], "HISTORY", again, 1) + `}`
	x, sent, err := prepare(codec.Chat, claude, body, with)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	mustHold(t, sent, []string{`"thinking":"T1"`, `"text":"A"`, `"id":"toolu_a"`, `"thinking":"T2"`, `"data":"cmVkYWN0ZWQ="`, `"id":"toolu_b"`, `"id":"toolu_c"`, `"tool_use_id":"toolu_a"`})
}
