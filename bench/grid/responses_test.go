package grid

import (
	"context"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func (c *client) askResponses(ctx context.Context) said {
	api := c.openAI()
	body := option.WithRequestBody("application/json", c.body())
	if !c.stream {
		answer, err := api.Responses.New(ctx, responses.ResponseNewParams{}, body)
		if err != nil {
			return failure(err, false)
		}
		return c.hearResponse(answer, answer.Output)
	}
	events := api.Responses.NewStreaming(ctx, responses.ResponseNewParams{}, body)
	defer func() { _ = events.Close() }()
	var (
		words, thoughts string
		done            []responses.ResponseOutputItemUnion // what Codex uses, in order of arrival
		final           *responses.Response
	)
	for next := int64(0); events.Next(); next++ {
		event := events.Current()
		if event.SequenceNumber != next {
			return said{Error: fmt.Sprintf("event %q has number %d, not %d", event.Type, event.SequenceNumber, next)}
		}
		switch event.Type {
		case "response.output_text.delta":
			words += event.Delta
		case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			thoughts += event.Delta
		case "response.output_item.done":
			if event.OutputIndex != int64(len(done)) {
				return said{Error: fmt.Sprintf("item %d is done after %d others", event.OutputIndex, len(done))}
			}
			if event.Item.CallID != "" && event.Item.Status == "incomplete" {
				return said{Error: "a call that was cut off is done, and Codex runs it"}
			}
			done = append(done, event.Item)
		case "response.completed", "response.incomplete", "response.failed":
			final = &event.Response
		}
	}
	if err := events.Err(); err != nil {
		return failure(err, c.wire.Len() > 0)
	}
	switch {
	case final == nil:
		return said{Error: "the stream has no terminal event"}
	case final.Status == "failed":
		return said{Error: "broken off"}
	}
	for i := len(done); i < len(final.Output) && final.Output[i].Status == "incomplete"; i++ { // it is in the terminal event alone
		done = append(done, final.Output[i])
	}
	s := c.hearResponse(final, done)
	paragraphs := strings.NewReplacer("\n\n", "") // the separator between two parts of a summary is not in a delta
	if s.Text != words || paragraphs.Replace(s.Reasoning) != paragraphs.Replace(thoughts) {
		s.Error = fmt.Sprintf("deltas %q, %q differ from the final response", words, thoughts)
	}
	if whole := (&client{surface: c.surface}).hearResponse(final, final.Output); mustJSON(whole.Calls) != mustJSON(s.Calls) || whole.Text != s.Text {
		s.Error = fmt.Sprintf("the items as they were done differ from the final response: %+v", whole)
	}
	return s
}

// hearResponse adds an answer with the given items to the conversation.
func (c *client) hearResponse(answer *responses.Response, items []responses.ResponseOutputItemUnion) said {
	if answer.Status == "failed" {
		return said{Error: fmt.Sprintf("failed %s", answer.Error.Code)}
	}
	s := said{Stop: "end"}
	for _, item := range items {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				s.Text += part.Text
				s.Refusal += part.Refusal
				for _, a := range part.Annotations {
					s.Cited = append(s.Cited, a.URL)
				}
			}
		case "reasoning":
			for _, summary := range item.Summary {
				s.Reasoning += summary.Text
			}
			for _, part := range item.Content {
				s.Reasoning += part.Text
			}
		case "function_call":
			name := item.Name
			if item.Namespace != "" {
				name = item.Namespace + "/" + name
			}
			s.Calls, s.Stop = append(s.Calls, name+" "+item.Arguments.OfString), "calls"
			c.open = append(c.open, openCall{id: item.CallID, name: item.Name})
		case "custom_tool_call":
			s.Calls, s.Stop = append(s.Calls, item.Name+"="+item.Input), "calls"
			c.open = append(c.open, openCall{id: item.CallID, name: item.Name, custom: true})
		}
		c.items = append(c.items, item.RawJSON())
	}
	switch answer.IncompleteDetails.Reason {
	case "max_output_tokens":
		s.Stop = "length"
	case "content_filter":
		s.Stop = "filter"
	}
	u := answer.Usage
	s.Usage = counts{u.InputTokens, u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens, u.OutputTokens, u.OutputTokensDetails.ReasoningTokens}
	return s
}
