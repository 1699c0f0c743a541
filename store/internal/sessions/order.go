package sessions

import (
	"bytes"
	"iter"

	"github.com/dgraph-io/badger/v4"

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

// Place returns the cursor of a session in the order of all; any other text is returned unchanged.
func (a *Records) Place(tx *badger.Txn, account kv.AccountNumber, text string) (string, error) {
	id, ok := kv.ParseSessionID(text)
	if !ok || !id.IsNamed() {
		return text, nil
	}
	r, err := a.Get(tx, kv.SessionRef{Account: account, ID: id})
	if err != nil {
		return "", err
	}
	for _, link := range r.Links {
		if record.IsBeginLink(link) {
			return kv.TimeID(link[len(link)-len(kv.TimeID{}):]).Text(kv.SessionPrefix), nil
		}
	}
	return id.Position(r.Created).Text(kv.SessionPrefix), nil
}

// named returns the sessions whose ids have no time, within a window.
func (a *Records) named(tx *badger.Txn, w *kv.Window, account kv.AccountNumber) iter.Seq2[kv.TimeID, kv.SessionID] {
	return func(yield func(kv.TimeID, kv.SessionID) bool) {
		w.Walk(tx, append(kv.SpaceKeyOf(kv.SpaceLink, account), record.ByBegin), func(position kv.TimeID, item *badger.Item) bool {
			value, err := item.ValueCopy(nil)
			if err != nil || len(value) != len(kv.SessionID{}) {
				return true // a check finds it
			}
			return yield(position, kv.SessionID(value))
		})
	}
}

// Each visits the sessions within a window in the order in which they began, until visit returns false. The item
// is valid only during the call.
func (a *Records) Each(tx *badger.Txn, w *kv.Window, account kv.AccountNumber, visit func(kv.SessionID, *badger.Item) bool) {
	next, stop := iter.Pull2(a.named(tx, w, account))
	defer stop()
	position, name, some := next()
	going := true
	visitNamed := func() {
		if item, err := tx.Get(kv.SessionKey(account, name)); err == nil {
			going = visit(name, item)
		}
		position, name, some = next()
	}
	timed := w.Below(kv.FirstNamed)
	timed.Walk(tx, kv.SpaceKeyOf(kv.SpaceSession, account), func(id kv.TimeID, item *badger.Item) bool {
		for going && some && bytes.Compare(position[:], id[:]) < 0 != w.Backwards {
			visitNamed()
		}
		going = going && visit(kv.SessionID(id), item)
		return going
	})
	for going && some {
		visitNamed()
	}
}
