package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange returns one exchange with its bytes. If it does not exist or belongs to another account, the error is
// [codec.KindNotFound]. Account "" searches every account; only the operator's command line may do that.
func (s Archive) Exchange(account, id string) (found *record.Exchange, err error) {
	return found, s.lookUp(account, id, func(tx *badger.Txn, number kv.AccountNumber, key kv.ExchangeID, info *record.ExchangeInfo) (err error) {
		found, err = getExchange(context.Background(), tx, number, key, info, math.MaxInt64)
		return err
	})
}

// ExchangeInfo returns the record of one exchange without reading its bytes; otherwise it is like [Archive.Exchange].
func (s Archive) ExchangeInfo(account, id string) (found *record.ExchangeInfo, err error) {
	return found, s.lookUp(account, id, func(_ *badger.Txn, _ kv.AccountNumber, _ kv.ExchangeID, info *record.ExchangeInfo) error {
		found = info
		return nil
	})
}

// lookUp finds one exchange in the account and calls read.
func (s *core) lookUp(account, id string, read func(*badger.Txn, kv.AccountNumber, kv.ExchangeID, *record.ExchangeInfo) error) error {
	key, ok := kv.ParseExchangeID(id)
	if !ok {
		return record.NoExchange(id)
	}
	numbers, err := s.readable(account)
	if err != nil {
		return err
	}
	found := false
	err = s.view(func(tx *badger.Txn) error {
		for _, number := range numbers {
			info, err := getInfo(tx, number, key)
			if errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			found = true
			return read(tx, number, key, info)
		}
		return nil
	})
	if err != nil {
		return kv.StorageError(err, "exchange %s cannot be read; run mneme check", id)
	}
	if !found {
		return record.NoExchange(id)
	}
	return nil
}

// getExchange reads the request of an exchange, and at most most bytes of its answer.
func getExchange(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, info *record.ExchangeInfo, most int64) (*record.Exchange, error) {
	x := &record.Exchange{ExchangeInfo: *info}
	skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, account, id))
	if err != nil {
		return nil, fmt.Errorf("skeleton of the request: %w", err)
	}
	r := blob.Reader{From: blob.Stored{Tx: tx}, Account: account, Limit: int(info.RequestSize)}
	if x.RawRequest, err = r.AppendBody(make([]byte, 0, info.RequestSize), skeleton); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if int64(len(x.RawRequest)) != info.RequestSize {
		return nil, fmt.Errorf("request has %d bytes, its record says %d", len(x.RawRequest), info.RequestSize)
	}
	if x.RawResponse, err = getResponse(ctx, tx, account, id, info.ResponseSize, most); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if info.Outcome.Ended() && int64(len(x.RawResponse)) != min(info.ResponseSize, most) {
		return nil, fmt.Errorf("answer has %d bytes, its record says %d", len(x.RawResponse), info.ResponseSize)
	}
	return x, nil
}

// maxAhead bounds the bytes allocated for an answer before any of it has been read, because the record may be wrong.
const maxAhead = 64 << 20

// getResponse joins the parts of an answer, up to most bytes. Its record says that it has size bytes.
func getResponse(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, size, most int64) ([]byte, error) {
	joined := make([]byte, 0, max(min(size, most, maxAhead), 0))
	err := eachPart(ctx, tx, account, id, func(_ uint32, part []byte) error {
		if room := most - int64(len(joined)); int64(len(part)) > room {
			joined = append(joined, part[:room]...)
			return errWalked
		}
		joined = append(joined, part...)
		return nil
	})
	if err != nil && !errors.Is(err, errWalked) {
		return nil, err
	}
	return joined, nil
}

