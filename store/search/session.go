package search

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// sessionTurns is how many of the newest turns of a session are read, in addition to the first one.
const sessionTurns = 64

// sessionDocument is a session with what was said in it, as far as it was read.
type sessionDocument struct {
	session *record.Session
	turns   []*document // oldest first
	summary Summary
	steps   []string               // goal and outcome of each turn, oldest first
	names   []string               // in its turns, the most frequent first
	written *record.SessionSummary // nil: no model has written about it
}

// said returns the summary that a model has written of the session, if there is one, and its steps.
func (d *sessionDocument) said() []string {
	if d.written == nil {
		return d.steps
	}
	return append([]string{d.written.Text}, d.steps...)
}

// bySpeaker returns the texts of a session for matching phrases and speakers: its title counts as the user's, and a model's summary as
// the assistant's.
func (d *sessionDocument) bySpeaker() []lexical.Said {
	about := lexical.Said{User: d.session.Title}
	if d.written != nil {
		about.Assistant = d.written.Text
	}
	said := []lexical.Said{about}
	for _, turn := range d.turns {
		said = append(said, turn.said)
	}
	return said
}

// readSession makes the document of a session; nil if the session does not exist or nothing was said in it.
func readSession(st *store.Store, number record.AccountNumber, id string) (*sessionDocument, error) {
	session, err := st.Feed().SessionAt(number, id)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	newest, err := st.Archive().Timeline(session.Account, id, record.TimelineQuery{Limit: sessionTurns, Descending: true})
	if err != nil {
		return nil, unlessNotFound(err)
	}
	entries := newest.Data
	slices.Reverse(entries)
	if newest.HasMore {
		first, err := st.Archive().Timeline(session.Account, id, record.TimelineQuery{Limit: 1})
		if err != nil {
			return nil, unlessNotFound(err)
		}
		entries = append(first.Data, entries...)
	}
	stored := StoredSession{Session: session, Turns: entries}
	if stored.Summary, err = st.Archive().SessionSummary(session.Account, id); err != nil {
		return nil, unlessNotFound(err)
	}
	return stored.document(), nil
}

// document makes the document of the session; nil if nothing was said in it.
func (s *StoredSession) document() *sessionDocument {
	d := &sessionDocument{session: s.Session, written: s.Summary}
	named := make(map[string]int)
	for i := range s.Turns {
		turn := newDocument(&s.Turns[i])
		if turn == nil {
			continue
		}
		d.turns = append(d.turns, turn)
		s := summarize(s.Turns[i].Turn, turn)
		if step := strings.TrimSpace(s.Goal + "\n" + s.Done); step != "" {
			d.steps = append(d.steps, step)
		}
		d.summary.Goal = cmp.Or(d.summary.Goal, s.Goal)
		d.summary.Done = cmp.Or(s.Done, d.summary.Done)
		for _, tool := range s.Tools {
			if !slices.Contains(d.summary.Tools, tool) && len(d.summary.Tools) < maxNames {
				d.summary.Tools = append(d.summary.Tools, tool)
			}
		}
		for _, name := range s.Names {
			named[name]++
		}
		d.summary.Errors = append(d.summary.Errors, s.Errors...)
	}
	if len(d.turns) == 0 {
		return nil
	}
	d.summary.Errors = d.summary.Errors[max(len(d.summary.Errors)-maxErrors, 0):]
	d.names = byCount(named)
	d.summary.Names = d.names[:min(len(d.names), maxNames)]
	return d
}

// byCount returns the names, most frequent first.
func byCount(counts map[string]int) []string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	return names
}
