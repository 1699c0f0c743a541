package chat_test

import (
	"fmt"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
)

// deltas are the chunks that streams are made of, each in a form that differs from chunk to chunk.
var deltas = map[string]func(n int) string{
	"text":      func(n int) string { return `{"content":"word` + fmt.Sprint(n) + ` \"é\" "}` },
	"reasoning": func(n int) string { return `{"content":null,"reasoning_content":"thought` + fmt.Sprint(n) + `"}` },
	"arguments": func(n int) string {
		return `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a` + fmt.Sprint(n) + `\":"}}]}`
	},
}

// stream is some chunks of that kind, after those that open what they belong to.
func stream(kind string, padded bool) [][]byte {
	chunk := func(delta string, n int) []byte {
		padding := ""
		if padded {
			padding = fmt.Sprintf(`,"obfuscation":"x%d"`, n*7)
		}
		return []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795168000,"model":"gpt-5.5","service_tier":"default",` +
			`"system_fingerprint":"fp_1","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":null}],"usage":null` + padding + `}`)
	}
	chunks := [][]byte{
		chunk(`{"role":"assistant","content":""}`, 0),
		chunk(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read","arguments":""}}]}`, 1),
	}
	for n := range 64 {
		chunks = append(chunks, chunk(deltas[kind](100+n), n))
	}
	return chunks
}

func TestReadingADeltaDoesNotAllocate(t *testing.T) {
	for kind := range deltas {
		for _, padded := range []bool{false, true} {
			chunks := stream(kind, padded)
			decoder := chat.Provider().NewDecoder()
			events := make([]codec.Event, 0, 16)
			if n := testing.AllocsPerRun(20, func() {
				decoder.Reset()
				for _, chunk := range chunks {
					events = decoder.Decode(events[:0], nil, chunk)
				}
			}); n > 2 { // the validator's pool loses an entry now and then when the race detector is on
				t.Errorf("%s, padded %v: %v allocations for %d chunks, want none", kind, padded, n, len(chunks))
			}
		}
	}
}

func TestWritingADeltaDoesNotAllocate(t *testing.T) {
	encoder := chat.Client().NewEncoder(&asked)
	dst := make([]byte, 0, 4096)
	open := []codec.Event{
		{Kind: codec.EventItemOpen, Type: codec.ItemReasoning, Item: 0},
		{Kind: codec.EventItemOpen, Type: codec.ItemToolCall, Item: 2, CallID: []byte("c"), Name: []byte("f")},
	}
	for i := range open {
		dst = encoder.Append(dst[:0], &open[i])
	}
	for _, ev := range []codec.Event{
		{Kind: codec.EventText, Item: 1, Raw: []byte("word")},
		{Kind: codec.EventReasoning, Item: 0, Raw: []byte("thought")},
		{Kind: codec.EventArguments, Item: 2, Raw: []byte(`{\"a\":`)},
	} {
		if n := testing.AllocsPerRun(1000, func() { dst = encoder.Append(dst[:0], &ev) }); n > 0 {
			t.Errorf("event %d: %v allocations, want none", ev.Kind, n)
		}
	}
}

// What was learned from one chunk must not change how another one is read: a stream read by one decoder gives the text
// of its chunks read by decoders that know nothing yet.
func TestChunksAreReadAlikeWhateverCameBefore(t *testing.T) {
	const head = `{"id":"c","choices":[{"index":0,"delta":{"content":"`
	const tail = `"},"finish_reason":null}]}`
	bodies := []string{
		`one`, `two`, `three\n`, `"},"finish_reason":"stop"}],"x":[{"y":{"z":"`, `\u00e9`, `\ud83d`, `a\"b`, `日本`, "\xff", "\x01", `four`,
		`\`, `\\`, `\\\"`, ` `, `five`,
	}
	learned := chat.Provider().NewDecoder()
	for _, body := range bodies {
		chunk := []byte(head + body + tail)
		fresh := chat.Provider().NewDecoder()
		want := contentOf(fresh.Decode(nil, nil, chunk))
		got := contentOf(learned.Decode(nil, nil, chunk))
		if got != want {
			t.Errorf("%q: read as %s, alone as %s", body, got, want)
		}
		if want[0] == 'e' { // after an error nothing is read any more
			learned = chat.Provider().NewDecoder()
			learned.Decode(nil, nil, []byte(head+"zero"+tail))
			learned.Decode(nil, nil, []byte(head+"null"+tail))
		}
	}
}

func contentOf(events []codec.Event) string {
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case codec.EventText:
			return fmt.Sprintf("text %q", ev.Raw)
		case codec.EventError:
			return "error"
		}
	}
	return "nothing"
}

func TestADecoderThatIsResetKnowsNothingOfTheStreamBefore(t *testing.T) {
	decoder := chat.Provider().NewDecoder()
	for range 2 {
		decoder.Reset()
		events := decoder.Decode(nil, nil, []byte(`{"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}`))
		if len(events) != 2 || string(events[1].CallID) != "a" || events[1].Item != 0 {
			t.Fatalf("got %+v", events)
		}
		events = decoder.Finish(nil, codec.EndCancelled, nil)
		if len(events) != 1 || events[0].End != codec.EndCancelled {
			t.Fatalf("got %+v", events)
		}
	}
}

func TestAHostMayEndItsStreamsWithoutAFinishReason(t *testing.T) {
	for without, want := range map[bool]codec.End{true: codec.EndTerminal, false: codec.EndBroken} {
		decoder := chat.ProviderOf(codec.Dialect{EndsWithoutFinish: without}).NewDecoder()
		decoder.Decode(nil, nil, []byte(`{"id":"c","choices":[{"delta":{"content":"a"}}]}`))
		events := decoder.Finish(nil, codec.EndEOF, nil)
		if got := events[len(events)-1].End; got != want {
			t.Errorf("a host that leaves the finish reason out: %v: the stream ends as %v", without, got)
		}
	}
}

func TestManyCallsEndTheStreamInsteadOfFillingTheMemory(t *testing.T) {
	decoder := chat.Provider().NewDecoder()
	for n := range 10_000 {
		chunk := fmt.Appendf(nil, `{"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f"}}]}}]}`, n, n)
		for _, ev := range decoder.Decode(nil, nil, chunk) {
			if ev.Kind == codec.EventError {
				return
			}
		}
	}
	t.Error("ten thousand calls were taken")
}

func BenchmarkDecodeDelta(b *testing.B) {
	for _, padded := range []bool{false, true} {
		for kind := range deltas {
			name := kind
			if padded {
				name += " padded"
			}
			b.Run(name, func(b *testing.B) {
				chunks := stream(kind, padded)
				decoder := chat.Provider().NewDecoder()
				events := make([]codec.Event, 0, 16)
				for _, chunk := range chunks {
					events = decoder.Decode(events[:0], nil, chunk)
				}
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					events = decoder.Decode(events[:0], nil, chunks[2+n%64])
				}
			})
		}
	}
}

func BenchmarkEncodeDelta(b *testing.B) {
	encoder := chat.Client().NewEncoder(&asked)
	ev := codec.Event{Kind: codec.EventText, Raw: []byte(`word \"é\" `)}
	dst := encoder.Append(nil, &ev)
	b.ReportAllocs()
	for b.Loop() {
		dst = encoder.Append(dst[:0], &ev)
	}
}
