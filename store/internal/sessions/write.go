package sessions

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

func (g *Writing) link(account kv.AccountNumber, c record.Clue) (kv.SessionRef, bool) {
	id, ok := g.LinkAt(record.AppendLinkKey(g.group.Key(), account, c))
	return kv.SessionRef{Account: account, ID: id}, ok
}

// LinkAt returns the session that a link leads to.
func (g *Writing) LinkAt(key []byte) (id kv.SessionID, ok bool) {
	value := g.group.Get(key)
	if len(value) != len(id) {
		return id, false
	}
	return kv.SessionID(value), true
}

// At returns the record of the exact session; nil if none is readable. A caller that changes it must put it.
func (g *Writing) At(ref kv.SessionRef) *record.StoredSession {
	if r := g.ahead.at(ref); r != nil {
		return r
	}
	if r, ok := g.decoded[ref]; ok {
		return r
	}
	value := g.group.Get(kv.SessionKey(ref.Account, ref.ID))
	if value == nil {
		return nil
	}
	r := new(record.StoredSession)
	if err := record.Decode(value, r); err != nil {
		g.log.Error("the record of a session cannot be read", "session", ref.ID.String(), "error", err)
		return nil
	}
	return r
}

// Session returns a session's record, or that of the session it was merged into; nil if there is none.
func (g *Writing) Session(ref kv.SessionRef) (*record.StoredSession, kv.SessionRef) {
	r, id := conversation.Follow(func(id kv.SessionID) *record.StoredSession {
		return g.At(kv.SessionRef{Account: ref.Account, ID: id})
	}, ref.ID)
	return r, kv.SessionRef{Account: ref.Account, ID: id}
}

// FollowMerged is [record.Selection.Follow] in a commit: no session is merged before the commit has ended.
func (g *Writing) FollowMerged(account kv.AccountNumber, sel record.Selection) record.Selection {
	return sel.Follow(func(session string) string {
		id, _ := kv.ParseSessionID(session)
		if r := g.At(kv.SessionRef{Account: account, ID: id}); r != nil {
			return r.Merged
		}
		return ""
	})
}

// Belongs returns the session of an exchange, even while it is being moved to another.
func (g *Writing) Belongs(account kv.AccountNumber, id kv.ExchangeID) (*record.StoredSession, kv.SessionRef) {
	value := g.group.Get(kv.AppendExchangeKey(g.group.Key(), kv.SpaceBelongs, account, id))
	if len(value) != len(kv.SessionID{}) {
		return nil, kv.SessionRef{}
	}
	ref := kv.SessionRef{Account: account, ID: kv.SessionID(value)}
	return g.At(ref), ref
}

// PutSession stores the record of a session with an operation.
func (g *Writing) PutSession(w *commit.Op, ref kv.SessionRef, r *record.StoredSession) {
	encoded := record.Append(buffer.Get(1<<10), r)
	g.group.Put(w, kv.AppendSessionKey(g.group.Room(), ref.Account, ref.ID), g.group.Keep(encoded))
	buffer.Put(encoded)
	g.decoded[ref] = r
}

// Open finds or creates the session of an opening, and adds the exchange to it.
func (g *Writing) Open(w *commit.Op, at kv.ExchangeRef, e *conversation.Evidence) (session kv.SessionID, name string) {
	account := at.Account
	if e.None() && !converses(e.Of.Surface) {
		return session, ""
	}
	r, ref, unheard := g.findSession(account, e)
	if r == nil && (e.Refused || e.Of.Auxiliary == record.AuxiliaryTokens || e.Auxiliary && len(e.Explicit) == 0) {
		return session, ""
	}
	if r == nil {
		r, ref = g.sharedSession(account, e)
	}
	fresh := r == nil
	if fresh {
		if ref.ID == (kv.SessionID{}) {
			ref = kv.SessionRef{Account: account, ID: kv.SessionID(g.ids.Next(e.Of.Started))}
		}
		g.group.Begin(ref)
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
		g.PutSession(w, ref, r)
	} else {
		g.Count(w, ref, r)
	}
	g.group.Put(w, kv.AppendMemberKey(g.group.Room(), account, ref.ID, at.ID), []byte{})
	g.group.PutID(w, kv.AppendExchangeKey(g.group.Room(), kv.SpaceBelongs, account, at.ID), kv.TimeID(ref.ID))
	return ref.ID, r.ID
}

// findSession weighs the evidence; nil means a new session. unheard reports that no session of the account has the same
// opening.
func (g *Writing) findSession(account kv.AccountNumber, e *conversation.Evidence) (r *record.StoredSession, ref kv.SessionRef, unheard bool) {
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
	r, ref = g.Session(ref)
	switch {
	case r == nil:
	case e.Reply != "" && r.Reply != nil: // those of other sessions with this opening are linked
		if bytes.Equal(r.Reply, record.AppendLinkKey(g.group.Key(), account, record.Clue{Kind: record.ByReply, Value: e.Reply})) {
			return r, ref, false
		}
	case e.Reply != "" && !r.Replied: // the second turn, before the first one's answer was digested
		return r, ref, false
	case e.Reply == "" && r.Completed == 0: // the first turn again, after it failed
		return r, ref, false
	}
	return nil, kv.SessionRef{}, false // another conversation that opens with the same words
}

func (g *Writing) follow(account kv.AccountNumber, c record.Clue, stronger []record.Clue) (*record.StoredSession, kv.SessionRef) {
	ref, ok := g.link(account, c)
	if !ok {
		return nil, ref
	}
	r, ref := g.Session(ref)
	if r == nil || !r.Accepts(stronger) {
		return nil, ref
	}
	return r, ref
}

