package store

import (
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Open exchanges have to be found after their process is gone. Those of an account that began in one commit share a
// note, under the key of the first of them. The note is deleted in the commit in which the last of them ends. So most
// exchanges of a busy store cost no entry when they begin or end.

// openNote is such a note. The writer owns it.
type openNote struct {
	account kv.AccountNumber
	first   kv.ExchangeID
	others  []byte // their ids; unused once the note is committed
	running int    // exchanges of the note that have not ended
}

func (n *openNote) key() []byte { return kv.ExchangeKey(kv.SpaceOpen, n.account, n.first) }

// noteOpen adds an exchange to its account's note in this group.
func (g *commitGroup) noteOpen(account kv.AccountNumber, id kv.ExchangeID) *openNote {
	i := slices.IndexFunc(g.notes, func(n *openNote) bool { return n.account == account })
	if i < 0 {
		n := &openNote{account: account, first: id, others: []byte{}, running: 1}
		g.notes = append(g.notes, n)
		return n
	}
	n := g.notes[i]
	n.others = append(n.others, id[:]...)
	n.running++
	return n
}

// readOpenNote returns the exchanges in a note.
func readOpenNote(key, value []byte) (account kv.AccountNumber, ids []kv.ExchangeID, err error) {
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

// notedOpen reports whether an exchange with an unreadable record may be open because a note names it. It may also have
// ended while another one of the note is open.
func notedOpen(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (noted bool, err error) {
	for item := range kv.Items(tx, kv.SpaceKeyOf(kv.SpaceOpen, account), nil) {
		err = item.Value(func(value []byte) error {
			_, ids, err := readOpenNote(item.Key(), value)
			noted = slices.Contains(ids, id)
			return err
		})
		if noted || err != nil {
			break
		}
	}
	return noted, err
}

func (g *commitGroup) notedOpen(account kv.AccountNumber, id kv.ExchangeID) bool {
	noted, err := notedOpen(g.Committed(), account, id)
	g.Fail(err)
	return noted
}
