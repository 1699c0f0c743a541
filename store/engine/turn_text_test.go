package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// streamed captures a stream that answers one message, a chunk for each piece, and gives its turn.
func streamed(t *testing.T, m *engine.Engine, account, message string, redactor *redact.Redactor, pieces []string) *record.Turn {
	t.Helper()
	body := fmt.Appendf(nil, `{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`, message)
	if redactor != nil {
		body, _ = redactor.Body(body, nil, nil)
	}
	capture, err := m.Begin(t.Context(), &record.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "m", Stream: true, ChatKey: "k",
		ContentType: "application/json", Body: body, Redactor: redactor,
	})
	if err != nil {
		t.Fatal(err)
	}
	var stream strings.Builder
	for _, piece := range pieces {
		fmt.Fprintf(&stream, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", piece)
	}
	stream.WriteString("data: [DONE]\n\n")
	if _, err := capture.Write([]byte(stream.String())); err != nil {
		t.Fatal(err)
	}
	if err := capture.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, ContentType: "text/event-stream"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		page, err := m.Archive().Timeline(account, capture.SessionID(), record.TimelineQuery{})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the stream is not digested (%v): %+v", err, page.Data)
		}
		if len(page.Data) != 1 || page.Data[0].Turn == nil {
			continue
		}
		turn := page.Data[0].Turn
		if len(turn.Messages) != 1 || len(turn.Answer) != 1 {
			t.Fatalf("the turn is %+v", turn)
		}
		return turn
	}
}

// The words of a stream lie apart, a few in each event. The record has them together, and the turn does not repeat them.
func TestTheTurnOfAStreamDoesNotRepeatItsWords(t *testing.T) {
	m := open(t, nil)
	account := storetest.Accounts()[0]
	var words []string
	for i := range 300 {
		words = append(words, fmt.Sprintf("word%d ", i*7919%1000))
	}
	turn, whole := streamed(t, m, account, "Say some words.", nil, words), strings.Join(words, "")
	if got := turn.Answer[0].Parts[0].Text; got != whole {
		t.Errorf("the turn says %q", got)
	}
	usage, err := m.Archive().Usage(t.Context(), account)
	if err != nil || usage.StoredTurns > 400 {
		t.Errorf("the turn takes %d bytes for an answer of %d (%v)", usage.StoredTurns, len(whole), err)
	}
}

// A credential is masked in a request, and in a stream that has it in pieces. The turn that is put together out of these does
// not bring it back.
func TestTheTextOfATurnIsAsMaskedAsItsExchange(t *testing.T) {
	const secret = "sk-ant-api03-a1B2a1B2a1B2a1B2a1B2a1B2a1B2a1B2"
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1, Digest: digest.Exchange, Redact: redactor, Stream: digest.Stream}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	account := storetest.Accounts()[0]
	if _, err := m.Accounts().Create(account); err != nil {
		t.Fatal(err)
	}
	before, behind := strings.Repeat("It stands before the key. ", 20), strings.Repeat(" It stands behind the key.", 20)
	message := before + secret + behind
	var pieces []string
	for rest := message; rest != ""; {
		n := min(7, len(rest))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	turn := streamed(t, m, account, message, redactor, pieces)
	for _, text := range []string{turn.Messages[0].Parts[0].Text, turn.Answer[0].Parts[0].Text} {
		if strings.Contains(text, "a1B2") || !strings.HasPrefix(text, before) || !strings.HasSuffix(text, behind) || len(text) <= len(before)+len(behind) {
			t.Errorf("the turn says %q", text)
		}
	}
	usage, err := m.Archive().Usage(t.Context(), account)
	if err != nil || usage.StoredTurns > int64(len(message)) {
		t.Errorf("the turn takes %d bytes, and so repeats its exchange (%v)", usage.StoredTurns, err)
	}
}
