package crossing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/internal/racing"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// longHistory is an agent's request in mid-work: about 200 KB, 66 calls with their results, 50 tools.
func longHistory(surface codec.Format, model string) []byte {
	items := []string{`{"role":"user","content":"Fix the tests."}`}
	if surface == codec.Gemini {
		items = []string{`{"role":"user","parts":[{"text":"Fix the tests."}]}`}
	}
	long, short := strings.Repeat(`func f() {\n\treturn \"x\"\n}\n`, 130), strings.Repeat("ok ", 50)
	for i := range 33 {
		arguments := [2]string{`{"path":"a/b.go","limit":20}`, `{"path":"c.go"}`}
		escaped := [2]string{strings.ReplaceAll(arguments[0], `"`, `\"`), strings.ReplaceAll(arguments[1], `"`, `\"`)}
		switch surface {
		case codec.Chat:
			items = append(items,
				fmt.Sprintf(`{"role":"assistant","content":"Looking.","tool_calls":[{"id":"call_%da","type":"function","function":{"name":"tool_1","arguments":"%s"}},{"id":"call_%db","type":"function","function":{"name":"tool_2","arguments":"%s"}}]}`, i, escaped[0], i, escaped[1]),
				fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%da","content":"%s"}`, i, long), fmt.Sprintf(`{"role":"tool","tool_call_id":"call_%db","content":"%s"}`, i, short))
		case codec.Responses:
			items = append(items,
				fmt.Sprintf(`{"type":"reasoning","summary":[{"type":"summary_text","text":"Let me see."}],"encrypted_content":"%s"}`, strings.Repeat("gA", 150)),
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Looking."}]}`,
				fmt.Sprintf(`{"type":"function_call","call_id":"call_%da","name":"tool_1","arguments":"%s"}`, i, escaped[0]), fmt.Sprintf(`{"type":"function_call","call_id":"call_%db","name":"tool_2","arguments":"%s"}`, i, escaped[1]),
				fmt.Sprintf(`{"type":"function_call_output","call_id":"call_%da","output":"%s"}`, i, long), fmt.Sprintf(`{"type":"function_call_output","call_id":"call_%db","output":"%s"}`, i, short))
		case codec.Gemini:
			items = append(items,
				fmt.Sprintf(`{"role":"model","parts":[{"text":"Looking."},{"functionCall":{"id":"call_%da","name":"tool_1","args":%s},"thoughtSignature":"%s"},{"functionCall":{"id":"call_%db","name":"tool_2","args":%s}}]}`, i, arguments[0], strings.Repeat("Eq", 150), i, arguments[1]),
				fmt.Sprintf(`{"role":"user","parts":[{"functionResponse":{"id":"call_%da","name":"tool_1","response":{"output":"%s"}}},{"functionResponse":{"id":"call_%db","name":"tool_2","response":{"output":"%s"}}}]}`, i, long, i, short))
		default:
			items = append(items,
				fmt.Sprintf(`{"role":"assistant","content":[{"type":"thinking","thinking":"Let me see.","signature":"%s"},{"type":"text","text":"Looking."},{"type":"tool_use","id":"toolu_%da","name":"tool_1","input":%s},{"type":"tool_use","id":"toolu_%db","name":"tool_2","input":%s}]}`, strings.Repeat("Eq", 150), i, arguments[0], i, arguments[1]),
				fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%da","content":"%s"},{"type":"tool_result","tool_use_id":"toolu_%db","content":[{"type":"text","text":"%s"}],"is_error":false}]}`, i, long, i, short),
				`{"role":"system","content":"<total_tokens>1000</total_tokens>"}`)
		}
	}
	var tools []string
	for i := range 50 {
		schema := fmt.Sprintf(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"path":{"type":"string","description":"%s","minLength":1},"limit":{"type":"integer","exclusiveMinimum":0},"mode":{"anyOf":[{"const":"a"},{"const":"b"}]}},"required":["path"],"additionalProperties":false}`, strings.Repeat("A path. ", 10))
		about := strings.Repeat("What the tool does. ", 20)
		switch surface {
		case codec.Chat:
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":"%s","parameters":%s}}`, i, about, schema))
		case codec.Responses:
			tools = append(tools, fmt.Sprintf(`{"type":"function","name":"tool_%d","description":"%s","parameters":%s,"strict":false}`, i, about, schema))
		case codec.Gemini:
			tools = append(tools, fmt.Sprintf(`{"functionDeclarations":[{"name":"tool_%d","description":"%s","parametersJsonSchema":%s}]}`, i, about, schema))
		default:
			tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"%s","input_schema":%s}`, i, about, schema))
		}
	}
	system := strings.Repeat(`You are an agent. Be \"careful\".\n`, 200)
	history := strings.Join(items, ",")
	all := strings.Join(tools, ",")
	switch surface {
	case codec.Chat:
		return []byte(`{"model":"` + model + `","messages":[{"role":"system","content":"` + system + `"},` + history + `],"tools":[` + all + `]}`)
	case codec.Responses:
		return []byte(`{"model":"` + model + `","instructions":"` + system + `","store":false,"input":[` + history + `],"tools":[` + all + `]}`)
	case codec.Gemini:
		return []byte(`{"systemInstruction":{"parts":[{"text":"` + system + `"}]},"contents":[` + history + `],"tools":[` + all + `]}`)
	default:
		return []byte(`{"model":"` + model + `","max_tokens":32000,"thinking":{"type":"adaptive"},"system":[{"type":"text","text":"` + system + `","cache_control":{"type":"ephemeral"}}],"messages":[` + history + `],"tools":[` + all + `]}`)
	}
}

