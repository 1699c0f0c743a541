package store

import (
	"bytes"
	"iter"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Session ids that contain a time are in the order in which the sessions began. In a cluster, a session that its client
// identifies gets an id without a time, so that all nodes give it the same one. A link of the kind byBegin, whose
// evidence is a [kv.SessionID.Position], keeps those sessions in order.

// sessionName returns the id that every node of a cluster gives the session of a clue.
func sessionName(account string, c clue) kv.SessionID {
	return kv.NamedSessionID(account, string(c.kind), c.value)
}

// sharedSession returns the id for a session that begins on a node of a cluster, and its record if there is one after
// all. The id is zero if other nodes could not derive it.
func (g *commitGroup) sharedSession(account kv.AccountNumber, e *evidence) (*sessionRecord, sessionRef) {
	ref := sessionRef{account, e.follows}
	switch {
	case g.store.opts.Node == 0:
		return nil, sessionRef{}
	case len(e.explicit) > 0:
		ref.id = sessionName(e.of.account, e.explicit[0])
	case ref.id == (kv.SessionID{}):
		return nil, ref
	}
	if r, at := g.session(ref); r != nil {
		return r, at
	}
	if g.sessionAt(ref) != nil { // it was merged into a session that is gone
		return nil, sessionRef{}
	}
	return nil, ref
}

// linkUnheard links the answer that a request continues, if another node of the cluster gave it: by it the centre finds
// what belongs together.
func (g *commitGroup) linkUnheard(w *operation, ref sessionRef, r *sessionRecord) {
	c := clue{byResponse, w.evidence.response}
	if c.value == "" || g.store.opts.Node == 0 {
		return
	}
	if _, taken := g.link(ref.account, c); !taken {
		g.addLink(w, ref, r, c)
	}
}

// beginLink returns the key for a session's place among the others.
func beginLink(account kv.AccountNumber, position kv.TimeID) []byte {
	return append(append(kv.SpaceKeyOf(kv.SpaceLink, account), byBegin), position[:]...)
}

// isBeginLink reports whether a link is one of [beginLink].
func isBeginLink(key []byte) bool {
	at := len(kv.SpaceKeyOf(kv.SpaceLink, 0))
	return len(key) == at+1+len(kv.TimeID{}) && key[at] == byBegin
}

// order records a new session's place among the others, if its id does not contain it.
func (g *commitGroup) order(w *operation, ref sessionRef, r *sessionRecord) {
	r.order(storedSessions{g, w, ref.account}, ref.account, ref.id)
}

func (r *sessionRecord) order(in sessions, account kv.AccountNumber, id kv.SessionID) {
	if !id.IsNamed() {
		return
	}
	key := beginLink(account, id.Position(r.Created))
	r.Links = append(r.Links, key)
	in.putLink(key, id)
}

// place returns the cursor of a session in the order of all; any other text is returned unchanged.
func (s *core) place(tx *badger.Txn, account kv.AccountNumber, text string) (string, error) {
	id, ok := kv.ParseSessionID(text)
	if !ok || !id.IsNamed() {
		return text, nil
	}
	r, err := s.getSession(tx, sessionRef{account, id})
	if err != nil {
		return "", err
	}
	for _, link := range r.Links {
		if isBeginLink(link) {
			return kv.TimeID(link[len(link)-len(kv.TimeID{}):]).Text(kv.SessionPrefix), nil
		}
	}
	return id.Position(r.Created).Text(kv.SessionPrefix), nil
}

// named returns the sessions whose ids have no time, within a window.
func (s *core) named(tx *badger.Txn, w *kv.Window, account kv.AccountNumber) iter.Seq2[kv.TimeID, kv.SessionID] {
	return func(yield func(kv.TimeID, kv.SessionID) bool) {
		w.Walk(tx, append(kv.SpaceKeyOf(kv.SpaceLink, account), byBegin), func(position kv.TimeID, item *badger.Item) bool {
			value, err := item.ValueCopy(nil)
			if err != nil || len(value) != len(kv.SessionID{}) {
				return true // a check finds it
			}
			return yield(position, kv.SessionID(value))
		})
	}
}

// eachSession visits the sessions within a window in the order in which they began, until visit returns false. The item
// is valid only during the call.
func (s *core) eachSession(tx *badger.Txn, w *kv.Window, account kv.AccountNumber, visit func(kv.SessionID, *badger.Item) bool) {
	next, stop := iter.Pull2(s.named(tx, w, account))
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
