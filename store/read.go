package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

// Exchange gives one exchange with its bytes. An exchange of another account is as unknown as one that never was:
// [codec.KindNotFound]. Account "" looks in every account; only the operator's command line may ask that.
func (s *Store) Exchange(account, id string) (*Exchange, error) {
	key, ok := parseExchangeID(id)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no exchange %q", id)
	}
	numbers, err := s.readable(account)
	if err != nil {
		return nil, err
	}
	var found *Exchange
	err = s.view(func(tx *badger.Txn) error {
		for _, number := range numbers {
			info, err := getInfo(tx, number, key)
			if errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			found, err = getExchange(tx, number, key, info)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, errStorage(err, "exchange %s cannot be read; run mneme check", id)
	}
	if found == nil {
		return nil, codec.Errorf(codec.KindNotFound, "no exchange %q", id)
	}
	return found, nil
}

func getExchange(tx *badger.Txn, account accountNumber, id exchangeID, info *ExchangeInfo) (*Exchange, error) {
	x := &Exchange{ExchangeInfo: *info}
	skeleton, err := getValue(tx, exchangeKey(spaceRequest, account, id))
	if err != nil {
		return nil, fmt.Errorf("skeleton of the request: %w", err)
	}
	r := bodyReader{tx: tx, account: account, limit: int(info.RequestSize)}
	if x.RawRequest, err = r.appendBody(make([]byte, 0, info.RequestSize), skeleton); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if int64(len(x.RawRequest)) != info.RequestSize {
		return nil, fmt.Errorf("request has %d bytes, its record says %d", len(x.RawRequest), info.RequestSize)
	}
	if x.RawResponse, err = getResponse(tx, account, id); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if ended(info.Outcome) && int64(len(x.RawResponse)) != info.ResponseSize {
		return nil, fmt.Errorf("answer has %d bytes, its record says %d", len(x.RawResponse), info.ResponseSize)
	}
	return x, nil
}

// getResponse joins the parts of an answer.
func getResponse(tx *badger.Txn, account accountNumber, id exchangeID) ([]byte, error) {
	var joined []byte
	it := tx.NewIterator(badger.IteratorOptions{Prefix: exchangeKey(spaceResponse, account, id)})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		err := it.Item().Value(func(part []byte) (err error) {
			joined, err = appendDecoded(joined, part)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return joined, nil
}

// ExchangeQuery asks for a page of exchanges.
type ExchangeQuery struct {
	After     string // only exchanges that come after this id in the order asked for; the last id of the previous page
	Before    string // only exchanges that come before this id in the order asked for
	Limit     int    // 1 to 1000; 0: 20
	Ascending bool   // oldest first; otherwise newest first
}

// ExchangePage is an answer to an [ExchangeQuery].
type ExchangePage struct {
	Data    []ExchangeInfo
	HasMore bool // there is at least one more in the same direction
}

// Exchanges lists exchanges by time, damaged ones as [OutcomeDamaged]. Pages neither repeat nor skip while others write. Account "" lists every
// account; only the operator's command line may ask that.
func (s *Store) Exchanges(account string, q ExchangeQuery) (ExchangePage, error) {
	w, err := newWindow(q.After, q.Before, q.Limit, q.Ascending, func(text string) (timeID, bool) { return parseID(exchangePrefix, text) })
	if err != nil {
		return ExchangePage{}, err
	}
	numbers, err := s.readable(account)
	if err != nil {
		return ExchangePage{}, err
	}
	var page ExchangePage
	err = s.view(func(tx *badger.Txn) error {
		places := listPlaces(tx, numbers, &w)
		if page.HasMore = len(places) > w.limit; page.HasMore {
			places = places[:w.limit]
		}
		if w.reverse {
			slices.Reverse(places)
		}
		page.Data = make([]ExchangeInfo, 0, len(places))
		for _, p := range places {
			page.Data = append(page.Data, s.listedExchange(tx, p.account, p.id))
		}
		return nil
	})
	if err != nil {
		return ExchangePage{}, errStorage(err, "the exchanges cannot be listed; run mneme check")
	}
	return page, nil
}

type place struct {
	account accountNumber
	id      exchangeID
}

// listPlaces gives the exchanges of the accounts in the window, and one more if there is one, in the order of the walk.
func listPlaces(tx *badger.Txn, accounts []accountNumber, w *window) []place {
	var places []place
	for _, account := range accounts {
		before := len(places)
		w.walk(tx, spaceKeyOf(spaceExchange, account), func(id timeID, _ *badger.Item) bool {
			places = append(places, place{account, exchangeID(id)})
			return len(places)-before <= w.limit
		})
	}
	if len(accounts) > 1 {
		slices.SortFunc(places, func(a, b place) int {
			if w.backwards {
				a, b = b, a
			}
			return bytes.Compare(a.id[:], b.id[:])
		})
	}
	return places[:min(w.limit+1, len(places))]
}

// readable gives the numbers of the accounts that a look-up for account may touch.
func (s *Store) readable(account string) ([]accountNumber, error) {
	if account == "" {
		return s.accounts.numbers(), nil
	}
	number, ok := s.accounts.number(account)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	return []accountNumber{number}, nil
}

// ended tells whether the record's size of the answer is what is stored of it.
func ended(o Outcome) bool { return o != OutcomeOpen && o != OutcomeInterrupted }
