package crossing_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/codectest"
	geminicodec "github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scrub"
)

// streams are the folders with what providers stream.
var streams = map[string]codec.ProviderCodec{
	"chat/testdata/stream": chat.Provider(), "responses/testdata/stream": responses.Provider(),
	"messages/testdata/stream_decode": messages.Provider(), "gemini/testdata/streams": geminicodec.Provider(),
}

// fixtures returns those of a folder by their paths.
func fixtures(t *testing.T, folder string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	return all
}

// outline is what a stream means without what it says.
func outline(p codec.ProviderCodec, frames []string) (all []string) {
	d := p.NewDecoder()
	for _, frame := range frames {
		for _, e := range codectest.Decode(d, frame) {
			all = append(all, fmt.Sprint(e.Kind, " ", e.Type, " ", e.Finish, " ", e.End, " ", e.Item, " ", e.Sub, " ", len(e.Raw) > 0, " ", len(e.Name) > 0, " ", e.Usage))
		}
	}
	return all
}

func TestAScrubbedStreamMeansTheSame(t *testing.T) {
	scrubbed := 0
	for folder, provider := range streams {
		for path, recorded := range fixtures(t, folder) {
			var frames []string
			var stream strings.Builder
			for _, frame := range codectest.Inputs(recorded) {
				name, data := "", frame
				if rest, named := strings.CutPrefix(frame, "@"); named {
					name, data, _ = strings.Cut(rest, " ")
				}
				if !strings.HasPrefix(data, "{") {
					continue // how it ended
				}
				frames = append(frames, frame)
				if name != "" {
					stream.WriteString("event: " + name + "\n")
				}
				stream.WriteString("data: " + data + "\n\n")
			}
			lines, err := scrub.Stream([]byte(stream.String()))
			if err != nil {
				continue // a fixture about what is no JSON
			}
			scrubbed++
			want, got := outline(provider, append(frames, "EOF")), outline(provider, codectest.Inputs(strings.Join(lines, "\n")))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-as it was +scrubbed):\n%s", path, diff)
			}
		}
	}
	if scrubbed < 80 {
		t.Errorf("only %d streams were scrubbed", scrubbed)
	}
}

// What real providers streamed, as mneme exchange export-fixture writes it, is in testdata/recorded of each format.
func TestWhatProvidersStreamedIsRead(t *testing.T) {
	for folder, provider := range streams {
		format, _, _ := strings.Cut(folder, "/")
		for path, recorded := range fixtures(t, format+"/testdata/recorded") {
			d := provider.NewDecoder()
			for _, frame := range codectest.Inputs(recorded) {
				for _, e := range codectest.Decode(d, frame) {
					if e.Kind == codec.EventError {
						t.Errorf("%s: %s is an error: %v", path, frame, e.Err)
					}
				}
			}
		}
	}
}
