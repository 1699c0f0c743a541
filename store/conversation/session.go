package conversation

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// SessionStore are the sessions of one account, with their links. What is put is visible from then on.
type SessionStore interface {
	At(id kv.SessionID) *record.StoredSession // the exact session; nil: none. A caller that changes it must put it
	Put(id kv.SessionID, r *record.StoredSession)
	Link(key []byte) (kv.SessionID, bool) // key as [record.LinkKey] returns it
	PutLink(key []byte, id kv.SessionID)
	Unlink(key []byte)
}

// Follow returns a session, or the one that it was merged into; nil if there is none. at returns the exact session.
func Follow(at func(kv.SessionID) *record.StoredSession, id kv.SessionID) (*record.StoredSession, kv.SessionID) {
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

// AnswerLink returns the key of an answer that requests may refer to, or that a client's history may have again; nil for
// any other.
func AnswerLink(account kv.AccountNumber, info *record.ExchangeInfo) []byte {
	if info.ResponseID == "" || !refersToAnswers(info.Surface) && !info.FromHistory() {
		return nil
	}
	return record.LinkKey(account, record.Clue{Kind: record.ByResponse, Value: info.ResponseID})
}

// addLink points a key to the session, unless the session has too many.
func addLink(in SessionStore, id kv.SessionID, r *record.StoredSession, key []byte) {
	if r.KeepLink(key) {
		in.PutLink(key, id)
	}
}

// PutInOrder records a new session's place among the others, if its id does not contain it.
func PutInOrder(in SessionStore, account kv.AccountNumber, id kv.SessionID, r *record.StoredSession) {
	if !id.IsNamed() {
		return
	}
	key := record.BeginLink(account, id.Position(r.Created))
	r.Links = append(r.Links, key)
	in.PutLink(key, id)
}

// AnswerKey identifies an answer by the provider's id, if requests name the answer that they continue, or what it has made;
// nil otherwise.
func AnswerKey(info *record.ExchangeInfo) []byte {
	if info.ResponseID == "" || !refersToAnswers(info.Surface) && info.Surface != codec.Pass.String() {
		return nil
	}
	return AnswerKeyOf(info.ResponseID)
}

// AnswerKeyOf is [AnswerKey] for an answer with that id.
func AnswerKeyOf(response string) []byte {
	key := record.LinkKey(0, record.Clue{Kind: record.ByResponse, Value: response})
	return key[len(key)-record.LinkHash:]
}

// refersToAnswers reports whether requests of a surface may refer to earlier answers by their ids.
func refersToAnswers(surface string) bool {
	format, err := codec.ParseFormat(surface)
	return err == nil && crossing.Traits(format).Client.StoredAnswers
}
