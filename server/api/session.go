package api

import (
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Session is a conversation.
type Session struct {
	Object string `json:"object"` // "memory.session"
	record.Session
	*search.Beginning                        // of a single session, and with include=beginning
	Story             *recall.Story          `json:"story,omitempty"`   // of a single session, and with include=story
	Summary           *record.SessionSummary `json:"summary,omitempty"` // written by a model; of a single session, and in exports
}

// NewSession returns a session without its beginning and summary.
func NewSession(s *record.Session) Session { return Session{Object: "memory.session", Session: *s} }

// SessionChange changes those parts of a session that are not nil.
type SessionChange struct {
	Title *string  `json:"title,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Note  *string  `json:"note,omitempty"` // at most 4,000 bytes
}

// SessionMerge moves the exchanges of a session into another one.
type SessionMerge struct {
	Into string `json:"into"` // id
}

// SessionSplit moves an exchange, and all that began after it, into a new session.
type SessionSplit struct {
	Exchange string `json:"exchange"` // id
}

// Turn is an exchange of a session with what it added.
type Turn struct {
	Object string `json:"object"` // "memory.turn"
	record.TimelineEntry
	Opens bool `json:"opens,omitempty"` // it brings a person's own words, with which a round begins
	Ends  bool `json:"ends,omitempty"`  // its answer calls no tool, and ends the round
}

// NewTurn returns a turn with its place in the round.
func NewTurn(e *record.TimelineEntry) Turn {
	return Turn{Object: "memory.turn", TimelineEntry: *e, Opens: search.Opens(e.Turn), Ends: search.Ends(e.Turn)}
}
