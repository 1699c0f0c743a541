package grid

import (
	"context"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
)

func (c *client) askMessages(ctx context.Context) said {
	api := anthropic.NewClient(option.WithBaseURL(c.harness.url), option.WithAPIKey(c.harness.key), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) { return c.tee(next(r)) }))
	body := option.WithRequestBody("application/json", c.body())
	if !c.stream {
		answer, err := api.Messages.New(ctx, anthropic.MessageNewParams{}, body)
		if err != nil {
			return failure(err, false)
		}
		return c.hearMessage(answer, string(members(answer.RawJSON())["content"]))
	}
	events := api.Messages.NewStreaming(ctx, anthropic.MessageNewParams{}, body)
	defer func() { _ = events.Close() }()
	var whole anthropic.Message
	stopped := false
	for events.Next() {
		event := events.Current()
		if err := whole.Accumulate(event); err != nil {
			return said{Error: "the SDK refuses " + event.RawJSON()}
		}
		stopped = event.Type == "message_stop"
	}
	if err := events.Err(); err != nil {
		return failure(err, c.wire.Len() > 0)
	}
	if !stopped {
		return said{Error: "the stream has no message_stop"}
	}
	return c.hearMessage(&whole, string(members(mustJSON(whole.ToParam()))["content"]))
}

// hearMessage adds an answer to the conversation. raw is the list of its blocks.
func (c *client) hearMessage(answer *anthropic.Message, raw string) said {
	var s said
	for _, block := range answer.Content {
		switch block.Type {
		case "text":
			s.Text += block.Text
			for _, citation := range block.Citations {
				s.Cited = append(s.Cited, citation.URL)
			}
		case "thinking":
			s.Reasoning += block.Thinking
		case "tool_use":
			input := string(block.Input)
			if strings.HasPrefix(input, `{"_raw":`) { // arguments that are not an object; the SDK turns them into {} in a stream
				input = "{}"
			}
			s.Calls = append(s.Calls, block.Name+" "+input)
			c.open = append(c.open, openCall{id: block.ID, name: block.Name})
		}
	}
	s.Stop = map[anthropic.StopReason]string{
		"end_turn": "end", "tool_use": "calls", "max_tokens": "length", "model_context_window_exceeded": "length",
		"refusal": "filter", "stop_sequence": "sequence", "pause_turn": "end",
	}[answer.StopReason]
	u := answer.Usage
	s.Usage = counts{
		u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, u.CacheReadInputTokens, u.CacheCreationInputTokens,
		u.OutputTokens, u.OutputTokensDetails.ThinkingTokens,
	}
	if len(answer.Content) > 0 && strings.TrimSpace(raw) != "[]" {
		c.items = append(c.items, `{"role":"assistant","content":`+raw+`}`)
	}
	return s
}
