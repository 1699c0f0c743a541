package store

import (
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/record"
)

// commitGroup is a group of operations with what the store keeps beside their records: notes of open exchanges, and
// events. It implements [commit.Rooms].
type commitGroup struct {
	*commit.Group
	*sessions.Writing
	store  *core
	notes  []*openNote // of the exchanges that begin, one per account
	events []groupEvent
	erased bool // the group erases an exchange

	published []record.Event // room for them
}

// groupEvent tells subscribers about an operation, once it is committed.
type groupEvent struct {
	of *commit.Op
	record.Event
}

func newCommitGroup(s *core) *commitGroup {
	group, writing := sessions.New(sessions.Options{
		DB: s.db, Known: &s.planner.Known, Records: s.sessions, IDs: &s.ids, Digests: s.opts.Digest != nil, Summaries: s.opts.Summaries, Log: s.log,
	})
	return &commitGroup{Group: group, Writing: writing, store: s}
}

// announce notes an event of an operation.
func (g *commitGroup) announce(w *commit.Op, e record.Event) {
	g.events = append(g.events, groupEvent{w, e})
}

// Before implements [commit.Rooms].
func (g *commitGroup) Before() []commit.Entry {
	return g.Changes.Records()
}

// Written implements [commit.Rooms].
func (g *commitGroup) Written(version uint64, group []commit.Step, uncertain bool) {
	s := g.store
	g.forgetErased()
	g.Writing.Written(version, uncertain)
	for _, step := range group {
		if c, ok := step.(*closing); ok && c.undigested != nil && c.Err == nil {
			c.undigested.Captured, c.captured = c.captured, nil
		}
	}
	g.Changes.Announce(true)
	s.shipping.Announce()
	for _, step := range group {
		for _, r := range step.Records() {
			s.roster.Note(r.Key)
		}
	}
	for _, e := range g.events {
		if e.of.Err == nil {
			g.published = append(g.published, e.Event)
		}
	}
	if len(g.published) > 0 {
		s.events.Publish(g.published)
	}
}

// Failed implements [commit.Rooms].
func (g *commitGroup) Failed() {
	g.forgetErased()
	g.Changes.Announce(false)
}

// forgetErased makes readers forget what may have been erased.
func (g *commitGroup) forgetErased() {
	if g.erased {
		g.store.notes.Forget()
	}
}

// Settled implements [commit.Rooms].
func (g *commitGroup) Settled(forgotten bool) {
	g.Writing.Settled(forgotten)
	for _, n := range g.notes {
		n.others = nil
	}
	clear(g.notes)
	g.notes = g.notes[:0]
	clear(g.events)
	g.events = g.events[:0]
	clear(g.published)
	g.published = g.published[:0]
	g.erased = false
}

// closeExchange counts an ended exchange, and adds its digest or returns the change for the digester to work on.
func (g *commitGroup) closeExchange(w *commit.Op, at kv.ExchangeRef, info *record.ExchangeInfo, digest change) (undigested *Change) {
	g.store.shipping.Add(g.Group, w, at)
	g.rollUp(w, at.Account, info)
	return g.Close(w, at, info, func(ref kv.SessionRef) bool {
		return digest != nil && g.store.feed.Digested(ref) && digest(g, w) == nil
	})
}
