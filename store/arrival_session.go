package store

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// sessions are the sessions of one account, with their links. What is put is visible from then on.
type sessions interface {
	at(id kv.SessionID) *sessionRecord // the exact session; nil: none. A caller that changes it must put it
	put(id kv.SessionID, r *sessionRecord)
	link(key []byte) (kv.SessionID, bool) // key as [linkKey] returns it
	putLink(key []byte, id kv.SessionID)
	unlink(key []byte)
}

// storedSessions are those of an account in the store.
type storedSessions struct {
	g       *commitGroup
	w       *operation
	account kv.AccountNumber
}

func (s storedSessions) at(id kv.SessionID) *sessionRecord {
	return s.g.sessionAt(sessionRef{s.account, id})
}

func (s storedSessions) put(id kv.SessionID, r *sessionRecord) {
	s.g.putSession(s.w, sessionRef{s.account, id}, r)
}

func (s storedSessions) link(key []byte) (id kv.SessionID, ok bool) {
	return s.g.linkAt(key)
}

func (s storedSessions) putLink(key []byte, id kv.SessionID) { s.g.put(s.w, key, slices.Clone(id[:])) }

func (s storedSessions) unlink(key []byte) { s.g.put(s.w, key, nil) }

// followed returns a session, or the one that it was merged into; nil if there is none. at returns the exact session.
func followed(at func(kv.SessionID) *sessionRecord, id kv.SessionID) (*sessionRecord, kv.SessionID) {
	for range MaxMerges {
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
			in.put(own, &sessionRecord{Session: Session{
				ID: x.session.ID, Account: x.Account, Created: x.session.Created, Updated: x.session.Updated, Merged: r.ID,
			}})
		}
	}
	if r == nil {
		id = own
		r = &sessionRecord{Session: Session{
			ID: x.session.ID, Account: x.Account, Created: x.session.Created, Updated: x.session.Updated,
			Title: x.session.Title, Tags: x.session.Tags, Parent: x.session.Parent, Agent: x.session.Agent, Derived: x.session.Derived,
		}}
		if before := in.at(own); before != nil {
			r.Former = before.Merged
		}
		r.order(in, x.account, id)
	}
	x.linkTo(in, id, r)
	r.Exchanges++
	if x.info.Started.After(r.Updated) {
		r.Updated = x.info.Started
	}
	for _, model := range x.session.Models {
		r.addModel(model)
	}
	r.comesFrom(x.info.Client(), x.info.Project)
	in.put(id, r)
	x.settle(in, id, r)
	return id, true
}

// settle ends the wait of a request for the answer that it continues, if it arrived before the answer. Where the
// request began a session of its own, rest is that one from then on, and has to be merged into r, the session of the
// answer. It stays apart if their clues contradict each other. An id that a provider gives to several answers joins
// nothing but the first one of them.
func (x *arrival) settle(in sessions, id kv.SessionID, r *sessionRecord) {
	waiting, rest := x.waiting(in)
	if waiting == nil {
		return
	}
	key := answerLink(x.account, &x.info)
	waiting.Links = slices.DeleteFunc(slices.Clone(waiting.Links), func(link []byte) bool { return bytes.Equal(link, key) }) // others may read the old slice
	in.put(rest, waiting)
	if rest != id && r.accepts(waiting.clues()) {
		x.rest = rest
	}
}

// clues returns the session's own values.
func (r *sessionRecord) clues() (clues []clue) {
	for _, kind := range sessionKinds {
		if value := r.known(kind); value != "" {
			clues = append(clues, clue{kind, value})
		}
	}
	return clues
}

// sessionKinds are the kinds of evidence in a session's record, strongest first.
var sessionKinds = [...]byte{byChatKey, byExternal, byNative, byConversation}

// known finds the session that matches an entry's session, as [commitGroup.findSession] would.
func (x *arrival) known(in sessions) (*sessionRecord, kv.SessionID) {
	var stronger []clue
	for _, kind := range sessionKinds {
		c := clue{kind, x.session.known(kind)}
		if c.value == "" {
			continue
		}
		if id, ok := in.link(linkKey(x.account, c)); ok {
			if r, id := followed(in.at, id); r != nil && r.accepts(stronger) {
				return r, id
			}
		}
		stronger = append(stronger, c)
	}
	kinds := []byte{byResponse, byReply}
	if len(stronger) > 0 {
		kinds = kinds[:1]
	}
	for _, link := range x.session.Links {
		key, ok := linkOf(x.account, link)
		if !ok || bytes.IndexByte(kinds, linkKind(key)) < 0 {
			continue
		}
		if id, ok := in.link(key); ok {
			if r, id := followed(in.at, id); r != nil && r.accepts(stronger) {
				return r, id
			}
		}
	}
	if r, id := x.waiting(in); r != nil && r.accepts(stronger) {
		return r, id
	}
	return nil, kv.SessionID{}
}

// waiting returns the session of a request that continues the answer of the exchange and arrived before it; nil if
// there is none. If the link of the answer is not among those of its session, it is of another answer with the same id.
func (x *arrival) waiting(in sessions) (*sessionRecord, kv.SessionID) {
	key := answerLink(x.account, &x.info)
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
func answerLink(account kv.AccountNumber, info *ExchangeInfo) []byte {
	if info.ResponseID == "" || !refersToAnswers(info.Surface) && !info.fromHistory() {
		return nil
	}
	return linkKey(account, clue{byResponse, info.ResponseID})
}

// linkHash is the length of the hash at the end of a link's key, in bytes.
const linkHash = 16

// linkKind returns the kind of evidence in a link.
func linkKind(key []byte) byte { return key[len(key)-linkHash-1] }

// linkOf returns the key of another store's link in this one, where the account has another number.
func linkOf(account kv.AccountNumber, link []byte) (key []byte, ok bool) {
	own := kv.SpaceKeyOf(kv.SpaceLink, account)
	if len(link) != len(own)+1+linkHash || link[0] != kv.SpaceLink {
		return nil, false
	}
	return append(own, link[len(own):]...), true
}

// linkTo points the links of the entry's original session to r, unless they lead elsewhere.
func (x *arrival) linkTo(in sessions, id kv.SessionID, r *sessionRecord) {
	from := x.session
	for _, kind := range sessionKinds {
		c := clue{kind, from.known(kind)}
		if c.value == "" || r.known(kind) != "" && r.known(kind) != c.value {
			continue
		}
		key := linkKey(x.account, c)
		if _, taken := in.link(key); taken {
			continue
		}
		*r.idOf(kind) = *from.idOf(kind)
		r.addLink(in, id, key)
	}
	for _, link := range from.Links {
		key, ok := linkOf(x.account, link)
		if !ok {
			continue
		}
		if _, taken := in.link(key); taken {
			continue
		}
		switch linkKind(key) {
		case byReply:
			r.Replied = r.Replied || len(r.Links) < maxSessionLinks
		case byOpening, byResponse:
		default:
			continue // those with a value were linked above
		}
		r.addLink(in, id, key)
	}
}

// addLink points a key to the session, unless the session has too many.
func (r *sessionRecord) addLink(in sessions, id kv.SessionID, key []byte) {
	if r.keepLink(key) {
		in.putLink(key, id)
	}
}
