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
)

// Exchange returns one exchange with its bytes. If it does not exist or belongs to another account, the error is
// [codec.KindNotFound]. Account "" searches every account; only the operator's command line may do that.
func (s Archive) Exchange(account, id string) (found *Exchange, err error) {
	return found, s.lookUp(account, id, func(tx *badger.Txn, number kv.AccountNumber, key kv.ExchangeID, info *ExchangeInfo) (err error) {
		found, err = getExchange(context.Background(), tx, number, key, info, math.MaxInt64)
		return err
	})
}

// ExchangeInfo returns the record of one exchange without reading its bytes; otherwise it is like [Archive.Exchange].
func (s Archive) ExchangeInfo(account, id string) (found *ExchangeInfo, err error) {
	return found, s.lookUp(account, id, func(_ *badger.Txn, _ kv.AccountNumber, _ kv.ExchangeID, info *ExchangeInfo) error {
		found = info
		return nil
	})
}

// lookUp finds one exchange in the account and calls read.
func (s *core) lookUp(account, id string, read func(*badger.Txn, kv.AccountNumber, kv.ExchangeID, *ExchangeInfo) error) error {
	key, ok := kv.ParseExchangeID(id)
	if !ok {
		return NoExchange(id)
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
		return NoExchange(id)
	}
	return nil
}

// getExchange reads the request of an exchange, and at most most bytes of its answer.
func getExchange(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, info *ExchangeInfo, most int64) (*Exchange, error) {
	x := &Exchange{ExchangeInfo: *info}
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
	if ended(info.Outcome) && int64(len(x.RawResponse)) != min(info.ResponseSize, most) {
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

// ExchangeQuery asks for a page of exchanges.
type ExchangeQuery struct {
	After     string // only exchanges after this id in the requested order; the last id of the previous page
	Before    string // only exchanges before this id in the requested order
	Limit     int    // 1 to 1000; 0: 20
	Ascending bool   // oldest first; otherwise newest first
}

// ExchangePage is an answer to an [ExchangeQuery].
type ExchangePage struct {
	Data    []ExchangeInfo
	HasMore bool // there is at least one more in the same direction
}

// Exchanges lists exchanges by time, damaged ones as [OutcomeDamaged]. Pages neither repeat nor skip exchanges during
// concurrent writes. Account "" lists every account; only the operator's command line may do that.
func (s Archive) Exchanges(account string, q ExchangeQuery) (ExchangePage, error) {
	w, err := kv.NewWindow(q.After, q.Before, q.Limit, q.Ascending, kv.ExchangePrefix)
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
		if page.HasMore = len(places) > w.Limit; page.HasMore {
			places = places[:w.Limit]
		}
		if w.Reverse {
			slices.Reverse(places)
		}
		page.Data = make([]ExchangeInfo, 0, len(places))
		for _, p := range places {
			page.Data = append(page.Data, s.listedExchange(tx, p.account, p.id))
		}
		return nil
	})
	if err != nil {
		return ExchangePage{}, kv.StorageError(err, "the exchanges cannot be listed; run mneme check")
	}
	return page, nil
}

type place struct {
	account kv.AccountNumber
	id      kv.ExchangeID
}

// listPlaces returns the exchanges of the accounts in the window, and one more if there is one, in walk order.
func listPlaces(tx *badger.Txn, accounts []kv.AccountNumber, w *kv.Window) []place {
	var places []place
	for _, account := range accounts {
		before := len(places)
		w.Walk(tx, kv.SpaceKeyOf(kv.SpaceExchange, account), func(id kv.TimeID, _ *badger.Item) bool {
			places = append(places, place{account, kv.ExchangeID(id)})
			return len(places)-before <= w.Limit
		})
	}
	if len(accounts) > 1 {
		slices.SortFunc(places, func(a, b place) int {
			if w.Backwards {
				a, b = b, a
			}
			return bytes.Compare(a.id[:], b.id[:])
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

// ended reports whether the record's answer size must match the stored answer.
func ended(o Outcome) bool { return o != OutcomeOpen && o != OutcomeInterrupted }
