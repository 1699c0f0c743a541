package writing

import (
	"log/slog"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/shipping"
	"github.com/mnemeproxy/mneme/store/record"
)

// Group is a group of operations with what they change together. It implements [commit.Rooms].
type Group struct {
	*commit.Group
	Readers
	Sessions *sessions.Writing
	Erases   bool // the group erases an exchange: readers forget what they have read

	log       *slog.Logger
	notes     []*OpenNote // of the exchanges that begin, one per account
	events    []groupEvent
	published []record.Event // room for them
}

// Readers follow what is committed. They are set before the writer runs.
type Readers struct {
	Feed     *feed.Feed
	Shipping *shipping.Log
	Notes    *notes.Notes
	Roster   *identity.Roster
	Events   *record.EventHub
}

// groupEvent tells subscribers about an operation, once it is committed.
type groupEvent struct {
	of *commit.Op
	record.Event
}

// NewGroup returns an empty group.
func NewGroup(o sessions.Options) *Group {
	group, writing := sessions.New(o)
	return &Group{Group: group, Sessions: writing, log: o.Log}
}

// Announce notes an event of an operation.
func (g *Group) Announce(o *commit.Op, e record.Event) {
	g.events = append(g.events, groupEvent{o, e})
}

// Before implements [commit.Rooms].
func (g *Group) Before() []commit.Entry {
	return g.Sessions.Changes.Records()
}

// Closing is a step that hands something over with the change that it has put into the log.
type Closing interface {
	commit.Step
	HandOver() // after the commit, before the change is announced
}

// Written implements [commit.Rooms].
func (g *Group) Written(version uint64, group []commit.Step, uncertain bool) {
	g.forgetErased()
	g.Sessions.Written(version, uncertain)
	for _, step := range group {
		if c, ok := step.(Closing); ok {
			c.HandOver()
		}
	}
	g.Sessions.Changes.Announce(true)
	g.Shipping.Announce()
	for _, step := range group {
		for _, r := range step.Records() {
			g.Roster.Note(r.Key)
		}
	}
	for _, e := range g.events {
		if e.of.Err == nil {
			g.published = append(g.published, e.Event)
		}
	}
	if len(g.published) > 0 {
		g.Events.Publish(g.published)
	}
}

// Failed implements [commit.Rooms].
func (g *Group) Failed() {
	g.forgetErased()
	g.Sessions.Changes.Announce(false)
}

// forgetErased makes readers forget what may have been erased.
func (g *Group) forgetErased() {
	if g.Erases {
		g.Notes.Forget()
	}
}

// Settled implements [commit.Rooms].
func (g *Group) Settled(forgotten bool) {
	g.Sessions.Settled(forgotten)
	for _, n := range g.notes {
		n.others = nil
	}
	clear(g.notes)
	g.notes = g.notes[:0]
	clear(g.events)
	g.events = g.events[:0]
	clear(g.published)
	g.published = g.published[:0]
	g.Erases = false
}

// CloseExchange counts an ended exchange, and adds its digest or returns the change in the log for the digester to work
// on.
func (g *Group) CloseExchange(o *commit.Op, at kv.ExchangeRef, info *record.ExchangeInfo, digest Change) (undigested *feed.Change) {
	g.Shipping.Add(g.Group, o, at)
	g.RollUp(o, at.Account, info)
	return g.Sessions.Close(o, at, info, func(ref kv.SessionRef) bool {
		return digest != nil && g.Feed.Digested(ref) && digest(g, o) == nil
	})
}
