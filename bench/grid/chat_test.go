package grid

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func (c *client) openAI() openai.Client {
	return openai.NewClient(option.WithBaseURL(c.harness.url+"/v1"), option.WithAPIKey(c.harness.key), option.WithMaxRetries(0),
		option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) { return c.tee(next(r)) }))
}

func (c *client) askChat(ctx context.Context) said {
	api := c.openAI()
	body := option.WithRequestBody("application/json", c.body())
	if !c.stream {
		answer, err := api.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{}, body)
		if err != nil {
			return failure(err, false)
		}
		return c.hearChat(answer, answer.Choices[0].Message.RawJSON())
	}
	chunks := api.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{}, body)
	defer func() { _ = chunks.Close() }()
	var whole openai.ChatCompletionAccumulator
	var message chatMessage
	for chunks.Next() {
		chunk := chunks.Current()
		if !whole.AddChunk(chunk) {
			return said{Error: "the SDK refuses " + chunk.RawJSON()}
		}
		for _, choice := range chunk.Choices {
			message.add([]byte(choice.Delta.RawJSON()))
		}
	}
	if err := chunks.Err(); err != nil {
		return failure(err, c.wire.Len() > 0)
	}
	if !strings.HasSuffix(c.wire.String(), "data: [DONE]\n\n") {
		return said{Error: "the stream ends without [DONE]"}
	}
	return c.hearChat(&whole.ChatCompletion, mustJSON(message))
}

// chatMessage is an answer assembled from its deltas, with members that compatible hosts have added to the format and
// for which the SDK has no types.
type chatMessage struct {
	Role       string            `json:"role"`
	Content    string            `json:"content"`
	Reasoning  string            `json:"reasoning_content,omitempty"`
	Refusal    string            `json:"refusal,omitempty"`
	Thinking   []json.RawMessage `json:"thinking_blocks,omitempty"`
	Calls      []chatCall        `json:"tool_calls,omitempty"`
	References []json.RawMessage `json:"annotations,omitempty"`
}

type chatCall struct {
	Index    *int             `json:"index,omitempty"`
	ID       string           `json:"id,omitempty"`
	Type     string           `json:"type,omitempty"`
	Function *chatFunction    `json:"function,omitempty"`
	Custom   *chatCustom      `json:"custom,omitempty"`
	Extra    *json.RawMessage `json:"extra_content,omitempty"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type chatCustom struct {
	Name  string `json:"name"`
	Input string `json:"input"`
}

func (m *chatMessage) add(raw []byte) {
	var delta chatMessage
	_ = json.Unmarshal(raw, &delta)
	m.Role = "assistant"
	m.Content += delta.Content
	m.Reasoning += delta.Reasoning
	m.Refusal += delta.Refusal
	m.Thinking = append(m.Thinking, delta.Thinking...)
	m.References = append(m.References, delta.References...)
	for _, d := range delta.Calls {
		at := 0
		if d.Index != nil {
			at = *d.Index
		}
		for at >= len(m.Calls) {
			m.Calls = append(m.Calls, chatCall{})
		}
		m.Calls[at].add(d)
	}
}

func (c *chatCall) add(d chatCall) {
	if d.ID != "" {
		c.ID, c.Type = d.ID, d.Type
	}
	if d.Extra != nil {
		c.Extra = d.Extra
	}
	if d.Function != nil {
		if c.Function == nil {
			c.Function = new(chatFunction)
		}
		c.Function.Name += d.Function.Name
		c.Function.Arguments += d.Function.Arguments
	}
	if d.Custom != nil {
		if c.Custom == nil {
			c.Custom = new(chatCustom)
		}
		c.Custom.Name += d.Custom.Name
		c.Custom.Input += d.Custom.Input
	}
}

// hearChat adds an answer to the conversation. raw is its message with all members.
func (c *client) hearChat(answer *openai.ChatCompletion, raw string) said {
	choice := answer.Choices[0]
	var message chatMessage
	_ = json.Unmarshal([]byte(raw), &message)
	s := said{Text: choice.Message.Content, Refusal: choice.Message.Refusal, Reasoning: message.Reasoning}
	for _, call := range message.Calls {
		if call.Custom != nil {
			s.Calls = append(s.Calls, call.Custom.Name+"="+call.Custom.Input)
			c.open = append(c.open, openCall{id: call.ID, name: call.Custom.Name, custom: true})
		} else {
			s.Calls = append(s.Calls, call.Function.Name+" "+call.Function.Arguments)
			c.open = append(c.open, openCall{id: call.ID, name: call.Function.Name})
		}
	}
	for _, reference := range message.References {
		s.Cited = append(s.Cited, text(members(string(members(string(reference))["url_citation"])), "url"))
	}
	s.Stop = map[string]string{"stop": "end", "tool_calls": "calls", "length": "length", "content_filter": "filter"}[choice.FinishReason]
	u := answer.Usage
	s.Usage = counts{u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.PromptTokensDetails.CacheWriteTokens, u.CompletionTokens, u.CompletionTokensDetails.ReasoningTokens}
	if c.forgets {
		raw = mustJSON(choice.Message.ToParam())
	}
	c.items = append(c.items, raw)
	return s
}
