package router

import (
	"bytes"
	"encoding/base64"
	"io"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

func frame(t *testing.T, event string) []byte {
	t.Helper()
	var out bytes.Buffer
	header := func(name, value string) eventstream.Header {
		return eventstream.Header{Name: name, Value: eventstream.StringValue(value)}
	}
	err := eventstream.NewEncoder().Encode(&out, eventstream.Message{
		Headers: eventstream.Headers{header(":message-type", "event"), header(":event-type", "chunk")},
		Payload: []byte(`{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(event)) + `"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func read(stream []byte) (string, error) {
	text, err := io.ReadAll(&eventStream{from: io.NopCloser(bytes.NewReader(stream)), decoder: eventstream.NewDecoder()})
	return string(text), err
}

func TestAnEventStreamIsReadAsServerSentEvents(t *testing.T) {
	stream := append(frame(t, `{"type":"ping"}`), frame(t, "{\n\"type\": \"message_stop\"}")...)
	want := "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	if got, err := read(stream); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
}

func TestADamagedOrCutEventStreamGivesNothingOfTheFrame(t *testing.T) {
	whole, next := frame(t, `{"type":"ping"}`), frame(t, `{"type":"message_stop"}`)
	want, err := read(whole)
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(next) {
		damaged := slices.Concat(whole, next)
		damaged[len(whole)+at] ^= 0x20
		if got, err := read(damaged); err == nil || got != want {
			t.Fatalf("byte %d: %q, %v", at, got, err)
		}
		if got, err := read(append(bytes.Clone(whole), next[:at]...)); at > 0 && (err == nil || got != want) {
			t.Fatalf("cut at %d: %q, %v", at, got, err)
		}
	}
}
