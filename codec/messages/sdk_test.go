package messages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/messages"
)

// A request as the official SDK writes it is understood without a rest.
func TestSDKRequestIsUnderstood(t *testing.T) {
	params := anthropic.MessageNewParams{
		Model:         "claude-x",
		MaxTokens:     1024,
		System:        []anthropic.TextBlockParam{{Text: "Be brief.", CacheControl: anthropic.NewCacheControlEphemeralParam()}},
		StopSequences: []string{"END"},
		Thinking:      anthropic.ThinkingConfigParamUnion{OfEnabled: &anthropic.ThinkingConfigEnabledParam{BudgetTokens: 1024}},
		Tools: []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name:        "look",
			Description: anthropic.String("Looks."),
			InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"where": map[string]any{"type": "string"}}, Required: []string{"where"}},
		}}},
		ToolChoice: anthropic.ToolChoiceUnionParam{OfAuto: &anthropic.ToolChoiceAutoParam{DisableParallelToolUse: anthropic.Bool(true)}},
		Messages: []anthropic.MessageParam{
			anthropic.NewUserMessage(anthropic.NewTextBlock("What is there?"), anthropic.NewImageBlockBase64("image/png", "iVBORw==")),
			anthropic.NewAssistantMessage(
				anthropic.NewThinkingBlock("c2ln", "I should look."),
				anthropic.NewToolUseBlock("toolu_1", map[string]any{"where": "there"}, "look"),
			),
			anthropic.NewUserMessage(anthropic.NewToolResultBlock("toolu_1", "a cat", false), anthropic.NewTextBlock("Well?")),
		},
	}
	body, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	r := decode(t, string(body))
	if len(r.Notes.Dropped)+len(r.Notes.Emulated) > 0 {
		t.Errorf("notes: %+v", r.Notes)
	}
	var told strings.Builder
	describeMeaning(&told, r)
	want := `stream=false max=1024 temperature= top_p= top_k= stop=["END"] user= tier= cache=
reasoning mode=2 effort= budget=1024 display=
tool kind=1 look type= strict=0 deferred=false callers= cache= schema={"properties":{"where":{"type":"string"}},"required":["where"],"type":"object"}
choice mode=1  parallel=1
system text text=Be brief. cache={"type":"ephemeral"}
user
  text text=What is there?
  image media=image/png data=iVBORw==
assistant
  reasoning text=I should look. signature=c2ln
  call id=toolu_1 name=look arguments={"where":"there"}
tool
  result id=toolu_1
    text text=a cat
user
  text text=Well?
`
	if diff := cmp.Diff(want, told.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// unequal are the transcripts whose stream and complete answer differ for a reason.
var unequal = map[string]string{
	"calls_without_end": "the stream hands on the cut arguments as they are; a complete answer must be JSON",
	"late_signature":    "the stream cannot put the signature into a block that has closed",
	"error_inside":      "an error",
	"broken_off":        "an error",
	"malformed_call":    "an error",
}

// The official SDK folds every stream to what it reads from the complete answer of the same events.
func TestSDKFoldsStreamToCompleteAnswer(t *testing.T) {
	for name, recorded := range codectest.All(t, "stream_encode") {
		t.Run(name, func(t *testing.T) {
			if reason, known := unequal[name]; known {
				t.Skip(reason)
			}
			list := events(t, strings.Join(codectest.Inputs(recorded), "\n"))
			streamed, err := foldBySDK(t, encode(options(), list))
			if err != nil {
				t.Fatal(err)
			}
			complete := readBySDK(t, messages.Client().AppendAnswer(nil, fold(list), options()))
			if diff := cmp.Diff(meaning(complete), meaning(streamed)); diff != "" {
				t.Errorf("(-complete +streamed):\n%s", diff)
			}
		})
	}
}

// An error inside a stream reaches the SDK's caller as an error with its type.
func TestSDKSeesErrorInsideStream(t *testing.T) {
	_, err := foldBySDK(t, encode(options(), events(t, `
		open 0 text
		text 0 Half
		error overloaded: Overloaded`)))
	if err == nil || !strings.Contains(err.Error(), "overloaded_error") {
		t.Errorf("got error %v", err)
	}
}

func sdkClient(t *testing.T, contentType string, body []byte) anthropic.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return anthropic.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("test"), option.WithMaxRetries(0))
}

func sdkParams() anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: "claude-x", MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	}
}

func foldBySDK(t *testing.T, stream []byte) (*anthropic.Message, error) {
	t.Helper()
	client := sdkClient(t, "text/event-stream", stream)
	s := client.Messages.NewStreaming(context.Background(), sdkParams())
	var m anthropic.Message
	for s.Next() {
		if err := m.Accumulate(s.Current()); err != nil {
			return nil, err
		}
	}
	return &m, s.Err()
}

func readBySDK(t *testing.T, body []byte) *anthropic.Message {
	t.Helper()
	client := sdkClient(t, "application/json", body)
	m, err := client.Messages.New(context.Background(), sdkParams())
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return m
}

// meaning is what a program would take from a message, a line for each piece.
func meaning(m *anthropic.Message) []string {
	lines := []string{fmt.Sprintf("%s %s %s stop=%s %q", m.ID, m.Model, m.Role, m.StopReason, m.StopSequence)}
	for _, b := range m.Content {
		var citations []string
		for _, c := range b.Citations {
			citations = append(citations, c.Type+" "+c.URL+" "+c.Title+" "+c.CitedText)
		}
		lines = append(lines, fmt.Sprintf("%s text=%q thinking=%q signature=%q data=%q id=%q name=%q input=%s for=%q cites=%q",
			b.Type, b.Text, b.Thinking, b.Signature, b.Data, b.ID, b.Name, compact(b.Input), b.ToolUseID, citations))
	}
	return append(lines, fmt.Sprintf("in=%d read=%d write=%d out=%d", m.Usage.InputTokens, m.Usage.CacheReadInputTokens,
		m.Usage.CacheCreationInputTokens, m.Usage.OutputTokens))
}

func compact(raw any) string {
	b, err := json.Marshal(raw)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
