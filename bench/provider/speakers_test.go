package provider_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"google.golang.org/genai"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// said is an answer as a client understands it, in no particular format.
type said struct {
	Text      string
	Reasoning string
	Refusal   string
	Calls     []string // "name arguments", freeform calls as "name=input", namespaced ones as "namespace/name"
	Cited     []string // URLs
	State     int      // how many pieces of opaque reasoning state came along
	Stop      string
	Usage     counts
}

type counts struct{ Input, Cached, Output, Reasoning int64 }

// A speaker asks a question through an official SDK and folds the answer.
type speaker struct {
	name     string
	complete func(ctx context.Context, url, prompt string) (said, error)
	streamed func(ctx context.Context, url, prompt string) (said, error)
}

var speakers = []speaker{
	{"chat", askChat("gpt-5.5", false), askChat("gpt-5.5", true)},
	{"deepseek", askChat("deepseek-v4-pro", false), askChat("deepseek-v4-pro", true)},
	{"responses", askResponses(false), askResponses(true)},
	{"messages", askMessages(false), askMessages(true)},
	{"gemini", askGemini(false), askGemini(true)},
}

const tools = `read stat patch clock__sleep`

func start(t testing.TB, options provider.Options) *provider.Server {
	t.Helper()
	s, err := provider.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openaiClient(url string) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(url+"/v1"), openaioption.WithAPIKey("sk-test"), openaioption.WithMaxRetries(0))
}

func anthropicClient(url string) anthropic.Client {
	return anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("sk-test"), anthropicoption.WithMaxRetries(0))
}

func geminiClient(ctx context.Context, url string) (*genai.Client, error) {
	return genai.NewClient(ctx, &genai.ClientConfig{APIKey: "test", Backend: genai.BackendGeminiAPI, HTTPOptions: genai.HTTPOptions{BaseURL: url}})
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func askChat(model string, stream bool) func(context.Context, string, string) (said, error) {
	return func(ctx context.Context, url, prompt string) (said, error) {
		client := openaiClient(url)
		patch := `{"type":"custom","custom":{"name":"patch"}}`
		if strings.HasPrefix(model, "deepseek") {
			patch = `{"type":"function","function":{"name":"patch","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}}`
		}
		body := `{"model":"` + model + `","messages":[{"role":"user","content":` + quoted(prompt) + `}],"tools":[` + patch +
			`,{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"stat"}},{"type":"function","function":{"name":"clock__sleep"}}]`
		if !stream {
			answer, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{}, openaioption.WithRequestBody("application/json", []byte(body+"}")))
			if err != nil {
				return said{}, err
			}
			return foldChat(answer, extraText(answer.Choices[0].Message.RawJSON(), "reasoning_content")), nil
		}
		body += `,"stream":true,"stream_options":{"include_usage":true}}`
		events := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{}, openaioption.WithRequestBody("application/json", []byte(body)))
		defer func() { _ = events.Close() }()
		var whole openai.ChatCompletionAccumulator
		reasoning := ""
		var cited []string
		custom := map[int64]string{} // by index: the accumulator knows function calls only
		for events.Next() {
			chunk := events.Current()
			if !whole.AddChunk(chunk) {
				return said{}, fmt.Errorf("the accumulator refused %s", chunk.RawJSON())
			}
			if len(chunk.Choices) > 0 {
				reasoning += extraText(chunk.Choices[0].Delta.RawJSON(), "reasoning_content")
				cited = append(cited, extraURLs(chunk.Choices[0].Delta.RawJSON())...)
				for _, call := range chunk.Choices[0].Delta.ToolCalls {
					name, input := extraCustom(call.RawJSON())
					if name != "" {
						custom[call.Index] = name + "="
					}
					if _, known := custom[call.Index]; known {
						custom[call.Index] += input
					}
				}
			}
		}
		if events.Err() != nil {
			return said{}, events.Err()
		}
		folded := foldChat(&whole.ChatCompletion, reasoning)
		folded.Cited = cited
		for index, call := range custom {
			folded.Calls[index] = call
		}
		return folded, nil
	}
}

// extraText reads a member that the SDK has no field for.
func extraText(rawJSON, member string) string {
	var all map[string]json.RawMessage
	var text *string
	if json.Unmarshal([]byte(rawJSON), &all) != nil || all[member] == nil || json.Unmarshal(all[member], &text) != nil || text == nil {
		return ""
	}
	return *text
}

func extraCustom(rawJSON string) (name, input string) {
	var delta struct {
		Custom struct{ Name, Input string }
	}
	_ = json.Unmarshal([]byte(rawJSON), &delta)
	return delta.Custom.Name, delta.Custom.Input
}

func extraURLs(rawJSON string) []string {
	var delta struct {
		Annotations []struct {
			Citation struct{ URL string } `json:"url_citation"`
		}
	}
	if json.Unmarshal([]byte(rawJSON), &delta) != nil {
		return nil
	}
	var urls []string
	for _, a := range delta.Annotations {
		urls = append(urls, a.Citation.URL)
	}
	return urls
}

