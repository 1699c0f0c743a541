package grid

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var printGrid = flag.Bool("grid", false, "print the grid as a Markdown table")

// crossings are the pairs of a surface and another format. Equal formats pass byte for byte and have their own tests.
func crossings() []crossing {
	var all []crossing
	for _, surface := range []string{"chat", "responses", "messages", "gemini"} {
		for _, to := range upstreams {
			if surface != to.speak.String() {
				all = append(all, crossing{surface, to})
			}
		}
	}
	return all
}

func TestEveryCrossingCarriesEveryCase(t *testing.T) {
	if testing.Short() {
		t.Skip("many cases, one after the other")
	}
	h := build(t)
	var (
		mu    sync.Mutex
		cells = map[string]string{}
	)
	t.Run("grid", func(t *testing.T) {
		for _, x := range crossings() {
			t.Run(x.String(), func(t *testing.T) {
				t.Parallel()
				for _, s := range stories {
					cell := "✓"
					t.Run(s.name, func(t *testing.T) {
						if s.none != nil && s.none(x) != "" {
							cell = s.none(x)
							return
						}
						for _, stream := range []bool{false, true} {
							if s.play(t, h, x, stream); t.Failed() {
								cell = "✗"
							}
						}
					})
					mu.Lock()
					cells[s.name+x.String()] = cell
					mu.Unlock()
				}
			})
		}
	})
	if *printGrid {
		table(cells)
	}
}

// play runs the conversation of one cell and compares what the client understands.
func (s *story) play(t *testing.T, h *harness, x crossing, stream bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	want := slices.Clone(s.want)
	if s.but != nil {
		s.but(x, stream, want)
	}
	c := &client{harness: h, surface: x.surface, stream: stream, extra: s.extra[x.surface]}
	script := s.script
	if s.toResponses != "" && x.to.name == "responses" {
		script = s.toResponses
	}
	c.say("Please, as JSON if I say so. [[sim: "+script+" ]] Thank you.", s.with...)
	for turn := range want {
		c.model = x.to.model
		if turn == 0 && s.from != "" {
			c.model = upstreamOf(s.from).model
		}
		got := c.ask(ctx)
		if stream && c.wire.Len() > 0 && turn > 0 == (s.from != "") {
			if err := c.grammar(); err != nil {
				t.Errorf("streamed, answer %d: %v\n%s", turn+1, err, c.wire.String())
			}
		}
		if c.wire.Len() > 0 && turn > 0 == (s.from != "") {
			for _, problem := range c.published() {
				t.Errorf("%s, answer %d: %s\n%s", form(stream), turn+1, problem, c.wire.String())
			}
		}
		s.compare(t, stream, turn, want[turn], got)
		if t.Failed() {
			t.Logf("sent: %s", h.upstreamBody())
			return
		}
		c.answerCalls("done", s.results == "image")
		if turn == 0 && s.between != "" {
			c.instruct(s.between)
		}
	}
}

func (s *story) compare(t *testing.T, stream bool, turn int, want, got said) {
	t.Helper()
	if want.Usage == (counts{}) {
		if got.Error == "" && got.Usage.Input == 0 {
			t.Errorf("%s, answer %d: no usage", form(stream), turn+1)
		}
		got.Usage = counts{}
	}
	if want.Error != "" {
		// What breaks off before anything was sent, all complete answers among it, is an error with a status of 5xx.
		if want.Error == "broken off" && strings.HasPrefix(got.Error, "5") {
			return
		}
		if !strings.HasPrefix(got.Error, want.Error) {
			t.Errorf("%s, answer %d: error %q, want %q", form(stream), turn+1, got.Error, want.Error)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, answer %d (-want +got)\n%s", form(stream), turn+1, diff)
	}
}

func form(stream bool) string {
	if stream {
		return "streamed"
	}
	return "complete"
}

// table prints the grid: one row per case, one column per crossing.
func table(cells map[string]string) {
	var reasons []string
	out := os.Stdout
	fmt.Fprint(out, "| case |")
	for _, x := range crossings() {
		fmt.Fprintf(out, " %s |", x)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---|", len(crossings())))
	for _, s := range stories {
		fmt.Fprintf(out, "| %s |", s.name)
		for _, x := range crossings() {
			cell := cells[s.name+x.String()]
			if cell != "✓" && cell != "✗" {
				if !slices.Contains(reasons, cell) {
					reasons = append(reasons, cell)
				}
				cell = fmt.Sprintf("[%d]", slices.Index(reasons, cell)+1)
			}
			fmt.Fprintf(out, " %s |", cell)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out)
	for i, reason := range reasons {
		fmt.Fprintf(out, "[%d] %s.  \n", i+1, reason)
	}
}
