package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// markInterrupted closes the exchanges that were open when the last process ended. It runs before the writer does.
func (s *Store) markInterrupted() error {
	type opened struct {
		account accountNumber
		id      exchangeID
	}
	var found []opened
	err := s.view(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceOpen}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			account, id, ok := splitExchangeKey(it.Item().Key())
			if !ok {
				return errors.New("malformed key among the open exchanges")
			}
			found = append(found, opened{account, id})
		}
		return nil
	})
	if err != nil {
		return err
	}
	g := newGathering(s)
	defer g.reset()
	b := batch{db: s.db}
	defer b.discard()
	for _, o := range found {
		info, err := getInfo(g.read(), o.account, o.id)
		if err != nil {
			return err
		}
		response, err := getResponse(g.read(), o.account, o.id)
		if err != nil {
			return err
		}
		info.ResponseSize = int64(len(response))
		info.Outcome, info.Session = OutcomeInterrupted, ""
		value, err := encodeRecord(info)
		if err != nil {
			return err
		}
		w := &write{records: []record{
			{exchangeKey(spaceExchange, o.account, o.id), value},
			{exchangeKey(spaceOpen, o.account, o.id), nil},
		}}
		if g.closeSession(w, o.account, o.id, info); g.err != nil {
			return g.err
		}
		b.together(int64(len(w.records)))
		b.apply(w.records)
	}
	return b.commit()
}
