package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/racing"
	"github.com/mnemeproxy/mneme/codec/responses"
)

var deltas = map[string][3]string{ // frames of a stream: the beginning, the item, the delta that repeats
	"text": {
		`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_0123456789","type":"message","content":[]}}`,
		`{"type":"response.output_text.delta","sequence_number":1234,"item_id":"msg_0123456789","output_index":0,"content_index":0,"delta":" words of an answer","logprobs":[],"obfuscation":"Zq1a"}`,
	},
	"arguments": {
		`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_0123456789","type":"function_call","call_id":"call_1","name":"read","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","sequence_number":1234,"item_id":"fc_0123456789","output_index":0,"delta":"\"path\":\"a","obfuscation":"9"}`,
	},
	"reasoning": {
		`{"type":"response.created","response":{"id":"resp_1","model":"m"}}`,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_0123456789","type":"reasoning","summary":[]}}`,
		`{"type":"response.reasoning_summary_text.delta","sequence_number":1234,"item_id":"rs_0123456789","output_index":0,"summary_index":0,"delta":" thinking of"}`,
	},
}

// begun is a decoder and an encoder in the middle of an answer, and the event of one more delta.
func begun(frames [3]string) (codec.StreamDecoder, codec.StreamEncoder, codec.Event) {
	dec, enc := responses.Provider().NewDecoder(), responses.Client().NewEncoder(options())
	var last codec.Event
	for _, frame := range frames {
		for _, ev := range dec.Decode(nil, nil, []byte(frame)) {
			enc.Append(nil, &ev)
			last = ev
		}
	}
	last.Raw = append([]byte(nil), last.Raw...)
	return dec, enc, last
}

func TestDeltasDoNotAllocate(t *testing.T) {
	for name, frames := range deltas {
		t.Run(name, func(t *testing.T) {
			dec, enc, ev := begun(frames)
			frame, events, out := []byte(frames[2]), make([]codec.Event, 0, 8), make([]byte, 0, 4096)
			if n := testing.AllocsPerRun(1000, func() { events = dec.Decode(events[:0], nil, frame) }); n > 0 {
				t.Errorf("decoding a delta allocates %.0f times", n)
			}
			if n := testing.AllocsPerRun(1000, func() { out = enc.Append(out[:0], &ev) }); n > 0 {
				t.Errorf("encoding a delta allocates %.0f times", n)
			}
		})
	}
}

func BenchmarkStreamDecode(b *testing.B) {
	for name, frames := range deltas {
		b.Run(name, func(b *testing.B) {
			dec, _, _ := begun(frames)
			frame, events := []byte(frames[2]), make([]codec.Event, 0, 8)
			b.ReportAllocs()
			b.SetBytes(int64(len(frame)))
			for b.Loop() {
				events = dec.Decode(events[:0], nil, frame)
			}
		})
	}
}

func BenchmarkStreamEncode(b *testing.B) {
	for name, frames := range deltas {
		b.Run(name, func(b *testing.B) {
			_, enc, ev := begun(frames)
			out, n := make([]byte, 0, 4096), 0
			b.ReportAllocs()
			for b.Loop() {
				if n++; n == 4096 { // an answer has an end, and so has its buffer
					b.StopTimer()
					_, enc, ev = begun(frames)
					n = 0
					b.StartTimer()
				}
				out = enc.Append(out[:0], &ev)
			}
		})
	}
}

// agentHistory is a body of about 200 KB: 100 items of an agent's session and 50 tools.
func agentHistory() []byte {
	var b strings.Builder
	b.WriteString(`{"model":"gpt-5.5","stream":true,"store":false,"include":["reasoning.encrypted_content"],"tools":[`)
	for i := range 50 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","name":"tool_%d","description":"%s","strict":false,"parameters":{"type":"object","properties":{"path":{"type":"string","description":"%s"},"n":{"type":"integer"}},"required":["path"]}}`,
			i, strings.Repeat("does something useful ", 20), strings.Repeat("where it is ", 20))
	}
	b.WriteString(`],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Go."}]}`)
	for i := range 33 {
		fmt.Fprintf(&b, `,{"type":"reasoning","summary":[],"encrypted_content":"%s"}`, strings.Repeat("gAAAA", 100))
		fmt.Fprintf(&b, `,{"type":"function_call","call_id":"call_%d","name":"tool_1","arguments":"{\"path\":\"%s\"}"}`, i, strings.Repeat("src/", 25))
		fmt.Fprintf(&b, `,{"type":"function_call_output","call_id":"call_%d","output":"%s"}`, i, strings.Repeat(`line of a file\n`, 250))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func TestRequestsTakeFewAllocations(t *testing.T) {
	if racing.On {
		t.Skip("counted without the race detector")
	}
	body, r := agentHistory(), new(codec.Request)
	side, target := responses.Client(), &codec.Target{Model: "gpt-5.5"}
	decode := testing.AllocsPerRun(20, func() {
		r = new(codec.Request)
		r.Reset()
		if err := side.DecodeRequest(r, body); err != nil {
			t.Fatal(err)
		}
	})
	out := make([]byte, 0, 2*len(body))
	encode := testing.AllocsPerRun(20, func() {
		out, _ = responses.Provider().AppendRequest(out[:0], r, target)
	})
	if decode > 80 || encode > 20 {
		t.Errorf("decoding %d bytes allocates %.0f times, encoding %.0f times", len(body), decode, encode)
	}
}

func BenchmarkRequestDecode(b *testing.B) {
	body, r := agentHistory(), new(codec.Request)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		if err := responses.Client().DecodeRequest(r, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequestEncode(b *testing.B) {
	body := agentHistory()
	r := request(b, string(body))
	out := make([]byte, 0, 2*len(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		out, _ = responses.Provider().AppendRequest(out[:0], r, &codec.Target{Model: "gpt-5.5"})
	}
}
