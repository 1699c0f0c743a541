package record

import (
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// SessionName returns the id that every node of a cluster gives the session of a clue.
func SessionName(account string, c Clue) kv.SessionID {
	return kv.NamedSessionID(account, string(c.Kind), c.Value)
}

// BeginLink returns the key for a session's place among the others.
func BeginLink(account kv.AccountNumber, position kv.TimeID) []byte {
	return append(append(kv.SpaceKeyOf(kv.SpaceLink, account), ByBegin), position[:]...)
}

// IsBeginLink reports whether a link is one of [BeginLink].
func IsBeginLink(key []byte) bool {
	at := len(kv.SpaceKeyOf(kv.SpaceLink, 0))
	return len(key) == at+1+len(kv.TimeID{}) && key[at] == ByBegin
}

// ClientLinks returns the keys under which an id from a client leads to a session, in the order in which they are
// looked up.
func ClientLinks(account AccountNumber, id string) (keys [][]byte) {
	for _, kind := range [...]byte{ByNative, ByChatKey, ByExternal, ByConversation} {
		keys = append(keys, LinkKey(account, Clue{kind, id}))
	}
	return keys
}

// Clues returns the session's own values.
func (r *StoredSession) Clues() (clues []Clue) {
	for _, kind := range SessionKinds {
		if value := r.Known(kind); value != "" {
			clues = append(clues, Clue{kind, value})
		}
	}
	return clues
}

// SessionKinds are the kinds of evidence in a session's record, strongest first.
var SessionKinds = [...]byte{ByChatKey, ByExternal, ByNative, ByConversation}

// LinkHash is the length of the hash at the end of a link's key, in bytes.
const LinkHash = 16

// LinkKind returns the kind of evidence in a link.
func LinkKind(key []byte) byte { return key[len(key)-LinkHash-1] }

// LinkOf returns the key of another store's link in this one, where the account has another number.
func LinkOf(account kv.AccountNumber, link []byte) (key []byte, ok bool) {
	own := kv.SpaceKeyOf(kv.SpaceLink, account)
	if len(link) != len(own)+1+LinkHash || link[0] != kv.SpaceLink {
		return nil, false
	}
	return append(own, link[len(own):]...), true
}
