package grid

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"
)

// Clients that replay only what their SDK has types for lose state that DeepSeek and Gemini require with the next
// request. The ledger restores it.
func TestTheLedgerRestoresStateThatClientsDrop(t *testing.T) {
	h := build(t)
	script := `[[sim: reasoning "Look well." ; call read {"path":"a.go"} ; then ; text "Found." ]]`
	for _, to := range []struct{ surface, upstream, want string }{
		{"chat", "gemini", `"thoughtSignature":"c2ltdWxhdGVk`},
		{"messages", "gemini", `"thoughtSignature":"c2ltdWxhdGVk`},
		{"responses", "gemini", `"thoughtSignature":"c2ltdWxhdGVk`},
		{"messages", "deepseek", `"reasoning_content":"Look well."`},
		{"responses", "deepseek", `"reasoning_content":"Look well."`},
		{"gemini", "deepseek", `"reasoning_content":"Look well."`},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(to.surface+"→"+to.upstream+"/"+form(stream), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				c := &client{harness: h, surface: to.surface, stream: stream, forgets: true, model: upstreamOf(to.upstream).model}
				c.say(script)
				if got := c.ask(ctx); got.Error != "" {
					t.Fatal(got.Error)
				}
				c.forgetReasoning()
				c.answerCalls("done", false)
				if got := c.ask(ctx); got.Text != "Found." {
					t.Fatalf("the second turn gives %+v\nsent: %s", got, h.upstreamBody())
				}
				if sent := h.upstreamBody(); !strings.Contains(sent, to.want) {
					t.Errorf("the provider did not get %s back:\n%s", to.want, sent)
				}
			})
		}
	}
}

// forgetReasoning removes reasoning and every unknown member from the history.
func (c *client) forgetReasoning() {
	kept := c.items[:0]
	for _, item := range c.items {
		if text(members(item), "type") == "reasoning" {
			continue
		}
		if c.surface == "messages" && text(members(item), "role") == "assistant" {
			var blocks, rest []json.RawMessage
			_ = json.Unmarshal(members(item)["content"], &blocks)
			for _, block := range blocks {
				if text(members(string(block)), "type") != "thinking" {
					rest = append(rest, block)
				}
			}
			item = `{"role":"assistant","content":` + mustJSON(rest) + `}`
		}
		if c.surface == "gemini" {
			var content genai.Content
			_ = json.Unmarshal([]byte(item), &content)
			content.Parts = slices.DeleteFunc(content.Parts, func(p *genai.Part) bool { return p.Thought })
			for _, part := range content.Parts {
				part.ThoughtSignature = nil
			}
			if item = mustJSON(content); len(content.Parts) == 0 {
				continue
			}
		}
		kept = append(kept, item)
	}
	c.items = kept
}
