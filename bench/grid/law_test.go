package grid

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Laws 3 and 10: whatever a model says, the client gets the same from the stream as from the complete answer, including
// token counts, and the stream follows its grammar. The conversation then continues.
func TestStreamedAndCompleteAnswersAreEquivalent(t *testing.T) {
	fewerChecks(t, 30)
	h := build(t)
	all := crossings()
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		x := all[rapid.IntRange(0, len(all)-1).Draw(t, "crossing")]
		script := drawScript(t)
		heard := make(map[bool]said)
		for _, stream := range []bool{false, true} {
			c := &client{harness: h, surface: x.surface, model: x.to.model, stream: stream, extra: asksForReasoning[x.surface]}
			c.say("[[sim: " + script + " ; then ; text \"Done.\" ]]")
			heard[stream] = c.ask(ctx)
			if heard[stream].Error != "" {
				t.Fatalf("%s, %s, %s: %s\nsent: %s", x, form(stream), script, heard[stream].Error, h.upstreamBody())
			}
			if stream {
				if err := c.grammar(); err != nil {
					t.Fatalf("%s, %s: %v\n%s", x, script, err, c.wire.String())
				}
			}
			if len(c.open) == 0 {
				continue
			}
			c.answerCalls("done", false)
			if next := c.ask(ctx); next.Text != "Done." {
				t.Fatalf("%s, %s, %s: the conversation goes on with %+v\nsent: %s", x, form(stream), script, next, h.upstreamBody())
			}
		}
		complete, streamed := heard[false], heard[true]
		complete.Usage.Input, streamed.Usage.Input = complete.Usage.Input/100, streamed.Usage.Input/100 // "stream":true is a few tokens longer
		if diff := cmp.Diff(complete, streamed); diff != "" {
			t.Fatalf("%s, %s (-complete +streamed)\n%s", x, script, diff)
		}
	})
}

// fewerChecks keeps a slow law to n conversations, unless -rapid.checks asks for more.
func fewerChecks(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks == nil || checks.Value.String() != checks.DefValue {
		return
	}
	if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
}

// drawScript draws an answer.
func drawScript(t *rapid.T) string {
	words := rapid.StringOfN(rapid.RuneFrom([]rune("abc d\"\\\n\té漢😀<&")), 1, 24, -1)
	script := []string{fmt.Sprintf("size %d", rapid.IntRange(1, 9).Draw(t, "size"))}
	if rapid.Bool().Draw(t, "interleave") {
		script = append(script, "interleave")
	}
	if rapid.Bool().Draw(t, "unknown") {
		script = append(script, "unknown")
	}
	if rapid.Bool().Draw(t, "reasons") {
		script = append(script, "reasoning "+mustJSON("r"+words.Draw(t, "reasoning")))
	}
	for range rapid.IntRange(1, 4).Draw(t, "parts") {
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			script = append(script, "text "+mustJSON("t"+words.Draw(t, "text")))
		case 1:
			script = append(script, "call stat")
		case 2:
			script = append(script, "call read "+mustJSON(map[string]any{"path": words.Draw(t, "path"), "n": rapid.Int32().Draw(t, "n")}))
		case 3:
			script = append(script, "custom patch "+mustJSON(words.Draw(t, "input")))
		}
	}
	script = append(script, "usage input=5000 cached=4000 output=300 reasoning=20")
	return strings.Join(script, " ; ")
}
