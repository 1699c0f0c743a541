package fuzz_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// A crossed is one crossing with a request that has tools of every kind, and a stream that its provider may send.
type crossed struct {
	name            string
	surface, format codec.Format
	target          codec.Target
	request         []byte
	frames          []string
}

// crossedTargets are targets with every option that changes the engine's behavior.
var crossedTargets = map[string]codec.Target{
	"gpt-4.1":          {Family: codec.FamilyOpenAI, Sampling: true, ForcedTools: true, StructuredOutput: true, Dialect: codec.Dialect{CustomTools: true, JSONSchema: true, DeveloperRole: true, StreamOptions: true, MaxTokensMember: "max_completion_tokens"}},
	"gpt-5.5":          {Family: codec.FamilyOpenAI, Thinking: codec.ThinkingEffort, Efforts: []string{"low", "high"}, ReasoningModel: true, ForcedTools: true, ImagesInResults: true},
	"claude-opus-4-8":  {Family: codec.FamilyAnthropic, Thinking: codec.ThinkingAdaptive, Efforts: []string{"low", "high"}, SystemInMessages: true, ImagesInResults: true, Breakpoints: true, MaxOutput: 64000},
	"gemini-3.8-flash": {Family: codec.FamilyGoogle, Thinking: codec.ThinkingLevel, NeedsSignature: true, CallIDs: true, Sampling: true, ForcedTools: true},
	"deepseek-v4-pro":  {Family: codec.FamilyOther, Sampling: true, Dialect: codec.Dialect{ReplayReasoning: true, SystemAsString: true, ThinkingSwitch: "thinking", StreamOptions: true, MaxTokensMember: "max_tokens"}},
}

var crossedFormats = map[string]codec.Format{
	"gpt-4.1": codec.Chat, "gpt-5.5": codec.Responses, "claude-opus-4-8": codec.Messages, "gemini-3.8-flash": codec.Gemini, "deepseek-v4-pro": codec.Chat,
}

var crossedSurfaces = map[string]codec.Format{"chat": codec.Chat, "responses": codec.Responses, "messages": codec.Messages, "gemini": codec.Gemini}

// crossings reads the transcripts of the crossings: one request and one stream each.
func crossings(t testing.TB) (all []crossed) {
	t.Helper()
	paths, err := filepath.Glob("../codec/crossing/testdata/transcripts/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		surface, model, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".txt"), "-to-")
		c := crossed{name: surface + " to " + model, surface: crossedSurfaces[surface], format: crossedFormats[model], target: crossedTargets[model]}
		c.target.Provider, c.target.Model = "p", model
		inputs := codectest.Inputs(string(text))
		c.request, c.frames = []byte(inputs[0]), inputs[1:len(inputs)-1] // the last is the end
		all = append(all, c)
	}
	return all
}

func (c *crossed) prepare(t failing) *crossing.Exchange {
	settings := &crossing.Settings{Target: c.target, Account: "a", Stream: true, Answer: codec.AnswerOptions{ID: "0123456789abcdefghjkmnpqrs", Model: "m", ShowReasoning: true, EstimatedInput: 9}}
	x, _, err := crossing.Prepare(nil, c.surface, c.format, c.request, settings)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return x
}

// failing is the common interface of tests and properties.
type failing interface {
	Fatalf(format string, args ...any)
}

// carry translates a stream, in reads of that size, as the server does.
func (c *crossed) carry(t failing, stream []byte, size int) []byte {
	x := c.prepare(t)
	defer x.Release()
	var (
		out        []byte
		translated = x.Stream()
		split      = sse.NewSplitter(512, 1<<20)
		frame      sse.Frame
		reader     = &pieces{rest: bytes.NewReader(stream), size: size}
	)
	for {
		_, err := split.Read(reader)
		for split.Next(&frame) {
			out, _ = translated.Frame(out, &frame)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return translated.Fail(out, codec.Errorf(codec.KindUpstream, "broken"))
		}
	}
	var residue []byte
	if split.Residue(&frame) {
		residue = frame.Data
	}
	out, complete := translated.End(out, codec.EndEOF, residue)
	if !complete {
		out = translated.Fail(out, codec.Errorf(codec.KindUpstream, "broken off"))
	}
	return out
}

