package store

import (
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

func (g *commitGroup) link(account kv.AccountNumber, c record.Clue) (kv.SessionRef, bool) {
	id, ok := g.linkAt(record.AppendLinkKey(g.Key(), account, c))
	return kv.SessionRef{Account: account, ID: id}, ok
}

// linkAt returns the session that a link leads to.
func (g *commitGroup) linkAt(key []byte) (id kv.SessionID, ok bool) {
	value := g.Get(key)
	if len(value) != len(id) {
		return id, false
	}
	return kv.SessionID(value), true
}

// sessionAt returns the record of the exact session; nil if none is readable. A caller that changes it must put it.
func (g *commitGroup) sessionAt(ref kv.SessionRef) *record.StoredSession {
	if r := g.store.ahead.at(ref); r != nil {
		return r
	}
	if r, ok := g.decoded[ref]; ok {
		return r
	}
	value := g.Get(kv.SessionKey(ref.Account, ref.ID))
	if value == nil {
		return nil
	}
	r := new(record.StoredSession)
	if err := record.Decode(value, r); err != nil {
		g.store.log.Error("the record of a session cannot be read", "session", ref.ID.String(), "error", err)
		return nil
	}
	return r
}

// session returns a session's record, or that of the session it was merged into; nil if there is none.
func (g *commitGroup) session(ref kv.SessionRef) (*record.StoredSession, kv.SessionRef) {
	r, id := conversation.Follow(func(id kv.SessionID) *record.StoredSession {
		return g.sessionAt(kv.SessionRef{Account: ref.Account, ID: id})
	}, ref.ID)
	return r, kv.SessionRef{Account: ref.Account, ID: id}
}

// belongs returns the session of an exchange, even while it is being moved to another.
func (g *commitGroup) belongs(account kv.AccountNumber, id kv.ExchangeID) (*record.StoredSession, kv.SessionRef) {
	value := g.Get(kv.AppendExchangeKey(g.Key(), kv.SpaceBelongs, account, id))
	if len(value) != len(kv.SessionID{}) {
		return nil, kv.SessionRef{}
	}
	ref := kv.SessionRef{Account: account, ID: kv.SessionID(value)}
	return g.sessionAt(ref), ref
}

func (g *commitGroup) putSession(w *commit.Op, ref kv.SessionRef, r *record.StoredSession) {
	encoded := record.Append(buffer.Get(1<<10), r)
	g.Put(w, kv.AppendSessionKey(g.Room(), ref.Account, ref.ID), g.Keep(encoded))
	buffer.Put(encoded)
	g.decoded[ref] = r
}

// openSession finds or creates the session of an opening, and adds the exchange to it.
func (g *commitGroup) openSession(w *commit.Op, c *recorded, e *conversation.Evidence) {
	account := c.account
	if e.None() && !converses(e.Of.Surface) {
		return
	}
	r, ref, unheard := g.findSession(account, e)
	if r == nil && (e.Refused || e.Of.Auxiliary == record.AuxiliaryTokens || e.Auxiliary && len(e.Explicit) == 0) {
		return
	}
	if r == nil {
		r, ref = g.sharedSession(account, e)
	}
	fresh := r == nil
	if fresh {
		if ref.ID == (kv.SessionID{}) {
			ref = kv.SessionRef{Account: account, ID: kv.SessionID(g.store.ids.Next(e.Of.Started))}
		}
		g.Begin(ref)
		r = &record.StoredSession{Session: record.Session{
			ID: ref.ID.String(), Account: e.Of.Account, Created: e.Of.Started,
			Agent: e.Agent, Derived: len(e.Explicit) == 0,
		}, Unheard: unheard}
		for _, clue := range e.Parent {
			if parent, ok := g.link(account, clue); ok {
				r.Parent = parent.ID.String()
				break
			}
		}
		g.order(w, ref, r)
	}
	c.session, c.sessionName = ref.ID, r.ID
	before := r.Linked()
	if !e.Refused {
		g.linkSession(w, ref, r, e)
	}
	r.Exchanges++
	if e.Of.Started.After(r.Updated) {
		r.Updated = e.Of.Started
	}
	r.AddModel(e.Of.Model)
	r.NoteOrigin(e.Of.Client, e.Of.Project)
	if fresh || r.Linked() != before {
		g.putSession(w, ref, r)
	} else {
		g.countSession(w, ref, r)
	}
	g.Put(w, kv.AppendMemberKey(g.Room(), account, ref.ID, c.id), []byte{})
	g.PutID(w, kv.AppendExchangeKey(g.Room(), kv.SpaceBelongs, account, c.id), kv.TimeID(ref.ID))
}

// findSession weighs the evidence; nil means a new session. unheard reports that no session of the account has the same
// opening.
func (g *commitGroup) findSession(account kv.AccountNumber, e *conversation.Evidence) (r *record.StoredSession, ref kv.SessionRef, unheard bool) {
	for i, c := range e.Explicit {
		if r, ref := g.follow(account, c, e.Explicit[:i]); r != nil {
			return r, ref, false
		}
	}
	if len(e.Explicit) == 0 && e.Follows != (kv.SessionID{}) { // a link may be of an attempt that did not find the answer
		r, ref := g.sharedSession(account, e)
		return r, ref, false
	}
	if e.Response != "" {
		if r, ref := g.follow(account, record.Clue{Kind: record.ByResponse, Value: e.Response}, e.Explicit); r != nil {
			return r, ref, false
		}
	}
	if len(e.Explicit) > 0 {
		return nil, kv.SessionRef{}, false
	}
	if e.Reply != "" {
		if r, ref := g.follow(account, record.Clue{Kind: record.ByReply, Value: e.Reply}, nil); r != nil {
			return r, ref, false
		}
	}
	if e.Opening == "" {
		return nil, kv.SessionRef{}, false
	}
	ref, heard := g.link(account, record.Clue{Kind: record.ByOpening, Value: e.Opening})
	if !heard {
		return nil, kv.SessionRef{}, true
	}
	r, ref = g.session(ref)
	switch {
	case r == nil:
	case e.Reply != "" && !r.Replied: // the second turn, before the first one's answer was digested
		return r, ref, false
	case e.Reply == "" && r.Completed == 0: // the first turn again, after it failed
		return r, ref, false
	}
	return nil, kv.SessionRef{}, false // another conversation that opens with the same words
}

func (g *commitGroup) follow(account kv.AccountNumber, c record.Clue, stronger []record.Clue) (*record.StoredSession, kv.SessionRef) {
	ref, ok := g.link(account, c)
	if !ok {
		return nil, ref
	}
	r, ref := g.session(ref)
	if r == nil || !r.Accepts(stronger) {
		return nil, ref
	}
	return r, ref
}

// linkSession links an opening's evidence to its session, unless it leads elsewhere already.
func (g *commitGroup) linkSession(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, e *conversation.Evidence) {
	for _, c := range e.Explicit {
		if _, taken := g.link(ref.Account, c); taken || r.Known(c.Kind) != "" && r.Known(c.Kind) != c.Value {
			continue
		}
		*r.IDOf(c.Kind) = e.IDs[slices.Index(record.SessionKinds[:], c.Kind)]
		g.addLink(w, ref, r, c)
	}
	if len(e.Explicit) > 0 || e.Auxiliary {
		return
	}
	g.linkUnheard(w, ref, r, e)
	if e.Opening != "" && r.Exchanges == 0 {
		g.addLink(w, ref, r, record.Clue{Kind: record.ByOpening, Value: e.Opening})
	}
	if e.Reply != "" {
		g.linkReply(w, ref, r, e.Reply)
	}
}

// linkReply links the key of a conversation's opening and first answer, once there is one.
func (g *commitGroup) linkReply(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, reply string) {
	c := record.Clue{Kind: record.ByReply, Value: reply}
	if !r.Unheard || r.Replied { // otherwise the same opening had never been answered before, and looking for what does not exist is expensive
		if _, taken := g.link(ref.Account, c); taken {
			return
		}
	}
	r.Replied = true
	g.addLink(w, ref, r, c)
}

func (g *commitGroup) addLink(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, c record.Clue) {
	if key := record.LinkKey(ref.Account, c); r.KeepLink(key) {
		g.PutID(w, key, kv.TimeID(ref.ID))
	}
}

// closeSession counts an ended exchange in its session, and adds its digest or returns the change for the digester to
// work on.
func (g *commitGroup) closeSession(w *commit.Op, at kv.ExchangeRef, info *record.ExchangeInfo, digest change) (undigested *Change) {
	g.store.shipping.Add(g.Group, w, at)
	g.rollUp(w, at.Account, info)
	r, ref := g.belongs(at.Account, at.ID)
	if r == nil {
		return nil
	}
	r.Count(info, 1)
	r.Sketch(info, 1)
	g.linkResponse(w, ref, info)
	if g.store.opts.Digest == nil || info.Auxiliary != "" {
		g.putSession(w, ref, r)
		return nil
	}
	logged := g.changes.Assigned()
	g.countSession(w, ref, r)
	if digest == nil || !g.store.feed.Digested(ref) || digest(g, w) != nil {
		undigested = g.changes.NoteEnded(ref, at.ID)
	}
	if g.changes.Assigned() == logged { // after a crash the log does not lead to the session
		g.putSession(w, ref, r)
	}
	return undigested
}

// converses reports whether requests of a surface belong to a conversation.
func converses(surface string) bool {
	format, err := codec.ParseFormat(surface)
	return err != nil || format.Converses()
}

// linkResponse links the id of an answer to its session, on the surface whose requests name the answer that they
// continue: the other formats have no field for it.
func (g *commitGroup) linkResponse(w *commit.Op, ref kv.SessionRef, info *record.ExchangeInfo) {
	if key := conversation.AnswerLink(ref.Account, info); key != nil {
		g.PutID(w, key, kv.TimeID(ref.ID))
	}
}
