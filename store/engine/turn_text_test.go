package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// The words of a stream lie apart, a few in each event. The record has them together, and the turn does not repeat them.
func TestTheTurnOfAStreamDoesNotRepeatItsWords(t *testing.T) {
	m := open(t, nil)
	account := storetest.Accounts()[0]
	var words, stream strings.Builder
	for i := range 300 {
		word := fmt.Sprintf("word%d ", i*7919%1000)
		words.WriteString(word)
		fmt.Fprintf(&stream, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", word)
	}
	stream.WriteString("data: [DONE]\n\n")
	body := []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"Say some words."}]}`)
	capture, err := m.Begin(t.Context(), &store.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "m", Stream: true, ChatKey: "k",
		ContentType: "application/json", Body: body,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := capture.Write([]byte(stream.String())); err != nil {
		t.Fatal(err)
	}
	if err := capture.Finish(t.Context(), &store.Closing{Outcome: store.OutcomeComplete, Status: 200, ContentType: "text/event-stream"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); m.Stats().Undigested > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the stream is not digested")
		}
	}
	page, err := m.Archive().Timeline(account, capture.SessionID(), store.TimelineQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Turn == nil || len(page.Data[0].Turn.Answer) != 1 {
		t.Fatalf("the timeline is %+v (%v)", page.Data, err)
	}
	if got := page.Data[0].Turn.Answer[0].Parts[0].Text; got != words.String() {
		t.Errorf("the turn says %q", got)
	}
	usage, err := m.Archive().Usage(t.Context(), account)
	if err != nil || usage.StoredTurns > 400 {
		t.Errorf("the turn takes %d bytes for an answer of %d (%v)", usage.StoredTurns, words.Len(), err)
	}
}