// eachCrossing calls f for every pair of a surface and a model that is spoken to in another format.
func eachCrossing(f func(name string, surface codec.Format, model string)) {
	for _, surface := range surfaces {
		for _, model := range []string{gpt, gpt4, claude, gemini, deepseek} {
			if _, format := targetOf(model); format != surface {
				f(surface.String()+"-to-"+model, surface, model)
			}
		}
	}
}

// maxRequestAllocations bounds the translation of a request of 200 KB: what it allocates may grow with the number of
// tools and calls, but never with the bytes.
const maxRequestAllocations = 300

func TestALongHistoryIsTranslatedWithFewAllocations(t *testing.T) {
	if racing.On {
		t.Skip("counted without the race detector")
	}
	eachCrossing(func(name string, surface codec.Format, model string) {
		body := longHistory(surface, model)
		if len(body) < 180_000 || len(body) > 240_000 || !json.Valid(body) {
			t.Fatalf("%s: the request has %d bytes", name, len(body))
		}
		dst := make([]byte, 0, 2*len(body))
		target, format := targetOf(model)
		settings := &crossing.Settings{Target: target, Account: "acme"}
		allocations := testing.AllocsPerRun(10, func() {
			x, _, err := crossing.Prepare(dst, surface, format, body, settings)
			if err != nil {
				t.Fatal(err)
			}
			x.Release()
		})
		t.Logf("%s: %v allocations", name, allocations)
		if allocations > maxRequestAllocations {
			t.Errorf("%s takes %v allocations, at most %d are allowed", name, allocations, maxRequestAllocations)
		}
	})
}

// A buffer that grew with the translation would be allocated and copied more than ten times.
func TestATranslationAllocatesItsRoomAtOnce(t *testing.T) {
	if racing.On {
		t.Skip("counted without the race detector")
	}
	eachCrossing(func(name string, surface codec.Format, model string) {
		body := longHistory(surface, model)
		target, format := targetOf(model)
		settings := &crossing.Settings{Target: target, Account: "acme"}
		allocations := func(dst []byte) float64 {
			return testing.AllocsPerRun(10, func() {
				x, _, err := crossing.Prepare(dst, surface, format, body, settings)
				if err != nil {
					t.Fatal(err)
				}
				x.Release()
			})
		}
		given, made := allocations(make([]byte, 0, 2*len(body))), allocations(nil)
		if made > given+1 {
			t.Errorf("%s: a buffer for the translation takes %v allocations, want one", name, made-given)
		}
	})
}

// BenchmarkRequest translates into a buffer that is used again, and into one that is made each time.
func BenchmarkRequest(b *testing.B) {
	eachCrossing(func(name string, surface codec.Format, model string) {
		body := longHistory(surface, model)
		for kind, dst := range map[string][]byte{"": make([]byte, 0, 2*len(body)), "/cold": nil} {
			b.Run(name+kind, func(b *testing.B) {
				target, format := targetOf(model)
				settings := &crossing.Settings{Target: target, Account: "acme", Read: true}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					x, _, err := crossing.Prepare(dst, surface, format, body, settings)
					if err != nil {
						b.Fatal(err)
					}
					x.Release()
				}
			})
		}
	})
}

