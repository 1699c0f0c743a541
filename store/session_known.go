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
		for _, kind := range [...]byte{byNative, byChatKey, byExternal, byConversation} {
			value, err := kv.Get(tx, linkKey(number, clue{kind, id}))
			if err == nil && len(value) == len(kv.SessionID{}) {
				session = kv.SessionID(value).String()
				return nil
			}
		}
		return nil
	})
	return session
}