func checkClientStream(surface codec.Format, stream []byte) error {
	switch surface {
	case codec.Chat:
		return grammar.Chat(stream)
	case codec.Responses:
		return grammar.Responses(stream)
	case codec.Gemini:
		return grammar.Gemini(stream)
	default:
		return grammar.Messages(stream)
	}
}

// Laws 1 and 2: the client's bytes do not depend on where the provider's are split, nor on how its frames are written.
func TestCrossedStreamsDoNotDependOnFraming(t *testing.T) {
	all := crossings(t)
	rapid.Check(t, func(t *rapid.T) {
		c := &all[rapid.IntRange(0, len(all)-1).Draw(t, "crossing")]
		plain := []byte("data: " + strings.Join(c.frames, "\n\ndata: ") + "\n\n")
		want := c.carry(t, plain, len(plain)+1)
		if err := checkClientStream(c.surface, want); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, want)
		}
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end")
		var written bytes.Buffer
		for _, frame := range c.frames {
			if rapid.Bool().Draw(t, "comment") {
				written.WriteString(": keep-alive" + end + end)
			}
			if kind := (struct{ Type string }{}); rapid.Bool().Draw(t, "named") && json.Unmarshal([]byte(frame), &kind) == nil && kind.Type != "" {
				written.WriteString("event: " + kind.Type + end)
			}
			written.WriteString("data:" + rapid.SampledFrom([]string{"", " "}).Draw(t, "space"))
			if first, rest, found := strings.Cut(frame, ","); found && frame[0] == '{' && rapid.Bool().Draw(t, "lines") {
				frame = first + "," + end + "data: " + rest
			}
			written.WriteString(frame + end + end)
		}
		if got := c.carry(t, written.Bytes(), rapid.IntRange(1, 90).Draw(t, "read")); !bytes.Equal(got, want) {
			t.Fatalf("%s:\n%s\nwritten plainly:\n%s", c.name, got, want)
		}
	})
}

// Laws 4 and 12: whatever frames arrive (missing, repeated, out of order, truncated, with unknown members, or errors),
// the client's stream is well-formed, and an incomplete one does not look complete.
func TestCrossedStreamsAreWellFormedWhateverComes(t *testing.T) {
	all := crossings(t)
	strange := []string{
		`{"type":"something.new","x":[{}]}`, `{"object":"new"}`, `{}`, `[]`, `null`, `"x"`, `1`, ``, `{"type":1}`, `{`,
		`{"error":{"message":"busy","type":"overloaded_error","code":503}}`, `{"type":"error","error":{"type":"api_error","message":"x"}}`, `[DONE]`,
		`{"choices":[{"index":0,"delta":{"content":"x","tool_calls":[{"index":3}]},"finish_reason":"new_reason"}]}`,
		`{"candidates":[{"finishReason":"NEW","content":{"parts":[{}]}}]}`, `{"type":"message_delta","delta":{"stop_reason":"new"}}`,
	}
	rapid.Check(t, func(t *rapid.T) {
		c := &all[rapid.IntRange(0, len(all)-1).Draw(t, "crossing")]
		var stream strings.Builder
		for _, frame := range c.frames {
			switch rapid.IntRange(0, 12).Draw(t, "fate") {
			case 0:
				continue
			case 1:
				stream.WriteString("data: " + frame + "\n\n")
			case 2:
				frame = rapid.SampledFrom(c.frames).Draw(t, "other")
			case 3:
				stream.WriteString("data: " + rapid.SampledFrom(strange).Draw(t, "strange") + "\n\n")
			case 4:
				if strings.HasPrefix(frame, "{") {
					frame = `{"strange":{"a":[1]},` + frame[1:]
				}
			}
			stream.WriteString("data: " + frame + "\n\n")
		}
		text := stream.String()
		if rapid.Bool().Draw(t, "cut") {
			text = text[:rapid.IntRange(0, len(text)).Draw(t, "at")]
		}
		out := c.carry(t, []byte(text), len(text)+1)
		if err := checkClientStream(c.surface, out); err != nil {
			t.Fatalf("%s: %v\nprovider:\n%s\nclient:\n%s", c.name, err, text, out)
		}
	})
}

