package grid

import (
	"context"
	"testing"
	"time"
)

// functionsOnly are the tools that every provider accepts in its own format.
var functionsOnly = map[string]string{
	"chat":      `,"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"stat"}}]`,
	"responses": `,"tools":[{"type":"function","name":"read","parameters":null,"strict":false},{"type":"function","name":"stat","parameters":null,"strict":false}]`,
	"messages":  `,"tools":[{"name":"read","input_schema":{"type":"object"}},{"name":"stat","input_schema":{"type":"object"}}]`,
	"gemini":    `,"tools":[{"functionDeclarations":[{"name":"read"},{"name":"stat"}]}]`,
}

// A conversation that began with another provider's model continues with a model of the surface's own format, whose
// requests pass unchanged. What the first model left in the history must not reach the second.
func TestAConversationMovesToItsOwnFormat(t *testing.T) {
	h := build(t)
	for _, move := range []struct{ surface, model, budget string }{
		{surface: "chat", model: "gpt-4.1"},
		{surface: "chat", model: "deepseek-v4-pro"},
		{surface: "responses", model: "gpt-5.5"},
		{surface: "messages", model: "claude-opus-4-8"},
		{surface: "gemini", model: "gemini-3.8-flash"},
		{surface: "messages", model: "claude-opus-4-5", budget: `,"thinking":{"type":"enabled","budget_tokens":2000}`},
	} {
		for _, from := range upstreams {
			if move.budget != "" && (from.name == "chat" || from.name == "messages") {
				continue // gpt-4.1 leaves no mark that its calls are not Anthropic's own, and Opus 4.8 takes no budget
			}
			for _, stream := range []bool{false, true} {
				t.Run(move.surface+"/"+from.model+" to "+move.model+"/"+form(stream), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					c := &client{harness: h, surface: move.surface, stream: stream, extra: functionsOnly[move.surface] + move.budget}
					c.say(`[[sim: reasoning "Look." ; call read {} ; then ; reasoning "On." ; call stat {} ; then ; text "Found." ]]`)
					for turn, model := range []string{from.model, move.model, move.model} {
						c.model = model
						if got := c.ask(ctx); got.Error != "" {
							t.Fatalf("answer %d of %s: %s\nsent: %s", turn+1, model, got.Error, h.upstreamBody())
						}
						c.answerCalls("done", false)
					}
					c.say(`And then? [[sim: text "Nothing." ]]`)
					if got := c.ask(ctx); got.Text != "Nothing." {
						t.Errorf("the next question gets %+v\nsent: %s", got, h.upstreamBody())
					}
				})
			}
		}
	}
}
