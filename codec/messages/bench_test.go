package messages_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/racing"
	"github.com/mnemeproxy/mneme/codec/messages"
)

// agentRequest is a request of an agent in mid-work: 100 messages with tool loops, thinking and results, 50 tools with
// schemas as MCP servers give them, 200 KB in all.
func agentRequest() []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"claude-x","max_tokens":32000,"stream":true,"system":[{"type":"text","text":"` +
		strings.Repeat(`You are an agent. Be \"careful\".\n`, 200) + `","cache_control":{"type":"ephemeral"}}],"tools":[`)
	for i := range 50 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":"%s","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema",`+
			`"type":"object","properties":{"path":{"type":"string","description":"%s","minLength":1},"limit":{"type":"integer","exclusiveMinimum":0},`+
			`"mode":{"anyOf":[{"const":"a"},{"const":"b"}]}},"required":["path"],"additionalProperties":false}}`,
			i, strings.Repeat("What the tool does. ", 20), strings.Repeat("A path. ", 10))
	}
	b.WriteString(`],"messages":[{"role":"user","content":"Fix the tests."}`)
	for i := range 33 {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"thinking","thinking":"%s","signature":"%s"},{"type":"text","text":"Looking."},`+
			`{"type":"tool_use","id":"toolu_%da","name":"tool_1","input":{"path":"a/b.go","limit":20}},{"type":"tool_use","id":"toolu_%db","name":"tool_2","input":{"path":"c.go"}}]}`,
			strings.Repeat("Let me see. ", 20), strings.Repeat("Eq", 150), i, i)
		fmt.Fprintf(&b, `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%da","content":"%s"},{"type":"tool_result","tool_use_id":"toolu_%db","content":[{"type":"text","text":"%s"}],"is_error":false}]}`,
			i, strings.Repeat(`func f() {\n\treturn \"x\"\n}\n`, 105), i, strings.Repeat("ok ", 50))
		b.WriteString(`,{"role":"system","content":"<total_tokens>1000</total_tokens>"}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func TestRequestHalvesAllocateLittle(t *testing.T) {
	if racing.On {
		t.Skip("counted without the race detector")
	}
	body := agentRequest()
	if len(body) < 190_000 || len(body) > 230_000 {
		t.Fatalf("the request has %d bytes", len(body))
	}
	side, target := messages.Client(), ableTarget()
	decoding := testing.AllocsPerRun(20, func() {
		r := new(codec.Request)
		r.Reset()
		if err := side.DecodeRequest(r, body); err != nil {
			t.Fatal(err)
		}
	})
	r := decode(t, string(body))
	dst := make([]byte, 0, 2*len(body))
	encoding := testing.AllocsPerRun(20, func() { dst, _ = messages.Provider().AppendRequest(dst[:0], r, target) })
	t.Logf("%d bytes: %v allocations to decode, %v to encode", len(body), decoding, encoding)
	if decoding > 80 || encoding > 20 {
		t.Errorf("%v allocations to decode, %v to encode; at most 80 and 20 are allowed", decoding, encoding)
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := agentRequest()
	side, r := messages.Client(), new(codec.Request)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		if err := side.DecodeRequest(r, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRequest(b *testing.B) {
	r, target := decode(b, string(agentRequest())), ableTarget()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if dst, err = messages.Provider().AppendRequest(dst[:0], r, target); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(dst)))
}

// deltas are the frames of which streams are made.
var deltas = []struct{ name, data string }{
	{"text", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me have a look at it. "}}`},
	{"reasoning", `{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"It may be the parser, so"}}`},
	{"arguments", `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"path\":\"a.go\","}}`},
}

// openStream returns a decoder in mid-stream, with a block open for each of the deltas, and the events that opened them.
func openStream() (codec.StreamDecoder, []codec.Event) {
	d := messages.Provider().NewDecoder()
	var opened []codec.Event
	for _, data := range []string{
		`{"type":"message_start","message":{"id":"m","model":"claude"}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
	} {
		opened = append(opened, copied(d.Decode(nil, nil, []byte(data)))...)
	}
	return d, opened
}

func TestDeltasDoNotAllocate(t *testing.T) {
	for _, delta := range deltas {
		d, opened := openStream()
		data, list := []byte(delta.data), make([]codec.Event, 0, 8)
		if n := testing.AllocsPerRun(200, func() { list = d.Decode(list[:0], nil, data) }); n > 0 {
			t.Errorf("decoding %s: %v allocations", delta.name, n)
		}
		e, dst := openEncoder(opened, &list[0])
		if n := testing.AllocsPerRun(200, func() { dst = e.Append(dst[:0], &list[0]) }); n > 0 || len(dst) == 0 {
			t.Errorf("encoding %s: %v allocations for %d bytes", delta.name, n, len(dst))
		}
	}
}

// openEncoder returns an encoder in mid-stream, where the item of the delta is the one that is open.
func openEncoder(opened []codec.Event, delta *codec.Event) (codec.StreamEncoder, []byte) {
	e := messages.Client().NewEncoder(options())
	for i := range opened {
		if opened[i].Type == codec.ItemToolCall && opened[i].Item != delta.Item {
			continue // an open call would make the others wait
		}
		e.Append(nil, &opened[i])
	}
	e.Append(nil, &codec.Event{Kind: codec.EventArguments, Item: 2, Raw: []byte(`{`)})
	return e, make([]byte, 0, 1<<10)
}

func BenchmarkDecodeDelta(b *testing.B) {
	for _, delta := range deltas {
		b.Run(delta.name, func(b *testing.B) {
			d, _ := openStream()
			data, list := []byte(delta.data), make([]codec.Event, 0, 8)
			b.ReportAllocs()
			for b.Loop() {
				list = d.Decode(list[:0], nil, data)
			}
		})
	}
}

func BenchmarkEncodeDelta(b *testing.B) {
	for _, delta := range deltas {
		b.Run(delta.name, func(b *testing.B) {
			d, opened := openStream()
			list := d.Decode(nil, nil, []byte(delta.data))
			e, dst := openEncoder(opened, &list[0])
			b.ReportAllocs()
			for b.Loop() {
				dst = e.Append(dst[:0], &list[0])
			}
		})
	}
}
