package transcript_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store/record"
)

// turnOf is a turn that asks and is answered with words.
func turnOf(id, parent string, known int, asks, answer string) *record.TimelineEntry {
	e := &record.TimelineEntry{Turn: &record.Turn{Exchange: id, Parent: parent, Known: known}}
	e.Exchange.ID, e.Exchange.Outcome = id, record.OutcomeComplete
	for word := range strings.FieldsSeq(asks) {
		e.Turn.Messages = append(e.Turn.Messages, record.Message{Role: "user", Parts: []record.Part{{Kind: "text", Text: word}}})
	}
	if answer != "" {
		e.Turn.Answer = []record.Message{{Role: "assistant", Parts: []record.Part{{Kind: "text", Text: answer}}}}
	}
	return e
}

func failed(e *record.TimelineEntry) *record.TimelineEntry {
	e.Exchange.Outcome = record.OutcomeUpstreamError
	return e
}

func branched(e *record.TimelineEntry) *record.TimelineEntry {
	e.Turn.Branch = true
	return e
}

// What was said before a request that failed, was asked again or was taken back is told once, with the answer that the
// conversation went on with.
func TestABranchHasWhatItsConversationWentOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		turns      []*record.TimelineEntry
		unanswered bool
		want       string
	}{
		"straight":                             {[]*record.TimelineEntry{turnOf("a", "", 0, "q1", "a1"), turnOf("b", "a", 2, "q2", "a2")}, false, "q1 a1 q2 a2"},
		"a client that drops messages":         {[]*record.TimelineEntry{turnOf("a", "", 0, "q1 note", "a1"), turnOf("b", "a", 2, "q2", "a2")}, false, "q1 note a1 q2 a2"},
		"a request that failed":                {[]*record.TimelineEntry{failed(turnOf("a", "", 0, "q1", "")), turnOf("b", "a", 1, "q2", "a2")}, false, "q1 q2 a2"},
		"a request that failed and was resent": {[]*record.TimelineEntry{failed(turnOf("a", "", 0, "q1", "")), branched(turnOf("b", "a", 1, "", "a1"))}, false, "q1 a1"},
		"an answer that broke off, left out":   {[]*record.TimelineEntry{failed(turnOf("a", "", 0, "q1", "par")), turnOf("b", "a", 1, "q2", "a2")}, false, "q1 q2 a2"},
		"an answer that broke off, sent back":  {[]*record.TimelineEntry{failed(turnOf("a", "", 0, "q1", "par")), turnOf("b", "a", 2, "q2", "a2")}, false, "q1 par q2 a2"},
		"another answer asked for":             {[]*record.TimelineEntry{turnOf("a", "", 0, "q1", "a1"), branched(turnOf("b", "a", 1, "", "a2"))}, false, "q1 a2"},
		"a question taken back":                {[]*record.TimelineEntry{turnOf("a", "", 0, "q1 q2", "a1"), branched(turnOf("b", "a", 1, "q3", "a3"))}, false, "q1 q3 a3"},
		"a second way from an answer":          {[]*record.TimelineEntry{turnOf("a", "", 0, "q1", "a1"), turnOf("b", "a", 2, "q2", "a2"), branched(turnOf("c", "a", 2, "q3", "a3"))}, false, "q1 a1 q3 a3"},
		"a last question that failed":          {[]*record.TimelineEntry{turnOf("a", "", 0, "q1", "a1"), failed(turnOf("b", "a", 2, "q2", "par"))}, false, "q1 a1"},
		"a last question to be answered":       {[]*record.TimelineEntry{turnOf("a", "", 0, "q1", "a1"), failed(turnOf("b", "a", 2, "q2", "par"))}, true, "q1 a1 q2"},
		"nothing was answered":                 {[]*record.TimelineEntry{failed(turnOf("a", "", 0, "q1", ""))}, false, ""},
	} {
		b := transcript.Branch{Unanswered: c.unanswered}
		for _, e := range c.turns {
			b.Note(e)
		}
		var said []string
		for _, e := range c.turns {
			if part := b.Part(e); part != nil {
				for _, m := range append(part.Messages, part.Answer...) {
					said = append(said, m.Parts[0].Text)
				}
			}
		}
		if got := strings.Join(said, " "); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
}