// deltas are the frames of a provider's stream up to the middle of a text or of a call's arguments, and the delta that
// goes on from there.
func deltas(t testing.TB, format codec.Format, arguments bool) (before []string, delta string) {
	t.Helper()
	switch format {
	case codec.Chat:
		if arguments {
			return []string{`{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"read","arguments":""}}]}}]}`, `{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"input\":\""}}]}}]}`},
				`{"id":"c","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"some words "}}]}}]}`
		}
		return []string{`{"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"a"}}]}`},
			`{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"some words "},"finish_reason":null}]}`
	case codec.Responses:
		start := `{"type":"response.created","response":{"id":"r","model":"m"}}`
		if arguments {
			return []string{start, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"c1","name":"read","arguments":""}}`, `{"type":"response.function_call_arguments.delta","item_id":"fc","output_index":0,"delta":"{\"input\":\""}`},
				`{"type":"response.function_call_arguments.delta","sequence_number":9,"item_id":"fc","output_index":0,"delta":"some words "}`
		}
		return []string{start, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg","role":"assistant","content":[]}}`, `{"type":"response.content_part.added","item_id":"msg","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}`},
			`{"type":"response.output_text.delta","sequence_number":9,"item_id":"msg","output_index":0,"content_index":0,"delta":"some words ","logprobs":[]}`
	case codec.Messages:
		start := `{"type":"message_start","message":{"id":"m","model":"m","usage":{"input_tokens":1}}}`
		if arguments {
			return []string{start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"read","input":{}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"input\":\""}}`},
				`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"some words "}}`
		}
		return []string{start, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`},
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some words "}}`
	default:
		return []string{`{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]},"index":0}],"modelVersion":"m","responseId":"g"}`},
			`{"candidates":[{"content":{"role":"model","parts":[{"text":"some words "}]},"index":0}],"modelVersion":"m","responseId":"g"}`
	}
}

// deltaCases calls f for every crossing and kind of delta; a freeform tool's arguments are taken out of their wrapper.
func deltaCases(t testing.TB, f func(name string, stream *crossing.Stream, delta *sse.Frame)) {
	eachCrossing(func(name string, surface codec.Format, model string) {
		_, format := targetOf(model)
		for _, kind := range []string{"text", "text under a stop sequence", "arguments", "freeform"} {
			body := storyRequest(surface, model)
			switch {
			case kind == "text under a stop sequence" && (format != codec.Responses || surface == codec.Responses), // emulated there only
				strings.HasPrefix(kind, "a") && (format == codec.Gemini || surface == codec.Gemini), // calls come whole, or leave whole
				kind == "freeform" && (surface != codec.Responses || format == codec.Gemini || model == gpt4):
				continue
			case kind == "text under a stop sequence":
				body = strings.Replace(body, `"stream":true`, `"stream":true,"stop":["END"],"stop_sequences":["END"]`, 1)
			}
			x, _, err := prepare(surface, model, body, streamed)
			if err != nil {
				t.Fatal(err)
			}
			stream := x.Stream()
			before, delta := deltas(t, format, strings.HasPrefix(kind, "a") || kind == "freeform")
			if kind == "freeform" {
				for i := range before {
					before[i] = strings.Replace(before[i], `"read"`, `"patch"`, 1)
				}
			}
			for _, frame := range before {
				stream.Frame(nil, &sse.Frame{Data: []byte(frame)})
			}
			f(name+"/"+kind, stream, &sse.Frame{Data: []byte(delta)})
			x.Release()
		}
	})
}

// Law 11.
func TestADeltaAllocatesNothing(t *testing.T) {
	deltaCases(t, func(name string, stream *crossing.Stream, delta *sse.Frame) {
		dst := make([]byte, 0, 4<<10)
		heard, _ := stream.Frame(dst, delta)
		if !bytes.Contains(heard, []byte("words")) {
			t.Fatalf("%s: the client hears %q", name, heard)
		}
		for range 64 { // buffers of whole items reach their size
			stream.Frame(dst, delta)
		}
		if n := testing.AllocsPerRun(500, func() { stream.Frame(dst, delta) }); n > 0 {
			t.Errorf("%s: %v allocations a delta", name, n)
		}
	})
}

func BenchmarkDelta(b *testing.B) {
	deltaCases(b, func(name string, stream *crossing.Stream, delta *sse.Frame) {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				stream.Frame(dst, delta)
			}
		})
	})
}
