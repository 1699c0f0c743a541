package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"
)

// markInterrupted closes the exchanges that were open when the last process ended. It runs before the writer does.
func (s *Store) markInterrupted() error {
	open, err := s.openExchanges()
	if err != nil {
		return err
	}
	g := newGathering(s)
	defer g.reset()
	b := batch{db: s.db}
	defer b.discard()
	for _, at := range open {
		w := &write{records: []record{{exchangeKey(spaceOpen, at.account, at.id), nil}}}
		if err := g.interrupt(w, at); err != nil {
			return err
		}
		b.together(int64(len(w.records)))
		b.apply(w.records)
	}
	return b.commit()
}

func (s *Store) openExchanges() (open []place, err error) {
	err = s.view(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceOpen}})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			account, id, ok := splitExchangeKey(it.Item().Key())
			if !ok {
				return errors.New("malformed key among the open exchanges")
			}
			open = append(open, place{account, id})
		}
		return nil
	})
	return open, err
}

// interrupt ends an exchange with what has arrived of its answer. One that is damaged keeps no store from being opened:
// what cannot be read of it is left as it is, for a check to find.
func (g *gathering) interrupt(w *write, at place) error {
	info, err := getInfo(g.read(), at.account, at.id)
	if err != nil {
		g.store.log.Error("an exchange that was interrupted cannot be read; run mneme check", "exchange", at.id.String(), "error", err)
		return nil
	}
	response, err := getResponse(g.read(), at.account, at.id)
	if err != nil {
		g.store.log.Error("the answer of an exchange that was interrupted cannot be read; run mneme check", "exchange", at.id.String(), "error", err)
	}
	info.ResponseSize = int64(len(response))
	info.Outcome, info.Session = OutcomeInterrupted, ""
	value, err := encodeRecord(info)
	if err != nil {
		return err
	}
	w.records = append(w.records, record{exchangeKey(spaceExchange, at.account, at.id), value})
	g.closeSession(w, at.account, at.id, info)
	return g.err
}