func foldChat(answer *openai.ChatCompletion, reasoning string) said {
	choice := answer.Choices[0]
	s := said{Text: choice.Message.Content, Refusal: choice.Message.Refusal, Reasoning: reasoning}
	for _, call := range choice.Message.ToolCalls {
		if call.Type == "custom" {
			s.Calls = append(s.Calls, call.Custom.Name+"="+call.Custom.Input)
		} else {
			s.Calls = append(s.Calls, call.Function.Name+" "+call.Function.Arguments)
		}
	}
	for _, a := range choice.Message.Annotations {
		s.Cited = append(s.Cited, a.URLCitation.URL)
	}
	s.Stop = map[string]string{"stop": "end", "tool_calls": "calls", "length": "length", "content_filter": "filter"}[choice.FinishReason]
	u := answer.Usage
	s.Usage = counts{u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokens, u.CompletionTokensDetails.ReasoningTokens}
	return s
}

func askResponses(stream bool) func(context.Context, string, string) (said, error) {
	return func(ctx context.Context, url, prompt string) (said, error) {
		client := openaiClient(url)
		body := `{"model":"gpt-5.5","include":["reasoning.encrypted_content"],"store":false,"input":[{"role":"user","content":[{"type":"input_text","text":` + quoted(prompt) + `}]}],
			"tools":[{"type":"function","name":"read","parameters":{"type":"object","properties":{}},"strict":false},{"type":"function","name":"stat","parameters":null,"strict":false},
			{"type":"custom","name":"patch"},{"type":"namespace","name":"clock","description":"time","tools":[{"type":"function","name":"sleep","parameters":null,"strict":false}]}]`
		if !stream {
			answer, err := client.Responses.New(ctx, responses.ResponseNewParams{}, openaioption.WithRequestBody("application/json", []byte(body+"}")))
			if err != nil {
				return said{}, err
			}
			return foldResponse(answer)
		}
		events := client.Responses.NewStreaming(ctx, responses.ResponseNewParams{}, openaioption.WithRequestBody("application/json", []byte(body+`,"stream":true}`)))
		defer func() { _ = events.Close() }()
		text, reasoning, arguments := "", "", ""
		next := int64(0)
		var final *responses.Response
		for events.Next() {
			event := events.Current()
			if event.SequenceNumber != next {
				return said{}, fmt.Errorf("event %q has number %d, not %d", event.Type, event.SequenceNumber, next)
			}
			next++
			switch event.Type {
			case "response.output_text.delta":
				text += event.Delta
			case "response.reasoning_summary_text.delta":
				reasoning += event.Delta
			case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
				arguments += event.Delta
			case "response.completed", "response.incomplete", "response.failed":
				final = &event.Response
			case "error":
				return said{}, fmt.Errorf("error event: %s", event.Message)
			}
		}
		if events.Err() != nil {
			return said{}, events.Err()
		}
		if final == nil {
			return said{}, fmt.Errorf("the stream has no terminal event")
		}
		folded, err := foldResponse(final)
		if err == nil && (folded.Text != text || folded.Reasoning != reasoning) {
			err = fmt.Errorf("deltas %q, %q differ from the final response %q, %q", text, reasoning, folded.Text, folded.Reasoning)
		}
		return folded, err
	}
}

func foldResponse(answer *responses.Response) (said, error) {
	if answer.Status == "failed" {
		return said{}, fmt.Errorf("response failed: %s: %s", answer.Error.Code, answer.Error.Message)
	}
	s := said{Text: answer.OutputText(), Stop: "end"}
	for _, item := range answer.Output {
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				s.Refusal += part.Refusal
				for _, a := range part.Annotations {
					s.Cited = append(s.Cited, a.URL)
				}
			}
		case "reasoning":
			for _, summary := range item.Summary {
				s.Reasoning += summary.Text
			}
			if item.EncryptedContent != "" {
				s.State++
			}
		case "function_call":
			name := item.Name
			if item.Namespace != "" {
				name = item.Namespace + "/" + name
			}
			s.Calls, s.Stop = append(s.Calls, name+" "+item.Arguments.OfString), "calls"
		case "custom_tool_call":
			s.Calls, s.Stop = append(s.Calls, item.Name+"="+item.Input), "calls"
		}
	}
	switch answer.IncompleteDetails.Reason {
	case "max_output_tokens":
		s.Stop = "length"
	case "content_filter":
		s.Stop = "filter"
	}
	u := answer.Usage
	s.Usage = counts{u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens, u.OutputTokensDetails.ReasoningTokens}
	return s, nil
}

