package sessions

import (
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Session ids that contain a time are in the order in which the sessions began. In a cluster, a session that its client
// identifies gets an id without a time, so that all nodes give it the same one. A link of the kind byBegin, whose
// evidence is a [kv.SessionID.Position], keeps those sessions in order.

// sharedSession returns the id for a session that begins on a node of a cluster, and its record if there is one after
// all. The id is zero if other nodes could not derive it.
func (g *Writing) sharedSession(account kv.AccountNumber, e *conversation.Evidence) (*record.StoredSession, kv.SessionRef) {
	ref := kv.SessionRef{Account: account, ID: e.Follows}
	switch {
	case g.node == 0:
		return nil, kv.SessionRef{}
	case len(e.Explicit) > 0:
		ref.ID = record.SessionName(e.Of.Account, e.Explicit[0])
	case ref.ID == (kv.SessionID{}):
		return nil, ref
	}
	if r, at := g.Session(ref); r != nil {
		return r, at
	}
	if g.At(ref) != nil { // it was merged into a session that is gone
		return nil, kv.SessionRef{}
	}
	return nil, ref
}

// linkUnheard links the answer that a request continues, if another node of the cluster gave it: by it the centre finds
// what belongs together.
func (g *Writing) linkUnheard(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, e *conversation.Evidence) {
	c := record.Clue{Kind: record.ByResponse, Value: e.Response}
	if c.Value == "" || g.node == 0 {
		return
	}
	if _, taken := g.link(ref.Account, c); !taken {
		g.addLink(w, ref, r, c)
	}
}

// order records a new session's place among the others, if its id does not contain it.
func (g *Writing) order(w *commit.Op, ref kv.SessionRef, r *record.StoredSession) {
	conversation.PutInOrder(stored{g, w, ref.Account}, ref.Account, ref.ID, r)
}
