package provider_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// One script says the same in every format, streamed and complete, as the official SDKs understand it.
func TestScriptMeansTheSameInEveryFormat(t *testing.T) {
	tests := []struct {
		name   string
		script string
		want   said
		// what a format says differently, because it has no slot for it or another convention
		but map[string]func(*said)
	}{
		{name: "text", script: `text "Hello, world."`, want: said{Text: "Hello, world.", Stop: "end"}},
		{name: "empty answer", script: `empty`, want: said{Stop: "end"}},
		{
			name:   "unicode in small deltas",
			script: `size 1 ; text "e\u0301 \ud83d\ude00 漢字 \u0000 \"\\\n"`,
			want:   said{Text: "e\u0301 😀 漢字 \x00 \"\\\n", Stop: "end"},
		},
		{
			name:   "surrogate pairs as escapes",
			script: `split-surrogates ; size 100 ; text "a😀b"`,
			want:   said{Text: "a😀b", Stop: "end"},
		},
		{name: "one call", script: `call read {"path":"a.go"}`, want: said{Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"}},
		{name: "call without arguments", script: `call stat`, want: said{Calls: []string{`stat {}`}, Stop: "calls"}},
		{
			name:   "parallel calls",
			script: `call read {"path":"a.go"} ; call stat {}`,
			want:   said{Calls: []string{`read {"path":"a.go"}`, `stat {}`}, Stop: "calls"},
		},
		{
			name:   "parallel calls with interleaved fragments",
			script: `interleave ; size 3 ; call read {"path":"a.go"} ; call read {"path":"b.go"} ; call stat`,
			want:   said{Calls: []string{`read {"path":"a.go"}`, `read {"path":"b.go"}`, `stat {}`}, Stop: "calls"},
		},
		{
			name:   "text around calls",
			script: `text "before " ; call read {} ; text "after"`,
			want:   said{Text: "before after", Calls: []string{`read {}`}, Stop: "calls"},
		},
		{
			name:   "freeform call",
			script: `custom patch "*** \"Begin\"\n"`,
			want:   said{Calls: []string{"patch=*** \"Begin\"\n"}, Stop: "calls"},
			but: map[string]func(*said){
				"deepseek": wrapPatch, "messages": wrapPatch, "gemini": wrapPatch,
			},
		},
		{
			name:   "call into a namespace",
			script: `call sleep {"ms":5} namespace=clock`,
			want:   said{Calls: []string{`clock__sleep {"ms":5}`}, Stop: "calls"},
			but:    map[string]func(*said){"responses": func(s *said) { s.Calls = []string{`clock/sleep {"ms":5}`} }},
		},
		{
			name:   "reasoning",
			script: `reasoning "Think first." ; text "Then speak."`,
			want:   said{Reasoning: "Think first.", Text: "Then speak.", Stop: "end", State: 1},
			but:    map[string]func(*said){"chat": hidden, "deepseek": stateless},
		},
		{
			name:   "reasoning before a call",
			script: `reasoning "Look." ; call read {"path":"a.go"}`,
			want:   said{Reasoning: "Look.", Calls: []string{`read {"path":"a.go"}`}, Stop: "calls", State: 1},
			but:    map[string]func(*said){"chat": hidden, "deepseek": stateless},
		},
		{
			name:   "redacted reasoning",
			script: `redacted ; text "Done."`,
			want:   said{Text: "Done.", Stop: "end", State: 1},
			but:    map[string]func(*said){"chat": stateless, "deepseek": stateless},
		},
		{name: "stop sequence", script: `text "up to" ; stop sequence "END"`, want: said{Text: "up to", Stop: "end"}},
		{name: "output limit", script: `text "cut off he" ; stop length`, want: said{Text: "cut off he", Stop: "length"}},
		{name: "full context", script: `text "no room" ; stop-at context`, want: said{Text: "no room", Stop: "length"}},
		{
			name:   "output limit in an open call",
			script: `text "t" ; call read {"path":"abc"} ; stop call`,
			want:   said{Text: "t", Calls: []string{`read {"path"`}, Stop: "length"},
			but: map[string]func(*said){
				"messages": func(s *said) { s.Calls = []string{`read {}`} }, // the SDK drops what is no whole object
				"gemini":   func(s *said) { s.Calls, s.State = nil, 0 },     // calls come whole or not at all
			},
		},
		{
			name:   "refusal",
			script: `refuse "I would rather not."`,
			want:   said{Refusal: "I would rather not.", Stop: "end"},
			but: map[string]func(*said){
				"messages": func(s *said) { s.Text, s.Refusal, s.Stop = s.Refusal, "", "filter" },
				"gemini":   func(s *said) { s.Refusal, s.Stop = "", "filter" }, // the SDK drops finishMessage
			},
		},
		{name: "content filter", script: `text "half" ; stop filter`, want: said{Text: "half", Stop: "filter"}},
		{name: "blocked prompt", script: `block`, want: said{Stop: "filter"}, but: map[string]func(*said){"gemini": stateless}},
		{
			name:   "token counts",
			script: `text "hi" ; usage input=100 cached=64 output=20 reasoning=7`,
			want:   said{Text: "hi", Stop: "end", Usage: counts{100, 64, 20, 7}},
		},
		{
			name:   "search with a citation",
			script: `search "go release" url=https://go.dev ; text "Go 1.26 is out." ; cite https://go.dev/doc "Go"`,
			want:   said{Text: "Go 1.26 is out.", Cited: []string{"https://go.dev/doc"}, Stop: "end"},
		},
		{
			name:   "unknown events and members",
			script: `unknown ; text "still here" ; call stat {}`,
			want:   said{Text: "still here", Calls: []string{`stat {}`}, Stop: "calls"},
		},
		{name: "keep-alives", script: `ping every=1 ; size 2 ; text "still here"`, want: said{Text: "still here", Stop: "end"}},
		{name: "line ends with CR", script: `crlf ; text "framed"`, want: said{Text: "framed", Stop: "end"}},
		{name: "one byte per write", script: `one-byte ; text "dripping"`, want: said{Text: "dripping", Stop: "end"}},
		{name: "early hints", script: `early-hints ; text "at last"`, want: said{Text: "at last", Stop: "end"}},
		{name: "many events", script: `events 200 ; size 12`, want: said{Text: strings.Repeat("the quick brown fox jumps over the lazy dog and finds its home; ", 40)[:2400], Stop: "end"}},
	}
	server := start(t, provider.Options{Strict: true})
	for _, test := range tests {
		for _, s := range speakers {
			want := test.want
			if s.name == "gemini" {
				want.State = 1 // Gemini 3 signs every answer
			}
			if change := test.but[s.name]; change != nil {
				change(&want)
			}
			t.Run(test.name+"/"+s.name, func(t *testing.T) {
				prompt := "Please. [[sim: " + test.script + " ]] Thank you."
				complete, err := s.complete(context.Background(), server.URL(), prompt)
				if err != nil {
					t.Fatal("complete:", err)
				}
				streamed, err := s.streamed(context.Background(), server.URL(), prompt)
				if err != nil {
					t.Fatal("streamed:", err)
				}
				for form, got := range map[string]said{"complete": complete, "streamed": streamed} {
					if want.Usage == (counts{}) {
						got.Usage = counts{}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got)\n%s", form, diff)
					}
				}
			})
		}
	}
}

func wrapPatch(s *said) { s.Calls = []string{`patch {"input":"*** \"Begin\"\n"}`} }

// hidden: OpenAI shows no reasoning in chat.
func hidden(s *said) { s.Reasoning, s.State = "", 0 }

// stateless: the format has no slot for opaque state.
func stateless(s *said) { s.State = 0 }
