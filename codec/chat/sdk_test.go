package chat_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
)

// sdk is the official client of a server that answers with the events: as a stream, or folded.
type sdk struct {
	events []codec.Event
	client openai.Client
}

func newSDK(t *testing.T) *sdk {
	t.Helper()
	s := &sdk{}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.client = openai.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("test"), option.WithMaxRetries(0))
	return s
}

func (s *sdk) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	client := chat.Client()
	if strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "text/event-stream")
		encoder := client.NewEncoder(&asked)
		var out []byte
		for i := range s.events {
			out = encoder.Append(append(out, ": ping\n\n"...), &s.events[i])
		}
		_, _ = w.Write(out)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var answer codec.Answer
	for i := range s.events {
		answer.Add(&s.events[i])
	}
	if answer.Err != nil {
		w.WriteHeader(client.Status(answer.Err))
		_, _ = w.Write(client.AppendError(nil, answer.Err, &asked))
		return
	}
	_, _ = w.Write(client.AppendAnswer(nil, &answer, &asked))
}

var params = openai.ChatCompletionNewParams{
	Model: "asked", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
}

func (s *sdk) stream() (*openai.ChatCompletion, error) {
	var fold openai.ChatCompletionAccumulator
	stream := s.client.Chat.Completions.NewStreaming(context.Background(), params)
	for stream.Next() {
		if !fold.AddChunk(stream.Current()) {
			return nil, errors.New("the SDK refuses the chunk " + stream.Current().RawJSON())
		}
	}
	return &fold.ChatCompletion, stream.Err()
}

// meaning is what a program sees of an answer. The SDK folds the input of custom tools not at all and knows nothing of
// reasoning: the grammar and the transcripts look at those.
type meaning struct {
	ID, Model, Content, Refusal, Finish string
	Created                             int64
	Calls                               []meaningOfCall
	Usage                               [5]int64
}

type meaningOfCall struct{ ID, Type, Name, Arguments string }

func meaningOf(c *openai.ChatCompletion) meaning {
	m := meaning{ID: c.ID, Model: c.Model, Created: c.Created, Usage: [5]int64{
		c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.TotalTokens,
		c.Usage.PromptTokensDetails.CachedTokens, c.Usage.CompletionTokensDetails.ReasoningTokens,
	}}
	for _, choice := range c.Choices {
		m.Content, m.Refusal, m.Finish = choice.Message.Content, choice.Message.Refusal, choice.FinishReason
		for _, call := range choice.Message.ToolCalls {
			m.Calls = append(m.Calls, meaningOfCall{call.ID, call.Type, call.Function.Name, call.Function.Arguments})
		}
	}
	return m
}

func TestTheSDKFoldsAStreamToTheCompleteAnswer(t *testing.T) {
	s := newSDK(t)
	rapid.Check(t, func(t *rapid.T) {
		s.events = anyAnswer(t)
		streamed, err := s.stream()
		if err != nil {
			t.Fatal(err)
		}
		complete, err := s.client.Chat.Completions.New(context.Background(), params)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(meaningOf(complete), meaningOf(streamed)); diff != "" {
			t.Fatalf("complete and streamed differ: %s", diff)
		}
	})
}