func askMessages(stream bool) func(context.Context, string, string) (said, error) {
	return func(ctx context.Context, url, prompt string) (said, error) {
		client := anthropicClient(url)
		body := `{"model":"claude-sonnet-5-5","max_tokens":1000,"messages":[{"role":"user","content":` + quoted(prompt) + `}],"tools":[
			{"name":"read","input_schema":{"type":"object"}},{"name":"stat","input_schema":{"type":"object"}},{"name":"clock__sleep","input_schema":{"type":"object"}},
			{"name":"patch","input_schema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]`
		if !stream {
			answer, err := client.Messages.New(ctx, anthropic.MessageNewParams{}, anthropicoption.WithRequestBody("application/json", []byte(body+"}")))
			if err != nil {
				return said{}, err
			}
			return foldMessage(answer), nil
		}
		events := client.Messages.NewStreaming(ctx, anthropic.MessageNewParams{}, anthropicoption.WithRequestBody("application/json", []byte(body+`,"stream":true}`)))
		defer func() { _ = events.Close() }()
		var whole anthropic.Message
		stopped := false
		for events.Next() {
			event := events.Current()
			if err := whole.Accumulate(event); err != nil {
				return said{}, err
			}
			stopped = event.Type == "message_stop"
		}
		if events.Err() != nil {
			return said{}, events.Err()
		}
		if !stopped {
			return said{}, fmt.Errorf("the stream has no message_stop")
		}
		return foldMessage(&whole), nil
	}
}

func foldMessage(answer *anthropic.Message) said {
	var s said
	for _, block := range answer.Content {
		switch block.Type {
		case "text":
			s.Text += block.Text
			for _, c := range block.Citations {
				s.Cited = append(s.Cited, c.URL)
			}
		case "thinking":
			s.Reasoning += block.Thinking
			if block.Signature != "" {
				s.State++
			}
		case "redacted_thinking":
			s.State++
		case "tool_use":
			s.Calls = append(s.Calls, block.Name+" "+string(block.Input))
		}
	}
	stops := map[anthropic.StopReason]string{
		"end_turn": "end", "tool_use": "calls", "max_tokens": "length", "model_context_window_exceeded": "length",
		"refusal": "filter", "stop_sequence": "end", "pause_turn": "end",
	}
	s.Stop = stops[answer.StopReason]
	u := answer.Usage
	s.Usage = counts{u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, u.CacheReadInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens}
	return s
}

func askGemini(stream bool) func(context.Context, string, string) (said, error) {
	return func(ctx context.Context, url, prompt string) (said, error) {
		client, err := geminiClient(ctx, url)
		if err != nil {
			return said{}, err
		}
		var declarations []*genai.FunctionDeclaration
		for _, name := range strings.Fields(tools) {
			declaration := &genai.FunctionDeclaration{Name: name, Description: "a tool"}
			if name == "patch" {
				declaration.ParametersJsonSchema = map[string]any{"type": "object", "properties": map[string]any{"input": map[string]any{"type": "string"}}, "required": []string{"input"}}
			}
			declarations = append(declarations, declaration)
		}
		config := &genai.GenerateContentConfig{Tools: []*genai.Tool{{FunctionDeclarations: declarations}}, ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true}}
		contents := genai.Text(prompt)
		const model = "gemini-3.8-flash"
		var s said
		if !stream {
			answer, err := client.Models.GenerateContent(ctx, model, contents, config)
			if err != nil {
				return s, err
			}
			err = foldGemini(&s, answer)
			return s, err
		}
		for frame, err := range client.Models.GenerateContentStream(ctx, model, contents, config) {
			if err != nil {
				return s, err
			}
			if err := foldGemini(&s, frame); err != nil {
				return s, err
			}
		}
		if s.Stop == "" {
			return s, fmt.Errorf("the stream has no finish reason")
		}
		return s, nil
	}
}

func foldGemini(s *said, frame *genai.GenerateContentResponse) error {
	if u := frame.UsageMetadata; u != nil {
		s.Usage = counts{int64(u.PromptTokenCount), int64(u.CachedContentTokenCount), int64(u.CandidatesTokenCount + u.ThoughtsTokenCount), int64(u.ThoughtsTokenCount)}
	}
	if frame.PromptFeedback != nil {
		s.Stop = "filter"
	}
	for _, candidate := range frame.Candidates {
		if candidate.Content != nil {
			for _, part := range candidate.Content.Parts {
				if len(part.ThoughtSignature) > 0 {
					s.State++
				}
				switch {
				case part.FunctionCall != nil:
					arguments, _ := json.Marshal(part.FunctionCall.Args)
					s.Calls = append(s.Calls, part.FunctionCall.Name+" "+strings.Replace(string(arguments), "null", "{}", 1))
				case part.Thought:
					s.Reasoning += part.Text
				default:
					s.Text += part.Text
				}
			}
		}
		if g := candidate.GroundingMetadata; g != nil {
			for _, support := range g.GroundingSupports {
				for _, i := range support.GroundingChunkIndices {
					s.Cited = append(s.Cited, g.GroundingChunks[i].Web.URI)
				}
			}
		}
		stop := map[genai.FinishReason]string{"STOP": "end", "MAX_TOKENS": "length", "SAFETY": "filter"}
		s.Stop = cmp.Or(stop[candidate.FinishReason], s.Stop)
		if candidate.FinishReason == "SAFETY" {
			s.Refusal = candidate.FinishMessage
		}
		if candidate.FinishReason == "MALFORMED_FUNCTION_CALL" {
			return fmt.Errorf("%s", candidate.FinishReason)
		}
		if s.Stop == "end" && len(s.Calls) > 0 {
			s.Stop = "calls"
		}
	}
	return nil
}
