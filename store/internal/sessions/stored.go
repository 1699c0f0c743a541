package sessions

import (
	"slices"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// stored are those of an account in the store.
type stored struct {
	g       *Writing
	w       *commit.Op
	account kv.AccountNumber
}

func (s stored) At(id kv.SessionID) *record.StoredSession {
	return s.g.At(kv.SessionRef{Account: s.account, ID: id})
}

func (s stored) Put(id kv.SessionID, r *record.StoredSession) {
	s.g.PutSession(s.w, kv.SessionRef{Account: s.account, ID: id}, r)
}

func (s stored) Link(key []byte) (id kv.SessionID, ok bool) {
	return s.g.LinkAt(key)
}

func (s stored) PutLink(key []byte, id kv.SessionID) { s.g.group.Put(s.w, key, slices.Clone(id[:])) }

func (s stored) Unlink(key []byte) { s.g.group.Put(s.w, key, nil) }

// Of returns the sessions of an account as the rules of conversations see them.
func (g *Writing) Of(w *commit.Op, account kv.AccountNumber) conversation.SessionStore {
	return stored{g, w, account}
}
