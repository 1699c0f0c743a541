package store

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// sessions are the sessions of one account, with their links. What is put is visible from then on.
type sessions interface {
	at(id kv.SessionID) *record.StoredSession // the exact session; nil: none. A caller that changes it must put it
	put(id kv.SessionID, r *record.StoredSession)
	link(key []byte) (kv.SessionID, bool) // key as [record.LinkKey] returns it
	putLink(key []byte, id kv.SessionID)
	unlink(key []byte)
}

// storedSessions are those of an account in the store.
type storedSessions struct {
	g       *commitGroup
	w       *operation
	account kv.AccountNumber
}

func (s storedSessions) at(id kv.SessionID) *record.StoredSession {
	return s.g.sessionAt(kv.SessionRef{Account: s.account, ID: id})
}

func (s storedSessions) put(id kv.SessionID, r *record.StoredSession) {
	s.g.putSession(s.w, kv.SessionRef{Account: s.account, ID: id}, r)
}

func (s storedSessions) link(key []byte) (id kv.SessionID, ok bool) {
	return s.g.linkAt(key)
}

func (s storedSessions) putLink(key []byte, id kv.SessionID) { s.g.put(s.w, key, slices.Clone(id[:])) }

func (s storedSessions) unlink(key []byte) { s.g.put(s.w, key, nil) }

// followed returns a session, or the one that it was merged into; nil if there is none. at returns the exact session.
func followed(at func(kv.SessionID) *record.StoredSession, id kv.SessionID) (*record.StoredSession, kv.SessionID) {
	for range record.MaxMerges {
		r := at(id)
		if r == nil {
			break
		}
		next, merged := kv.ParseSessionID(r.Merged)
		if !merged {
			return r, id
		}
		id = next
	}
	return nil, id
}

// arrival is an exchange that another store has captured, with its session there.
type arrival struct {
	account kv.AccountNumber
	info    *record.ExchangeInfo
	session *record.StoredSession // nil: it belongs to none
	rest    kv.SessionID          // see settle; zero: none
}

// join puts an exchange into the session that it had where it was captured; ok is false if it had none. Several stores
// may have begun the same conversation under different ids: the first to arrive stays, and the others lead to it.
func (x *arrival) join(in sessions) (id kv.SessionID, ok bool) {
	if x.session == nil {
		return id, false
	}
	own, _ := kv.ParseSessionID(x.session.ID) // already read without an error
	r, id := followed(in.at, own)
	if r == nil {
		if r, id = x.known(in); r != nil {
			in.put(own, &record.StoredSession{Session: record.Session{
				ID: x.session.ID, Account: x.info.Account, Created: x.session.Created, Updated: x.session.Updated, Merged: r.ID,
			}})
		}
	}
	if r == nil {
		id = own
		r = &record.StoredSession{Session: record.Session{
			ID: x.session.ID, Account: x.info.Account, Created: x.session.Created, Updated: x.session.Updated,
			Title: x.session.Title, Tags: x.session.Tags, Parent: x.session.Parent, Agent: x.session.Agent, Derived: x.session.Derived,
		}}
		if before := in.at(own); before != nil {
			r.Former = before.Merged
		}
		putInOrder(in, x.account, id, r)
	}
	x.linkTo(in, id, r)
	r.Exchanges++
	if x.info.Started.After(r.Updated) {
		r.Updated = x.info.Started
	}
	for _, model := range x.session.Models {
		r.AddModel(model)
	}
	r.NoteOrigin(x.info.Client(), x.info.Project)
	in.put(id, r)
	x.settle(in, id, r)
	return id, true
}

// settle ends the wait of a request for the answer that it continues, if it arrived before the answer. Where the
// request began a session of its own, rest is that one from then on, and has to be merged into r, the session of the
// answer. It stays apart if their clues contradict each other. An id that a provider gives to several answers joins
// nothing but the first one of them.
func (x *arrival) settle(in sessions, id kv.SessionID, r *record.StoredSession) {
	waiting, rest := x.waiting(in)
	if waiting == nil {
		return
	}
	key := answerLink(x.account, x.info)
	waiting.Links = slices.DeleteFunc(slices.Clone(waiting.Links), func(link []byte) bool { return bytes.Equal(link, key) }) // others may read the old slice
	in.put(rest, waiting)
	if rest != id && r.Accepts(waiting.Clues()) {
		x.rest = rest
	}
}

