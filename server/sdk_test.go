package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	openairesponses "github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/mnemeproxy/mneme/store/record"
)

// The official SDKs are configured as their users do it: a base URL and a key.

func (h *harness) openai() openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(h.url+"/v1"), openaioption.WithAPIKey(h.key), openaioption.WithHTTPClient(h.client))
}

func (h *harness) anthropic() anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL(h.url), anthropicoption.WithAuthToken(h.key), anthropicoption.WithHTTPClient(h.client))
}

// heard is what an SDK made of an answer.
type heard struct {
	text   string
	calls  []string // "name arguments"
	output int64    // tokens
}

func (a heard) String() string { return fmt.Sprintf("%q %q, %d tokens", a.text, a.calls, a.output) }

// sdks ask one question through each surface's SDK.
var sdks = map[string]func(ctx context.Context, h *harness, prompt string, stream bool) (heard, error){
	"chat":      askChat,
	"responses": askResponses,
	"messages":  askMessages,
	"gemini":    askGemini,
}

func askChat(ctx context.Context, h *harness, prompt string, stream bool) (heard, error) {
	client := h.openai()
	params := openai.ChatCompletionNewParams{
		Model:    chat.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
			Name: "lookup", Parameters: openai.FunctionParameters{"type": "object"},
		})},
	}
	var whole *openai.ChatCompletion
	if stream {
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		events := client.Chat.Completions.NewStreaming(ctx, params)
		defer func() { _ = events.Close() }()
		var accumulator openai.ChatCompletionAccumulator
		for events.Next() {
			if !accumulator.AddChunk(events.Current()) {
				return heard{}, fmt.Errorf("the accumulator refuses %s", events.Current().RawJSON())
			}
		}
		if err := events.Err(); err != nil {
			return heard{}, err
		}
		whole = &accumulator.ChatCompletion
	} else {
		var err error
		if whole, err = client.Chat.Completions.New(ctx, params); err != nil {
			return heard{}, err
		}
	}
	if len(whole.Choices) != 1 {
		return heard{}, fmt.Errorf("%d choices", len(whole.Choices))
	}
	a := heard{text: whole.Choices[0].Message.Content, output: whole.Usage.CompletionTokens}
	for _, call := range whole.Choices[0].Message.ToolCalls {
		a.calls = append(a.calls, call.Function.Name+" "+call.Function.Arguments)
	}
	return a, nil
}

func askResponses(ctx context.Context, h *harness, prompt string, stream bool) (heard, error) {
	client := h.openai()
	params := openairesponses.ResponseNewParams{
		Model: responses.model,
		Input: openairesponses.ResponseNewParamsInputUnion{OfString: openai.String(prompt)},
		Tools: []openairesponses.ToolUnionParam{openairesponses.ToolParamOfFunction("lookup", map[string]any{"type": "object"}, false)},
	}
	var whole *openairesponses.Response
	if stream {
		events := client.Responses.NewStreaming(ctx, params)
		defer func() { _ = events.Close() }()
		for events.Next() {
			if event := events.Current(); event.Type == "response.completed" {
				whole = &event.Response
			}
		}
		if err := events.Err(); err != nil {
			return heard{}, err
		}
		if whole == nil {
			return heard{}, errors.New("no response.completed came")
		}
	} else {
		var err error
		if whole, err = client.Responses.New(ctx, params); err != nil {
			return heard{}, err
		}
	}
	a := heard{text: whole.OutputText(), output: whole.Usage.OutputTokens}
	for _, item := range whole.Output {
		if item.Type == "function_call" {
			a.calls = append(a.calls, item.Name+" "+item.AsFunctionCall().Arguments)
		}
	}
	return a, nil
}

func askMessages(ctx context.Context, h *harness, prompt string, stream bool) (heard, error) {
	client := h.anthropic()
	params := anthropic.MessageNewParams{
		Model: messages.model, MaxTokens: 1000,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))},
		Tools:    []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "lookup"}}},
	}
	whole := new(anthropic.Message)
	if stream {
		events := client.Messages.NewStreaming(ctx, params)
		defer func() { _ = events.Close() }()
		for events.Next() {
			if err := whole.Accumulate(events.Current()); err != nil {
				return heard{}, err
			}
		}
		if err := events.Err(); err != nil {
			return heard{}, err
		}
	} else {
		var err error
		if whole, err = client.Messages.New(ctx, params); err != nil {
			return heard{}, err
		}
	}
	a := heard{output: whole.Usage.OutputTokens}
	for _, block := range whole.Content {
		switch block.Type {
		case "text":
			a.text += block.Text
		case "tool_use":
			input, err := json.Marshal(block.Input)
			if err != nil {
				return heard{}, err
			}
			a.calls = append(a.calls, block.Name+" "+string(input))
		}
	}
	return a, nil
}

