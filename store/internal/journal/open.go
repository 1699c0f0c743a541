package journal

import (
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// ReadOpenNote returns the exchanges in a note.
func ReadOpenNote(key, value []byte) (account kv.AccountNumber, ids []kv.ExchangeID, err error) {
	account, first, ok := kv.SplitExchangeKey(key)
	if !ok {
		return 0, nil, errors.New("malformed key among the open exchanges")
	}
	ids = append(ids, first)
	for ; len(value) >= len(first); value = value[len(first):] {
		ids = append(ids, kv.ExchangeID(value))
	}
	return account, ids, nil
}

// NotedOpen reports whether an exchange with an unreadable record may be open because a note names it. It may also have
// ended while another one of the note is open.
func NotedOpen(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (noted bool, err error) {
	for item := range kv.Items(tx, kv.SpaceKeyOf(kv.SpaceOpen, account), nil) {
		err = item.Value(func(value []byte) error {
			_, ids, err := ReadOpenNote(item.Key(), value)
			noted = slices.Contains(ids, id)
			return err
		})
		if noted || err != nil {
			break
		}
	}
	return noted, err
}