// answerSize returns how many bytes of an answer are stored, whatever its record says.
func answerSize(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (size int64, err error) {
	return size, eachPart(ctx, tx, account, id, func(_ uint32, part []byte) error {
		size += int64(len(part))
		return nil
	})
}

// eachPart visits the decoded parts of an answer, with their numbers. A part is valid only during the call. Only one
// part is in memory at a time.
func eachPart(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, visit func(number uint32, part []byte) error) error {
	part := buffer.Get(0)
	defer func() { buffer.Put(part) }()
	return kv.EachItem(ctx, tx, kv.ExchangeKey(kv.SpaceResponse, account, id), func(item *badger.Item) error {
		key := item.Key()
		err := item.Value(func(value []byte) (err error) {
			part, err = blob.AppendDecoded(part[:0], value)
			return err
		})
		if err != nil {
			return err
		}
		return visit(binary.BigEndian.Uint32(key[len(key)-4:]), part)
	})
}

// Exchanges lists exchanges by time, damaged ones as [record.OutcomeDamaged]. Pages neither repeat nor skip exchanges during
// concurrent writes. Account "" lists every account; only the operator's command line may do that.
func (s Archive) Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error) {
	w, err := kv.NewWindow(q.After, q.Before, q.Limit, q.Ascending, kv.ExchangePrefix)
	if err != nil {
		return record.ExchangePage{}, err
	}
	numbers, err := s.readable(account)
	if err != nil {
		return record.ExchangePage{}, err
	}
	var page record.ExchangePage
	err = s.view(func(tx *badger.Txn) error {
		places := listPlaces(tx, numbers, &w)
		if page.HasMore = len(places) > w.Limit; page.HasMore {
			places = places[:w.Limit]
		}
		if w.Reverse {
			slices.Reverse(places)
		}
		page.Data = make([]record.ExchangeInfo, 0, len(places))
		for _, p := range places {
			page.Data = append(page.Data, s.listedExchange(tx, p.Account, p.ID))
		}
		return nil
	})
	if err != nil {
		return record.ExchangePage{}, kv.StorageError(err, "the exchanges cannot be listed; run mneme check")
	}
	return page, nil
}

// listPlaces returns the exchanges of the accounts in the window, and one more if there is one, in walk order.
func listPlaces(tx *badger.Txn, accounts []kv.AccountNumber, w *kv.Window) []kv.ExchangeRef {
	var places []kv.ExchangeRef
	for _, account := range accounts {
		before := len(places)
		w.Walk(tx, kv.SpaceKeyOf(kv.SpaceExchange, account), func(id kv.TimeID, _ *badger.Item) bool {
			places = append(places, kv.ExchangeRef{Account: account, ID: kv.ExchangeID(id)})
			return len(places)-before <= w.Limit
		})
	}
	if len(accounts) > 1 {
		slices.SortFunc(places, func(a, b kv.ExchangeRef) int {
			if w.Backwards {
				a, b = b, a
			}
			return bytes.Compare(a.ID[:], b.ID[:])
		})
	}
	return places[:min(w.Limit+1, len(places))]
}

// readable returns the numbers of the accounts that a lookup for account may touch.
func (s *core) readable(account string) ([]kv.AccountNumber, error) {
	if account == "" {
		return s.accounts.Numbers(), nil
	}
	number, ok := s.accounts.Find(account)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	return []kv.AccountNumber{number}, nil
}

func getInfo(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (*record.ExchangeInfo, error) {
	item, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
	if err != nil {
		return nil, err
	}
	info := new(record.ExchangeInfo)
	err = item.Value(func(stored []byte) error { return record.Decode(stored, info) })
	if err == nil && info.Outcome == record.OutcomeDamaged {
		err = errNoOutcome
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", id, err)
	}
	session, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceBelongs, account, id))
	if err == nil && len(session) == len(kv.SessionID{}) {
		info.Session = kv.SessionID(session).String()
	}
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return nil, err
	}
	return info, nil
}

// Subscribe subscribes to the events of an account after the one with number after; 0 means from now on. The subscriber
// closes it.
func (s Archive) Subscribe(account string, after uint64) (*record.Subscription, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	return s.events.Subscribe(number, after), nil
}
