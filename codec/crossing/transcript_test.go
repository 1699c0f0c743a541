package crossing_test

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/codectest"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
)

var again = flag.Bool("ask", false, "have the simulated provider answer again, and rewrite the transcripts in testdata")

// story is what every transcript tells: a model thinks, says a word and calls two tools, one of them with free text
// where the client has such tools.
const story = `Fix it. [[sim: size 24 ; reasoning "The test is wrong." ; text "I will mend \"a.go\"." ; call read {"path":"a.go"} ; custom patch "*** Begin\n+ caf\u00e9 \"x\"\n" ; usage input=900 cached=768 output=60 reasoning=20 ]]`

var storyRequests = map[codec.Format]string{
	codec.Chat: `{"model":"MODEL","stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"low","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":STORY}],` +
		`"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}},{"type":"custom","custom":{"name":"patch"}}]}`,
	codec.Responses: `{"model":"MODEL","stream":true,"store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"},"instructions":"Be brief.","input":STORY,` +
		`"tools":[{"type":"namespace","name":"fs","tools":[{"type":"function","name":"read","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}]},{"type":"custom","name":"patch","format":{"type":"text"}}]}`,
	codec.Messages: `{"model":"MODEL","stream":true,"max_tokens":4000,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},"system":"Be brief.","messages":[{"role":"user","content":STORY}],` +
		`"tools":[{"name":"read","input_schema":{"type":"object","properties":{"path":{"type":"string"}}}},{"name":"patch","input_schema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]}`,
	codec.Gemini: `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","includeThoughts":true}},"contents":[{"role":"user","parts":[{"text":STORY}]}],` +
		`"tools":[{"functionDeclarations":[{"name":"read","parameters":{"type":"OBJECT","properties":{"path":{"type":"STRING"}}}},{"name":"patch","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]}]}`,
}

// streamed says what the path of some formats says.
func streamed(s *crossing.Settings) { s.Stream = true }

func storyRequest(surface codec.Format, model string) string {
	script := strings.ReplaceAll(story, `"`, `\"`)
	script = strings.ReplaceAll(script, `\\"`, `\\\"`)
	script = strings.ReplaceAll(strings.ReplaceAll(script, `\n`, `\\n`), `\u00e9`, `\\u00e9`)
	if surface == codec.Responses {
		script = strings.Replace(script, "call read {", "call read namespace=fs {", 1)
	}
	return strings.NewReplacer("MODEL", model, "STORY", `"`+script+`"`).Replace(storyRequests[surface])
}

var generatePaths = map[codec.Format]string{
	codec.Chat: "/v1/chat/completions", codec.Responses: "/v1/responses", codec.Messages: "/v1/messages",
	codec.Gemini: "/v1beta/models/MODEL:streamGenerateContent?alt=sse",
}

// ask has the simulated provider answer a request, and gives the data of the frames.
func ask(t *testing.T, url string, format codec.Format, model, body string) []string {
	t.Helper()
	path := strings.ReplaceAll(generatePaths[format], "MODEL", model)
	response, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s", response.Status, said)
	}
	return framesOf(t, response.Body)
}

func framesOf(t *testing.T, stream io.Reader) (frames []string) {
	splitter := sse.NewSplitter(4<<10, sse.MaxFrame)
	for {
		_, err := splitter.Read(stream)
		var f sse.Frame
		for splitter.Next(&f) {
			if !f.Comment {
				frames = append(frames, string(f.Data))
			}
		}
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTranscripts plays each crossing: what the client sends, with what the translation notes and the provider gets to
// read, and then, frame by frame, what the provider says and what the client hears of it.
func TestTranscripts(t *testing.T) {
	if *again {
		askAgain(t)
	}
	codectest.Each(t, "transcripts", func(t *testing.T, recorded string) string { return replay(t, path.Base(t.Name()), recorded) })
}

// replay plays the inputs of a transcript, whose name is that of its crossing.
func replay(t *testing.T, name, recorded string) string {
	from, model, _ := strings.Cut(name, "-to-")
	surface, err := codec.ParseFormat(from)
	if err != nil {
		t.Fatal(err)
	}
	var (
		x      *crossing.Exchange
		stream *crossing.Stream
	)
	return codectest.Replay(recorded, func(in string, s *codectest.Script) {
		if x == nil {
			prepared, sent, err := prepare(surface, model, in, streamed)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(prepared.Release)
			x, stream = prepared, prepared.Stream()
			s.Means("%s", x.Notes())
			s.Says(sent)
			return
		}
		if in != "EOF" {
			heard, _ := stream.Frame(nil, &sse.Frame{Data: []byte(in)})
			s.Says(string(heard))
			return
		}
		heard, complete := stream.End(nil, codec.EndEOF, nil)
		s.Says(string(heard))
		if !complete {
			s.Means("the answer is not complete")
		}
	})
}

// askAgain writes the inputs of all transcripts.
func askAgain(t *testing.T) {
	sim, err := provider.Start(provider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sim.Close() }()
	for _, surface := range surfaces {
		for _, model := range []string{gpt, gpt4, claude, gemini, deepseek} {
			_, format := targetOf(model)
			if format == surface {
				continue
			}
			request := storyRequest(surface, model)
			x, sent, err := prepare(surface, model, request, streamed)
			if err != nil {
				t.Fatal(err)
			}
			x.Release()
			text := "# provenance: simulated by bench/provider after docs/wire/translation.md\n> " + request + "\n> " + strings.Join(ask(t, sim.URL(), format, model, sent), "\n> ") + "\n> EOF\n"
			if err := os.WriteFile(filepath.Join("testdata", "transcripts", surface.String()+"-to-"+model+".txt"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// P31: the role stands in the first chunk, and in no other.
func TestAChatStreamNamesTheRoleOnce(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join("testdata", "transcripts", "chat-to-*.txt"))
	for _, path := range paths {
		recorded, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var heard []string
		for line := range strings.Lines(string(recorded)) {
			if chunk, ok := strings.CutPrefix(line, "< data: "); ok {
				heard = append(heard, chunk)
			}
		}
		if len(heard) == 0 || !strings.Contains(heard[0], `"role":"assistant"`) || strings.Contains(strings.Join(heard[1:], ""), `"role":`) {
			t.Errorf("%s: %d chunks, the first is %s", path, len(heard), heard)
		}
	}
}