// FuzzCrossedStream does the same with any bytes.
func FuzzCrossedStream(f *testing.F) {
	all := crossings(f)
	for i := range all {
		f.Add(byte(i), []byte("data: "+strings.Join(all[i].frames, "\n\ndata: ")+"\n\n"), uint16(50))
	}
	f.Fuzz(mutant.Each(200, func(t *testing.T, which byte, stream []byte, size uint16) {
		c := &all[int(which)%len(all)]
		whole := c.carry(t, stream, len(stream)+1)
		if cut := c.carry(t, stream, int(size)%100+1); !bytes.Equal(cut, whole) {
			t.Fatalf("%s, in reads of %d:\n%s\nwhole:\n%s", c.name, int(size)%100+1, cut, whole)
		}
		if err := checkClientStream(c.surface, whole); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, whole)
		}
	}))
}

// FuzzCrossedRequest translates any JSON that a client may send for every provider: it is refused with a reason, or
// becomes JSON, the same every time (law 7), without a state token (law 9).
func FuzzCrossedRequest(f *testing.F) {
	all := crossings(f)
	for i := range all {
		f.Add(all[i].request)
	}
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{"}},{"id":"a","type":"function","function":{"name":"f.g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"x"},{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}],"tools":[{"type":"function","function":{"name":"f.g"}},{"type":"function","function":{"name":"f_g"}}]}`,
		`{"model":"m","input":[{"type":"reasoning","summary":[],"encrypted_content":"sv1.o.AAAA"},{"type":"custom_tool_call","call_id":"c","name":"p","input":"x"},{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/png;base64,AA=="}]}],"tools":[{"type":"custom","name":"p"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"p"}]}]}`,
		`{"model":"m","max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"sv1.a.AAAA"},{"type":"tool_use","id":"x.y","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x.y","content":[{"type":"tool_reference","tool_name":"g"}]}]},{"role":"system","content":"s"}],"tools":[{"name":"f","input_schema":{}},{"name":"g","defer_loading":true,"input_schema":{"anyOf":[{}]}}],"stop_sequences":["\n","x"]}`,
		`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"user","parts":[{"text":"a"},{"inlineData":{"mimeType":"image/png","data":"AA=="}}]},{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"name":"f.g","args":{}},"thoughtSignature":"sv1.a.AAAA"},{"functionCall":{"name":"f_g"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f_g","response":{"output":"x"}}},{"functionResponse":{"id":"c","name":"f.g","response":[]}}]}],"tools":[{"functionDeclarations":[{"name":"f.g","parameters":{"type":"OBJECT","nullable":true}},{"name":"f_g"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f_g"]}},"generationConfig":{"responseSchema":{"type":"STRING"},"stopSequences":["x"]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(mutant.Each(200, func(t *testing.T, body []byte) {
		var envelope codec.Envelope
		if envelope.Read(body) != nil {
			return
		}
		for i := range all {
			c := &all[i]
			settings := &crossing.Settings{Target: c.target, Account: "a", Answer: codec.AnswerOptions{ID: "1", Model: "m"}}
			x, sent, err := crossing.Prepare(nil, c.surface, c.format, body, settings)
			if err != nil {
				var e *codec.Error
				if !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest || e.Message == "" {
					t.Fatalf("%s refuses with %v", c.name, err)
				}
				continue
			}
			notes := x.Notes()
			x.Release()
			if !json.Valid(sent) {
				t.Fatalf("%s is not JSON: %s", c.name, sent)
			}
			again, twice, err := crossing.Prepare(nil, c.surface, c.format, body, settings)
			if err != nil || !bytes.Equal(sent, twice) {
				t.Fatalf("%s, a second time: %v\n%s\n%s", c.name, err, sent, twice)
			}
			if again.Notes() != notes || strings.ContainsAny(notes, "\r\n") {
				t.Fatalf("%s notes %q and then %q", c.name, notes, again.Notes())
			}
			again.Release()
		}
	}))
}
