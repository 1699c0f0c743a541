package search

import (
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Material is the source for the summary of a session.
type Material struct {
	Session *record.Session
	Summary Summary                // in the session's own words
	Written *record.SessionSummary // the present one by a model; nil: there is none
	Turns   []SpokenTurn           // oldest first; of a long session the first one and the newest
}

// SpokenTurn is what user and model said in a turn: without what clients insert, and without tool calls.
type SpokenTurn struct {
	Exchange        string
	User, Assistant string
}

// ReadMaterial reads a session; it returns nil if the session is gone, or nothing was said in it.
func ReadMaterial(st *store.Store, account record.AccountNumber, session string) (*Material, error) {
	d, err := readSession(st, account, session)
	return d.material(), err
}

// Material reads a session as [ReadMaterial] does.
func (read SessionReader) Material(session string) (*Material, error) {
	stored, err := read(session, sessionTurns)
	if err != nil {
		return nil, unlessNotFound(err)
	}
	return stored.document().material(), nil
}

func (d *sessionDocument) material() *Material {
	if d == nil {
		return nil
	}
	m := &Material{Session: d.session, Summary: d.summary, Written: d.written}
	for _, turn := range d.turns {
		m.Turns = append(m.Turns, SpokenTurn{turn.id, turn.said.User, turn.said.Assistant})
	}
	return m
}
