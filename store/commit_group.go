package store

import (
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// commitGroup is a group of operations with what the store keeps beside their records: notes of open exchanges, and
// events. It implements [commit.Rooms] and [commit.Overlay].
type commitGroup struct {
	*commit.Group
	store   *core
	changes *feed.Log
	notes   []*openNote // of the exchanges that begin, one per account
	events  []groupEvent
	erased  bool // the group erases an exchange

	decoded   map[kv.SessionRef]*record.StoredSession // what Get returns. A caller that changes one must put it
	published []record.Event                          // room for them
	starting  bool                                    // the writer does not run yet
}

// groupEvent tells subscribers about an operation, once it is committed.
type groupEvent struct {
	of *commit.Op
	record.Event
}

// mostDecoded is how many decoded sessions are kept from group to group.
const mostDecoded = 1 << 10

func newCommitGroup(s *core) *commitGroup {
	g := &commitGroup{store: s, decoded: make(map[kv.SessionRef]*record.StoredSession)}
	g.Group = commit.NewGroup(s.db, &s.planner.Known, g)
	return g
}

// announce notes an event of an operation.
func (g *commitGroup) announce(w *commit.Op, e record.Event) {
	g.events = append(g.events, groupEvent{w, e})
}

// Space implements [commit.Overlay] for the records of sessions, see [sessionsAhead].
func (g *commitGroup) Space() byte { return kv.SpaceSession }

// Newer implements [commit.Overlay].
func (g *commitGroup) Newer(key []byte) []byte {
	if r := g.store.ahead.atKey(key); r != nil {
		return record.Encode(r)
	}
	return nil
}

// Replaced implements [commit.Overlay].
func (g *commitGroup) Replaced(key []byte) {
	if account, id, ok := kv.SplitSessionKey(key); ok {
		delete(g.decoded, kv.SessionRef{Account: account, ID: id})
	}
	g.store.ahead.leave(key)
}

// Before implements [commit.Rooms].
func (g *commitGroup) Before() []commit.Entry {
	return g.changes.Records()
}

// Written implements [commit.Rooms].
func (g *commitGroup) Written(version uint64, group []commit.Step, uncertain bool) {
	s := g.store
	g.forgetErased()
	if !uncertain {
		s.ahead.committed(version)
	}
	for _, step := range group {
		if c, ok := step.(*closing); ok && c.undigested != nil && c.Err == nil {
			c.undigested.Captured, c.captured = c.captured, nil
		}
	}
	g.changes.Announce(true)
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
	g.changes.Announce(false)
}

// forgetErased makes readers forget what may have been erased.
func (g *commitGroup) forgetErased() {
	if g.erased {
		g.store.notes.Forget()
	}
}

// Settled implements [commit.Rooms].
func (g *commitGroup) Settled(forgotten bool) {
	if len(g.decoded) > mostDecoded || forgotten {
		clear(g.decoded)
	}
	if forgotten {
		g.store.ahead.recount(g.store)
	}
	g.changes.Settled()
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
