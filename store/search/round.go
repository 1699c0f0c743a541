package search

import (
	"strings"

	"github.com/mnemeproxy/mneme/store/record"
)

// Round is what a person asked with all that followed: the steps of the agent, and the answer. It begins with the turn
// that brings the person's own words, not with text that a client weaves in or a tool returns, and ends with the answer
// that calls no tool.
type Round struct {
	Opened   string // the exchange that brings the person's words; "" if it is out of reach
	Answered string // the exchange that ends the round; "" if none does
	Asked    string // the person's words
	Said     string // the answer; without an end the last text of the model
	SaidIn   string // the exchange with that text
	Steps    int    // turns in between
}

// Bounds of reading a round.
const (
	mostSteps = 64 // turns before a turn, and after it
	fewSteps  = 4  // read first; then twice as many each time
)

// Opens reports whether a turn begins a round.
func Opens(t *record.Turn) bool { return t != nil && Asked(t) != "" }

// Ends reports whether a turn ends its round: the model says something and calls no tool of the client's.
func Ends(t *record.Turn) bool {
	if t == nil {
		return false
	}
	said := false
	for i := range t.Answer {
		for j := range t.Answer[i].Parts {
			switch p := &t.Answer[i].Parts[j]; {
			case p.Kind == "call" && p.CallID != "": // a provider's own tools have no id
				return false
			case p.Kind == "text":
				said = true
			}
		}
	}
	return said
}

// Asked returns the last words of a person's that a turn brings; "" if it brings none.
func Asked(t *record.Turn) string { return lastSpoken(t.Messages, "user") }

// Said returns the last text of the model in a turn.
func Said(t *record.Turn) string { return lastSpoken(t.Answer, "assistant") }

// ReadRound reads the round of a turn, which is in a session of the account. It reads as many turns as the round has, up to
// mostSteps on each side of the turn, at 50 to 100 µs each.
func ReadRound(from Timelines, account string, of *record.TimelineEntry) (r Round, err error) {
	if of.Turn == nil {
		return r, nil
	}
	session := of.Exchange.Session
	r.take(of)
	if r.Opened == "" && session != "" {
		err = walk(from, account, session, record.TimelineQuery{After: of.Exchange.ID, Descending: true}, func(e *record.TimelineEntry) bool {
			r.Steps++
			if Opens(e.Turn) {
				r.Opened, r.Asked = e.Exchange.ID, Asked(e.Turn)
			}
			return r.Opened == ""
		})
	}
	if r.Answered == "" && session != "" && err == nil {
		err = walk(from, account, session, record.TimelineQuery{After: of.Exchange.ID}, func(e *record.TimelineEntry) bool {
			if Opens(e.Turn) && !again(e.Turn, of.Turn) {
				return false
			}
			r.Steps++
			r.take(e)
			return r.Answered == ""
		})
	}
	return r, err
}

// take notes what a turn adds to the round.
func (r *Round) take(e *record.TimelineEntry) {
	if r.Opened == "" && Opens(e.Turn) {
		r.Opened, r.Asked = e.Exchange.ID, Asked(e.Turn)
	}
	if text := Said(e.Turn); text != "" {
		r.Said, r.SaidIn = text, e.Exchange.ID
	}
	if Ends(e.Turn) {
		r.Answered = e.Exchange.ID
	}
}

// again reports whether a turn asks what the one before asked: a client has repeated a request that failed.
func again(t, before *record.Turn) bool {
	return len(before.Answer) == 0 && Asked(t) == Asked(before)
}

// walk visits the turns of a session, at most mostSteps, until visit returns false.
func walk(from Timelines, account, session string, q record.TimelineQuery, visit func(*record.TimelineEntry) bool) error {
	left := mostSteps
	for q.Limit = fewSteps; left > 0; q.Limit = min(2*q.Limit, left) {
		page, err := from.Timeline(account, session, q)
		if err != nil {
			return err
		}
		for i := range page.Data {
			if e := &page.Data[i]; e.Turn != nil && !visit(e) {
				return nil
			}
		}
		if left -= len(page.Data); !page.HasMore || len(page.Data) == 0 {
			return nil
		}
		q.After = page.Data[len(page.Data)-1].Exchange.ID
	}
	return nil
}

// interruption begins the line that Claude Code puts before a person's words after that person has stopped it.
const interruption = "[Request interrupted by user"

// Own returns the person's own words in a user's text, without what the client puts there by itself; see [IsBoot].
func Own(text string) string {
	text = strings.TrimSpace(text)
	for strings.HasPrefix(text, interruption) {
		_, text, _ = strings.Cut(text, "\n")
		text = strings.TrimSpace(text)
	}
	if IsBoot(text) {
		return ""
	}
	return text
}
