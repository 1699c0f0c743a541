package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// conversation is the turns of a session, as a store pages through them.
type conversation []record.TimelineEntry

func (c conversation) Timeline(_, _ string, q record.TimelineQuery) (page record.TimelinePage, err error) {
	for i := range c {
		switch id := c[i].Exchange.ID; {
		case q.After != "" && !q.Descending && id <= q.After, q.After != "" && q.Descending && id >= q.After:
		default:
			page.Data = append(page.Data, c[i])
		}
	}
	if q.Descending {
		slices.Reverse(page.Data)
	}
	if page.HasMore = len(page.Data) > q.Limit; page.HasMore {
		page.Data = page.Data[:q.Limit]
	}
	return page, nil
}

// say adds a turn. Steps are calls that the answer ends with.
func (c *conversation) say(user, assistant string, steps ...string) *record.TimelineEntry {
	t := &record.Turn{}
	if user != "" {
		t.Messages = append(t.Messages, record.Message{Role: "user", Parts: []record.Part{{Kind: "text", Text: user}}})
	} else {
		t.Messages = append(t.Messages, record.Message{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "c", Text: "ok"}}})
	}
	var parts []record.Part
	if assistant != "" {
		parts = append(parts, record.Part{Kind: "text", Text: assistant})
	}
	for _, step := range steps {
		parts = append(parts, record.Part{Kind: "call", CallID: "c", Name: step})
	}
	if len(parts) > 0 {
		t.Answer = []record.Message{{Role: "assistant", Parts: parts}}
	}
	*c = append(*c, record.TimelineEntry{Turn: t})
	e := &(*c)[len(*c)-1]
	e.Exchange.ID, e.Exchange.Session = fmt.Sprintf("exch_%04d", len(*c)), "sess_1"
	return e
}

func (c conversation) round(t *testing.T, place int) Round {
	t.Helper()
	r, err := ReadRound(c, "acme", &c[place])
	r.SaidIn = ""
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryTurnOfARoundLeadsToItsQuestionAndItsAnswer(t *testing.T) {
	var c conversation
	c.say("Why is the build red?", "Let me look.", "Bash")
	for range 30 {
		c.say("", "", "Read")
	}
	c.say("", "The lease is held too long.")
	c.say("Then fix it.", "On it.", "Edit")
	c.say("", "Fixed.")
	for place := range 34 {
		want := Round{Opened: "exch_0001", Answered: "exch_0032", Asked: "Why is the build red?", Said: "The lease is held too long."}
		if place > 31 {
			want = Round{Opened: "exch_0033", Answered: "exch_0034", Asked: "Then fix it.", Said: "Fixed."}
		}
		got := c.round(t, place)
		if steps := got.Steps; place < 32 && steps != 31 || place > 31 && steps != 1 {
			t.Errorf("turn %d: %d steps", place, steps)
		}
		if got.Steps = 0; got != want {
			t.Errorf("turn %d: %+v, want %+v", place, got, want)
		}
	}
}

func TestARoundBeginsWithAPersonsOwnWords(t *testing.T) {
	for name, woven := range map[string]string{
		"an environment": "<environment_context>\n<cwd>/x</cwd>\n</environment_context>",
		"a summary":      "This session is being continued from a previous conversation that ran out of context.",
		"a stop":         "[Request interrupted by user for tool use]",
		"a skill":        "Base directory for this skill: /home/ann/skills",
	} {
		var c conversation
		c.say("Why is the build red?", "", "Bash")
		c.say(woven, "", "Bash")
		c.say("", "The lease is held.")
		if got := c.round(t, 2); got.Opened != "exch_0001" || got.Asked != "Why is the build red?" {
			t.Errorf("%s begins a round: %+v", name, got)
		}
	}
	var c conversation
	c.say("Why is the build red?", "", "Bash")
	c.say("[Request interrupted by user]\nLook at the lease instead.", "It is held.")
	if got := c.round(t, 1); got.Asked != "Look at the lease instead." {
		t.Errorf("after a stop: %+v", got)
	}
	if got := c.round(t, 0); got.Answered != "" || got.Asked != "Why is the build red?" {
		t.Errorf("the question that was stopped: %+v", got)
	}
}

func TestAQuestionThatWasSentAgainHasTheAnswerOfTheSecondTry(t *testing.T) {
	var c conversation
	c.say("Why is the build red?", "")
	c.say("Why is the build red?", "The lease is held.")
	if got := c.round(t, 0); got.Answered != "exch_0002" {
		t.Errorf("%+v", got)
	}
}

func TestAnEndlessRoundIsReadOnlySoFar(t *testing.T) {
	var c conversation
	c.say("Why is the build red?", "", "Bash")
	for range 10 * mostSteps {
		c.say("", "Still looking.", "Read")
	}
	if got := c.round(t, 5*mostSteps); got.Opened != "" || got.Answered != "" || got.Steps > 2*mostSteps {
		t.Errorf("%+v", got)
	}
}

func TestASessionBeginsWithItsFirstQuestionAndEndsWithItsLastAnswer(t *testing.T) {
	var c conversation
	c.say("Why is the build red?", "Let me look.", "Bash")
	c.say("", "The lease is held. It was taken twice.")
	for range 3 {
		c.say("And now?", "Running it again.", "Bash")
	}
	for _, more := range []int{0, 2} {
		for range more {
			c.say("", "", "Bash")
		}
		b, err := ReadBeginning(c, "acme", "sess_1")
		if err != nil || b.Asked != "Why is the build red?" {
			t.Errorf("%+v, %v", b, err)
		}
		if more == 0 && b.Answered != "The lease is held." {
			t.Errorf("%+v", b)
		}
	}
	c.say("", strings.Repeat("word ", 100))
	if b, err := ReadBeginning(c, "acme", "sess_1"); err != nil || !strings.HasPrefix(b.Answered, "word word") || len(b.Answered) > maxSentence {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestTheFirstSentenceIsNotTheFenceOfCode(t *testing.T) {
	for text, want := range map[string]string{
		"```diff\n-  a\n+  b\n```\n\nThe secret exists since May. I changed nothing.": "The secret exists since May.",
		"```go\nfunc main() {}\n```": "func main() {}",
		"Run `make`. Then wait.":     "Run `make`.",
	} {
		if got := FirstSentence(text); got != want {
			t.Errorf("of %q it is %q, want %q", text, got, want)
		}
	}
}
