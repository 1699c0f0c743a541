package store

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// SessionKnownAs returns the session of an account that has an id, its own or one from a client; "" if none has.
func (s Archive) SessionKnownAs(account, id string) (session string) {
	number, ok := s.accounts.Find(account)
	if !ok || id == "" {
		return ""
	}
	if _, own := kv.ParseSessionID(id); own {
		return id
	}
	_ = s.view(func(tx *badger.Txn) error {
		for _, key := range ClientLinks(number, id) {
			value, err := kv.Get(tx, key)
			if err == nil && len(value) == len(kv.SessionID{}) {
				session = kv.SessionID(value).String()
				return nil
			}
		}
		return nil
	})
	return session
}

// ClientLinks returns the keys under which an id from a client leads to a session, in the order in which they are
// looked up.
func ClientLinks(account AccountNumber, id string) (keys [][]byte) {
	for _, kind := range [...]byte{byNative, byChatKey, byExternal, byConversation} {
		keys = append(keys, linkKey(account, clue{kind, id}))
	}
	return keys
}
