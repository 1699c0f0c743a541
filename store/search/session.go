package search

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// A session has its own document in addition to those of its turns: what was asked and done in it, step by step. So a query finds
// a session that has its words in different turns.
//
// These documents have their own account numbers in the lexical index, so that they count neither in the statistics nor among the
// hits of a search for turns.

// sessionSpace is added to the number of an account for the documents of its sessions.
const sessionSpace = 1 << 31

// sessionTurns is how many of the newest turns of a session are read, in addition to the first one.
const sessionTurns = 64

// sessionDocument is the text of a session, in its own words.
type sessionDocument struct {
	session *store.Session
	entries []store.TimelineEntry // from which it was made, oldest first
	summary Summary
	steps   []string     // goal and outcome of each turn, oldest first
	spoken  lexical.Said // the steps by speaker
	names   string
	facets  []lexical.Facet
	written *store.SessionSummary // nil: no model has written about it
}

// text returns the text by which a session is found.
func (d *sessionDocument) text() string {
	return cut(strings.Join(append([]string{d.session.Title}, d.said()...), "\n"), 2*maxSpoken)
}

// said returns the summary that a model has written of the session, if there is one, and its steps.
func (d *sessionDocument) said() []string {
	if d.written == nil {
		return d.steps
	}
	return append([]string{d.written.Text}, d.steps...)
}

// bySpeaker returns the text of a session for matching phrases and speakers: its title counts as the user's, and a model's summary as
// the assistant's.
func (d *sessionDocument) bySpeaker() lexical.Said {
	said := lexical.Said{User: d.session.Title + "\n" + d.spoken.User, Assistant: d.spoken.Assistant}
	if d.written != nil {
		said.Assistant += d.written.Text
	}
	return said
}

func (d *sessionDocument) lexical(account store.AccountNumber) lexical.Document {
	return lexical.Document{Account: uint32(account) | sessionSpace, ID: d.session.ID, Text: d.text(), Names: d.names, Facets: d.facets}
}

// readSession makes the document of a session; nil if the session does not exist or nothing was said in it.
func readSession(st *store.Store, number store.AccountNumber, id string) (*sessionDocument, error) {
	session, err := st.Feed().SessionAt(number, id)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	newest, err := st.Archive().Timeline(session.Account, id, store.TimelineQuery{Limit: sessionTurns, Descending: true})
	if err != nil {
		return nil, unlessNotFound(err)
	}
	entries := newest.Data
	slices.Reverse(entries)
	if newest.HasMore {
		first, err := st.Archive().Timeline(session.Account, id, store.TimelineQuery{Limit: 1})
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

// unlessNotFound returns err, or nil if it is [codec.KindNotFound].
func unlessNotFound(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}

func newSessionDocument(session *store.Session, entries []store.TimelineEntry) *sessionDocument {
	d := &sessionDocument{session: session, entries: entries}
	named := make(map[string]int)
	facets := make(map[lexical.Facet]bool)
	var user, assistant strings.Builder
	for i := range entries {
		e := &entries[i]
		turn := newDocument(e)
		if turn == nil {
			continue
		}
		for _, f := range turn.facets {
			facets[f] = true
		}
		s := summarize(e.Turn, turn)
		if step := strings.TrimSpace(s.Goal + "\n" + s.Done); step != "" {
			d.steps = append(d.steps, step)
			user.WriteString(s.Goal)
			user.WriteByte('\n')
			assistant.WriteString(s.Done)
			assistant.WriteByte('\n')
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
	if len(facets) == 0 {
		return nil
	}
	d.spoken = lexical.Said{User: user.String(), Assistant: assistant.String()}
	d.summary.Errors = d.summary.Errors[max(len(d.summary.Errors)-maxErrors, 0):]
	names := byCount(named)
	d.names = strings.Join(names[:min(len(names), 10*maxNames)], "\n")
	d.summary.Names = names[:min(len(names), maxNames)]
	for f := range facets {
		d.facets = append(d.facets, f)
	}
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