func askGemini(ctx context.Context, h *harness, prompt string, stream bool) (heard, error) {
	return askGoogles(ctx, h, gemini.model, prompt, stream)
}

// wholeAnswers maps scripts of the simulated provider to what its clients hear.
var wholeAnswers = map[string]heard{
	`text "Hello, wörld"; usage output=7`:                          {text: "Hello, wörld", output: 7},
	`call lookup {"q":"a"}; usage output=8`:                        {calls: []string{`lookup {"q":"a"}`}, output: 8},
	`call lookup {"q":1}; call lookup {"q":2}; usage output=9`:     {calls: []string{`lookup {"q":1}`, `lookup {"q":2}`}, output: 9},
	`text "one "; unknown; ping every=1; crlf; usage output=10`:    {text: "one ", output: 10},
	`text "one"; call lookup {"q":1}; interleave; usage output=11`: {text: "one", calls: []string{`lookup {"q":1}`}, output: 11},
}

func TestTheOfficialSDKsUnderstandEveryAnswer(t *testing.T) {
	h := build(t)
	for _, s := range generating {
		for script, want := range wholeAnswers {
			for _, stream := range []bool{false, true} {
				got, err := sdks[s.name](context.Background(), h, "[[sim: "+script+"]]", stream)
				if err != nil || got.String() != want.String() {
					t.Errorf("%s stream=%t %s: %v, %v; want %v", s.name, stream, script, got, err, want)
				}
				if x := h.newest("acme"); x.Outcome != record.OutcomeComplete {
					t.Errorf("%s stream=%t %s: on record as %v", s.name, stream, script, x.Outcome)
				}
			}
		}
	}
	client := h.openai()
	vectors, err := client.Embeddings.New(context.Background(), openai.EmbeddingNewParams{
		Model: embeddings.model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) != 1536 {
		t.Errorf("embeddings: %v, %v", vectors, err)
	}
}

// raised is what an SDK's error says of an answer of the server; the status is 0 when it is none.
func raised(err error) (status int, message string) {
	var fromOpenAI *openai.Error
	var fromAnthropic *anthropic.Error
	fromGoogle := new(genai.APIError)
	switch {
	case errors.As(err, fromGoogle):
		return fromGoogle.Code, fromGoogle.Message
	case errors.As(err, &fromOpenAI):
		return fromOpenAI.StatusCode, fromOpenAI.Message
	case errors.As(err, &fromAnthropic):
		return fromAnthropic.StatusCode, errorMessage(fromAnthropic.RawJSON())
	}
	return 0, ""
}

func TestTheOfficialSDKsRaiseEveryError(t *testing.T) {
	h := build(t)
	for _, s := range generating {
		for _, stream := range []bool{false, true} {
			_, err := sdks[s.name](context.Background(), h, `[[sim: error 400 message="no such thing"]]`, stream)
			if status, message := raised(err); status != 400 || !strings.Contains(message, "no such thing") {
				t.Errorf("%s stream=%t: a refusal is raised as %v", s.name, stream, err)
			}
		}
		for _, script := range []string{`events 9; cut after=5 how=clean`, `events 9; cut after=5 how=mid`, `events 9; cut`, `events 9; error-inside overloaded after=5`} {
			if got, err := sdks[s.name](context.Background(), h, "[[sim: "+script+"]]", true); err == nil {
				t.Errorf("%s: %s is taken for the answer %v", s.name, script, got)
			}
		}
	}
}

// The SDKs try again by themselves, except Google's. Each try goes upstream once, and each is on record.
func TestRetriesOfTheSDKsAreNeitherMaskedNorMultiplied(t *testing.T) {
	for _, s := range []surface{chat, responses, messages} {
		t.Run(s.name, func(t *testing.T) {
			h := build(t)
			got, err := sdks[s.name](context.Background(), h, `[[sim: text "at last"; error 503 times=2; header Retry-After-Ms "1"]]`, true)
			if err != nil || got.text != "at last" {
				t.Errorf("%v, %v", got, err)
			}
			if up, kept := len(h.provider.Requests()), len(h.records("acme")); up != 3 || kept != 3 {
				t.Errorf("three tries: %d went upstream, %d are on record", up, kept)
			}
		})
	}
}
