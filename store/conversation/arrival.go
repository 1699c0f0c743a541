package conversation

import (
	"bytes"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Arrival is an exchange that another store has captured, with its session there.
type Arrival struct {
	Account kv.AccountNumber
	Info    *record.ExchangeInfo
	Session *record.StoredSession // nil: it belongs to none
	rest    kv.SessionID          // see settle; zero: none

	// Ahead is by how much the clock of Info is ahead of the centre's.
	Ahead time.Duration
}

// Began returns when the edge got the exchange, by the centre's clock.
func (x *Arrival) Began() time.Time { return x.Info.KeptSince().Add(-x.Ahead) }

// Join puts the exchange into its session, and counts it there; "": it has none.
func (x *Arrival) Join(in *Sessions) (session string) {
	id, ok := x.join(in)
	if !ok {
		return ""
	}
	r := in.At(id)
	r.Count(x.Info, 1)
	r.Sketch(x.Info, 1)
	in.Put(id, r)
	if key := AnswerLink(x.Account, x.Info); key != nil {
		in.PutLink(key, id)
	}
	return id.String()
}

// Rest returns the session that a request began which continues this answer and arrived before it; "" if there is none.
// It has to be merged into the session of the answer, see [Sessions.Unite].
func (x *Arrival) Rest() (session string) {
	if x.rest == (kv.SessionID{}) {
		return ""
	}
	return x.rest.String()
}

// Evidence returns what [Arrival.Join] looks up first: the exchange's original session, and the keys that led there.
func (x *Arrival) Evidence() (session string, keys [][]byte) {
	if x.Session == nil {
		return "", nil
	}
	for _, kind := range record.SessionKinds {
		if value := x.Session.Known(kind); value != "" {
			keys = append(keys, record.LinkKey(x.Account, record.Clue{Kind: kind, Value: value}))
		}
	}
	for _, link := range x.Session.Links {
		if key, ok := record.LinkOf(x.Account, link); ok {
			keys = append(keys, key)
		}
	}
	if key := AnswerLink(x.Account, x.Info); key != nil {
		keys = append(keys, key)
	}
	return x.Session.ID, keys
}

// join puts the exchange into the session that it had where it was captured; ok is false if it had none. Several stores
// may have begun the same conversation under different ids: the first to arrive stays, and the others lead to it.
func (x *Arrival) join(in SessionStore) (id kv.SessionID, ok bool) {
	if x.Session == nil {
		return id, false
	}
	own, _ := kv.ParseSessionID(x.Session.ID) // already read without an error
	r, id := Follow(in.At, own)
	if r == nil {
		if r, id = x.known(in); r != nil {
			in.Put(own, &record.StoredSession{Session: record.Session{
				ID: x.Session.ID, Account: x.Info.Account, Created: x.Session.Created, Updated: x.Session.Updated, Merged: r.ID,
			}})
		}
	}
	if r == nil {
		id = own
		r = &record.StoredSession{Session: record.Session{
			ID: x.Session.ID, Account: x.Info.Account, Created: x.Session.Created, Updated: x.Session.Updated,
			Title: x.Session.Title, Tags: x.Session.Tags, Parent: x.Session.Parent, Agent: x.Session.Agent, Derived: x.Session.Derived,
		}}
		if before := in.At(own); before != nil {
			r.Former = before.Merged
		}
		PutInOrder(in, x.Account, id, r)
	}
	x.linkTo(in, id, r)
	r.Exchanges++
	if x.Info.Started.After(r.Updated) {
		r.Updated = x.Info.Started
	}
	for _, model := range x.Session.Models {
		r.AddModel(model)
	}
	r.NoteOrigin(x.Info.Client(), x.Info.Project)
	in.Put(id, r)
	x.settle(in, id, r)
	return id, true
}

// settle ends the wait of a request for the answer that it continues, if it arrived before the answer. Where the
// request began a session of its own, rest is that one from then on, and has to be merged into r, the session of the
// answer. It stays apart if their clues contradict each other. An id that a provider gives to several answers joins
// nothing but the first one of them.
func (x *Arrival) settle(in SessionStore, id kv.SessionID, r *record.StoredSession) {
	waiting, rest := x.waiting(in)
	if waiting == nil {
		return
	}
	key := AnswerLink(x.Account, x.Info)
	waiting.Links = slices.DeleteFunc(slices.Clone(waiting.Links), func(link []byte) bool { return bytes.Equal(link, key) }) // others may read the old slice
	in.Put(rest, waiting)
	if rest != id && r.Accepts(waiting.Clues()) {
		x.rest = rest
	}
}

// known finds the session that matches an entry's session, as findSession of package sessions would.
func (x *Arrival) known(in SessionStore) (*record.StoredSession, kv.SessionID) {
	var stronger []record.Clue
	for _, kind := range record.SessionKinds {
		c := record.Clue{Kind: kind, Value: x.Session.Known(kind)}
		if c.Value == "" {
			continue
		}
		if id, ok := in.Link(record.LinkKey(x.Account, c)); ok {
			if r, id := Follow(in.At, id); r != nil && r.Accepts(stronger) {
				return r, id
			}
		}
		stronger = append(stronger, c)
	}
	kinds := []byte{record.ByResponse, record.ByReply}
	if len(stronger) > 0 {
		kinds = kinds[:1]
	}
	for _, link := range x.Session.Links {
		key, ok := record.LinkOf(x.Account, link)
		if !ok || bytes.IndexByte(kinds, record.LinkKind(key)) < 0 {
			continue
		}
		if id, ok := in.Link(key); ok {
			if r, id := Follow(in.At, id); r != nil && r.Accepts(stronger) {
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
func (x *Arrival) waiting(in SessionStore) (*record.StoredSession, kv.SessionID) {
	key := AnswerLink(x.Account, x.Info)
	if key == nil {
		return nil, kv.SessionID{}
	}
	led, ok := in.Link(key)
	if !ok {
		return nil, kv.SessionID{}
	}
	r, id := Follow(in.At, led)
	if r == nil || !slices.ContainsFunc(r.Links, func(link []byte) bool { return bytes.Equal(link, key) }) {
		return nil, kv.SessionID{}
	}
	return r, id
}

// linkTo points the links of the entry's original session to r, unless they lead elsewhere.
func (x *Arrival) linkTo(in SessionStore, id kv.SessionID, r *record.StoredSession) {
	from := x.Session
	for _, kind := range record.SessionKinds {
		c := record.Clue{Kind: kind, Value: from.Known(kind)}
		if c.Value == "" || r.Known(kind) != "" && r.Known(kind) != c.Value {
			continue
		}
		key := record.LinkKey(x.Account, c)
		if _, taken := in.Link(key); taken {
			continue
		}
		*r.IDOf(kind) = *from.IDOf(kind)
		addLink(in, id, r, key)
	}
	for _, link := range from.Links {
		key, ok := record.LinkOf(x.Account, link)
		if !ok {
			continue
		}
		if _, taken := in.Link(key); taken {
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

// MeantBy reports whether an erasure selects the exchange, which arrives after it.
func (x *Arrival) MeantBy(e *record.Erasure, in *Sessions) bool {
	return x.Began().Before(e.Created) && e.Selection.Matches(x.Info) && names(&e.Selection, x, in)
}

// names reports whether a selection names an arriving exchange or its session, or names none at all.
func names(sel *record.Selection, x *Arrival, in SessionStore) bool {
	if len(sel.Exchanges)+len(sel.Sessions) == 0 || slices.Contains(sel.Exchanges, x.Info.ID) {
		return true
	}
	if len(sel.Sessions) == 0 || x.Session == nil {
		return false
	}
	id, _ := kv.ParseSessionID(x.Session.ID) // already read without an error
	for range record.MaxMerges {
		if slices.Contains(sel.Sessions, id.String()) {
			return true
		}
		r := in.At(id)
		if r == nil {
			break
		}
		if slices.Contains(sel.Sessions, r.Former) {
			return true
		}
		into, merged := kv.ParseSessionID(r.Merged)
		if !merged {
			break
		}
		id = into
	}
	return false
}
