package store

import (
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// storedSessions are those of an account in the store.
type storedSessions struct {
	g       *commitGroup
	w       *commit.Op
	account kv.AccountNumber
}

func (s storedSessions) At(id kv.SessionID) *record.StoredSession {
	return s.g.sessionAt(kv.SessionRef{Account: s.account, ID: id})
}

func (s storedSessions) Put(id kv.SessionID, r *record.StoredSession) {
	s.g.putSession(s.w, kv.SessionRef{Account: s.account, ID: id}, r)
}

func (s storedSessions) Link(key []byte) (id kv.SessionID, ok bool) {
	return s.g.linkAt(key)
}

func (s storedSessions) PutLink(key []byte, id kv.SessionID) { s.g.Put(s.w, key, slices.Clone(id[:])) }

func (s storedSessions) Unlink(key []byte) { s.g.Put(s.w, key, nil) }