// anyAnswer is an answer as a decoder would report it: items one after the other, the fragments of calls interleaved.
func anyAnswer(t *rapid.T) []codec.Event {
	body := rapid.SampledFrom([]string{"a", `b\n`, `\"`, "日本", `\u00e9`, `{\"x\":1}`})
	bytes := func(label string) []byte { return []byte(body.Draw(t, label)) }
	events := []codec.Event{{Kind: codec.EventStart, ID: []byte("u"), Model: []byte("served")}}
	var item int32
	var calls []int32
	open := func(kind codec.ItemType, ev codec.EventKind) {
		events = append(events, codec.Event{Kind: codec.EventItemOpen, Type: kind, Item: item})
		for range rapid.IntRange(1, 3).Draw(t, "fragments") {
			events = append(events, codec.Event{Kind: ev, Item: item, Raw: bytes("fragment")})
		}
		events = append(events, codec.Event{Kind: codec.EventItemClose, Type: kind, Item: item})
		item++
	}
	for range rapid.IntRange(0, 5).Draw(t, "items") {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			open(codec.ItemText, codec.EventText)
		case 1:
			open(codec.ItemRefusal, codec.EventRefusal)
		case 2:
			open(codec.ItemReasoning, codec.EventReasoning)
		case 3:
			events = append(events, codec.Event{
				Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: item, CallID: []byte(rapid.SampledFrom([]string{"", "id"}).Draw(t, "id")),
				Name: []byte("f"),
			})
			calls = append(calls, item)
			item++
		}
		if len(calls) > 0 && rapid.Bool().Draw(t, "more arguments") {
			events = append(events, codec.Event{Kind: codec.EventArguments, Item: rapid.SampledFrom(calls).Draw(t, "call"), Raw: bytes("arguments")})
		}
	}
	for _, call := range calls {
		events = append(events, codec.Event{Kind: codec.EventItemClose, Type: codec.ItemToolCall, Item: call})
	}
	finish := rapid.SampledFrom([]codec.FinishReason{
		codec.FinishUnknown, codec.FinishEnd, codec.FinishStopSequence, codec.FinishLength, codec.FinishContext, codec.FinishToolCalls,
		codec.FinishFilter, codec.FinishPause,
	}).Draw(t, "finish")
	events = append(events, codec.Event{Kind: codec.EventFinish, Finish: finish})
	if rapid.Bool().Draw(t, "usage") {
		events = append(events, codec.Event{Kind: codec.EventUsage, Usage: codec.Usage{InputUncached: 5, CacheRead: 3, Output: 7, Reasoning: 2}})
	}
	return append(events, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}

func TestTheSDKSeesAnErrorInsideAStream(t *testing.T) {
	s := newSDK(t)
	s.events = []codec.Event{
		{Kind: codec.EventStart},
		{Kind: codec.EventItemOpen, Type: codec.ItemText},
		{Kind: codec.EventText, Raw: []byte("a")},
		{Kind: codec.EventError, Err: codec.Errorf(codec.KindOverloaded, "at capacity")},
		{Kind: codec.EventEnd, End: codec.EndBroken},
	}
	folded, err := s.stream()
	if err == nil || !strings.Contains(err.Error(), "at capacity") {
		t.Errorf("got %v", err)
	}
	if got := meaningOf(folded); got.Content != "a" || got.Finish != "" {
		t.Errorf("got %+v", got)
	}
}

func TestTheSDKSeesAnErrorBeforeTheAnswer(t *testing.T) {
	s := newSDK(t)
	s.events = []codec.Event{{Kind: codec.EventError, Err: &codec.Error{
		Kind: codec.KindNotFound, Message: "no such model", Code: "model_not_found", Param: "model",
	}}}
	_, err := s.client.Chat.Completions.New(context.Background(), params)
	var apiErr *openai.Error
	if !errors.As(err, &apiErr) {
		t.Fatalf("got %v", err)
	}
	if apiErr.StatusCode != http.StatusNotFound || apiErr.Code != "model_not_found" || apiErr.Param != "model" || apiErr.Message != "no such model" {
		t.Errorf("got %+v", apiErr)
	}
}

// A client that declared functions of old sees calls as function_call.
func TestALegacyClientSeesAFunctionCall(t *testing.T) {
	o := asked
	o.Request = read(t, []byte(`{"functions":[{"name":"f"}],"messages":[{"role":"user","content":"x"}]}`))
	events := []codec.Event{
		{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, CallID: []byte("c"), Name: []byte("f")},
		{Kind: codec.EventArguments, Raw: []byte(`{}`)},
		{Kind: codec.EventItemClose, Type: codec.ItemToolCall},
		{Kind: codec.EventEnd, End: codec.EndTerminal},
	}
	encoder := chat.Client().NewEncoder(&o)
	var stream []byte
	var answer codec.Answer
	for i := range events {
		stream = encoder.Append(stream, &events[i])
		answer.Add(&events[i])
	}
	complete := chat.Client().AppendAnswer(nil, &answer, &o)
	for _, want := range []string{`"function_call":{"name":"f","arguments":""}`, `"function_call":{"arguments":"{}"}`, `"finish_reason":"function_call"`} {
		if !strings.Contains(string(stream), want) {
			t.Errorf("the stream lacks %s: %s", want, stream)
		}
	}
	if want := `"function_call":{"name":"f","arguments":"{}"}},"logprobs":null,"finish_reason":"function_call"`; !strings.Contains(string(complete), want) {
		t.Errorf("the answer lacks %s: %s", want, complete)
	}
}