// linkSession links an opening's evidence to its session, unless it leads elsewhere already.
func (g *Writing) linkSession(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, e *conversation.Evidence) {
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
	if opening := (record.Clue{Kind: record.ByOpening, Value: e.Opening}); e.Opening != "" && r.Exchanges == 0 {
		if before, ok := g.link(ref.Account, opening); ok && !r.Unheard {
			g.linkBefore(w, before)
		}
		g.addLink(w, ref, r, opening)
	}
	if e.Reply != "" {
		g.LinkReply(w, ref, r, e.Reply)
	}
}

// linkBefore links the reply key of a session that another one's opening leads away from.
func (g *Writing) linkBefore(w *commit.Op, ref kv.SessionRef) {
	if r, ref := g.Session(ref); r != nil && r.Reply != nil {
		if key := r.Reply; r.KeepLink(key) {
			g.group.PutID(w, key, kv.TimeID(ref.ID))
		}
		r.Reply, r.Replied = nil, true
		g.PutSession(w, ref, r)
	}
}

// LinkReply makes the key of a conversation's opening and first answer lead to its session, once there is one. If no other
// conversation opened with the same words, the opening leads there, and it is enough that the record has the key.
func (g *Writing) LinkReply(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, reply string) {
	c := record.Clue{Kind: record.ByReply, Value: reply}
	key := record.LinkKey(ref.Account, c)
	switch {
	case bytes.Equal(r.Reply, key):
		return
	case r.Reply == nil && r.Unheard && !r.Replied && g.node == 0 && len(r.Links) > 0:
		r.Reply = key
		g.Count(w, ref, r)
		return
	}
	if !r.Unheard || r.Replied { // otherwise the same opening had never been answered before, and looking for what does not exist is expensive
		if _, taken := g.link(ref.Account, c); taken {
			return
		}
	}
	r.Replied = true
	g.addLink(w, ref, r, c)
}

func (g *Writing) addLink(w *commit.Op, ref kv.SessionRef, r *record.StoredSession, c record.Clue) {
	if key := record.LinkKey(ref.Account, c); r.KeepLink(key) {
		g.group.PutID(w, key, kv.TimeID(ref.ID))
	}
}

// Close counts an ended exchange in its session. digest adds what it said, and reports whether it did; otherwise the
// change is returned that the digest stage works on.
func (g *Writing) Close(w *commit.Op, at kv.ExchangeRef, info *record.ExchangeInfo, digest func(kv.SessionRef) bool) (undigested *feed.Change) {
	r, ref := g.Belongs(at.Account, at.ID)
	if r == nil {
		return nil
	}
	r.Count(info, 1)
	r.Sketch(info, 1)
	g.LinkResponse(w, ref, info)
	if !g.Digests || info.Auxiliary != "" {
		g.PutSession(w, ref, r)
		return nil
	}
	logged := g.Changes.Assigned()
	g.Count(w, ref, r)
	if !digest(ref) {
		undigested = g.Changes.NoteEnded(ref, at.ID)
	}
	if g.Changes.Assigned() == logged { // after a crash the log does not lead to the session
		g.PutSession(w, ref, r)
	}
	return undigested
}

// converses reports whether requests of a surface belong to a conversation.
func converses(surface string) bool {
	format, err := codec.ParseFormat(surface)
	return err != nil || format.Converses()
}

// LinkResponse links the id of an answer to its session, on the surface whose requests name the answer that they
// continue: the other formats have no field for it.
func (g *Writing) LinkResponse(w *commit.Op, ref kv.SessionRef, info *record.ExchangeInfo) {
	if key := conversation.AnswerLink(ref.Account, info); key != nil {
		g.group.PutID(w, key, kv.TimeID(ref.ID))
	}
}

// SummaryKey returns the key of the summary of a session.
func SummaryKey(ref kv.SessionRef) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceSummary, ref.Account), ref.ID[:]...)
}

// UnsummarizedKey returns the key of the mark of a session that needs a summary.
func UnsummarizedKey(ref kv.SessionRef) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceUnsummarized, ref.Account), ref.ID[:]...)
}

// Grew marks a session that needs a summary, if sessions are summarized.
func (g *Writing) Grew(w *commit.Op, ref kv.SessionRef) {
	if g.summaries {
		g.group.Put(w, UnsummarizedKey(ref), binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
	}
}

// DropSummary deletes the summary of a session; the rest of the session may get another one.
func (g *Writing) DropSummary(w *commit.Op, ref kv.SessionRef) {
	if g.group.Has(SummaryKey(ref)) {
		g.group.Put(w, SummaryKey(ref), nil)
		g.Changes.NoteSession(ref)
		g.Grew(w, ref)
	}
}

// Import puts a session from elsewhere. What its clients called it leads to it, unless that leads to another one.
func (g *Writing) Import(w *commit.Op, ref kv.SessionRef, r *record.StoredSession) {
	for _, kind := range [...]byte{record.ByChatKey, record.ByExternal, record.ByNative, record.ByConversation} {
		c := record.Clue{Kind: kind, Value: r.Known(kind)}
		if _, led := g.link(ref.Account, c); c.Value != "" && !led {
			g.addLink(w, ref, r, c)
		}
	}
	g.order(w, ref, r)
	g.PutSession(w, ref, r)
}
