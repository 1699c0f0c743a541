package messages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/messages"
)

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
	transcripts(t, "stream_encode", func(t *testing.T, path string) {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if reason, known := unequal[name]; known {
			t.Skip(reason)
		}
		script, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		list := events(t, inputs(string(script)))
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

// inputs are the "> " lines of a transcript.
func inputs(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		if in, found := strings.CutPrefix(line, "> "); found {
			b.WriteString(in)
		}
	}
	return b.String()
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

var _ codec.ClientHalf = messages.Client()