// known finds the session that matches an entry's session, as [commitGroup.findSession] would.
func (x *arrival) known(in sessions) (*record.StoredSession, kv.SessionID) {
	var stronger []record.Clue
	for _, kind := range record.SessionKinds {
		c := record.Clue{Kind: kind, Value: x.session.Known(kind)}
		if c.Value == "" {
			continue
		}
		if id, ok := in.link(record.LinkKey(x.account, c)); ok {
			if r, id := followed(in.at, id); r != nil && r.Accepts(stronger) {
				return r, id
			}
		}
		stronger = append(stronger, c)
	}
	kinds := []byte{record.ByResponse, record.ByReply}
	if len(stronger) > 0 {
		kinds = kinds[:1]
	}
	for _, link := range x.session.Links {
		key, ok := record.LinkOf(x.account, link)
		if !ok || bytes.IndexByte(kinds, record.LinkKind(key)) < 0 {
			continue
		}
		if id, ok := in.link(key); ok {
			if r, id := followed(in.at, id); r != nil && r.Accepts(stronger) {
				return r, id
			}
		}
	}
	if r, id := x.waiting(in); r != nil && r.Accepts(stronger) {
		return r, id
	}
	return nil, kv.SessionID{}
}

// waiting returns the session of a request that continues the answer of the exchange and arrived before it; nil if
// there is none. If the link of the answer is not among those of its session, it is of another answer with the same id.
func (x *arrival) waiting(in sessions) (*record.StoredSession, kv.SessionID) {
	key := answerLink(x.account, x.info)
	if key == nil {
		return nil, kv.SessionID{}
	}
	led, ok := in.link(key)
	if !ok {
		return nil, kv.SessionID{}
	}
	r, id := followed(in.at, led)
	if r == nil || !slices.ContainsFunc(r.Links, func(link []byte) bool { return bytes.Equal(link, key) }) {
		return nil, kv.SessionID{}
	}
	return r, id
}

// answerLink returns the key of an answer that requests may refer to, or that a client's history may have again; nil for
// any other.
func answerLink(account kv.AccountNumber, info *record.ExchangeInfo) []byte {
	if info.ResponseID == "" || !refersToAnswers(info.Surface) && !info.FromHistory() {
		return nil
	}
	return record.LinkKey(account, record.Clue{Kind: record.ByResponse, Value: info.ResponseID})
}

// linkTo points the links of the entry's original session to r, unless they lead elsewhere.
func (x *arrival) linkTo(in sessions, id kv.SessionID, r *record.StoredSession) {
	from := x.session
	for _, kind := range record.SessionKinds {
		c := record.Clue{Kind: kind, Value: from.Known(kind)}
		if c.Value == "" || r.Known(kind) != "" && r.Known(kind) != c.Value {
			continue
		}
		key := record.LinkKey(x.account, c)
		if _, taken := in.link(key); taken {
			continue
		}
		*r.IDOf(kind) = *from.IDOf(kind)
		addLink(in, id, r, key)
	}
	for _, link := range from.Links {
		key, ok := record.LinkOf(x.account, link)
		if !ok {
			continue
		}
		if _, taken := in.link(key); taken {
			continue
		}
		switch record.LinkKind(key) {
		case record.ByReply:
			r.Replied = r.Replied || len(r.Links) < record.MaxSessionLinks
		case record.ByOpening, record.ByResponse:
		default:
			continue // those with a value were linked above
		}
		addLink(in, id, r, key)
	}
}

// addLink points a key to the session, unless the session has too many.
func addLink(in sessions, id kv.SessionID, r *record.StoredSession, key []byte) {
	if r.KeepLink(key) {
		in.putLink(key, id)
	}
}
