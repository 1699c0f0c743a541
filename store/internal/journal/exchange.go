package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// ErrNoOutcome is the error for a record with an outcome that only lists use.
var ErrNoOutcome = errors.New("the record has no outcome")

// Exchange reads the request of an exchange, and at most most bytes of its answer.
func Exchange(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, info *record.ExchangeInfo, most int64) (*record.Exchange, error) {
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
	if x.RawResponse, err = Answer(ctx, tx, account, id, info.ResponseSize, most); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if info.Outcome.Ended() && int64(len(x.RawResponse)) != min(info.ResponseSize, most) {
		return nil, fmt.Errorf("answer has %d bytes, its record says %d", len(x.RawResponse), info.ResponseSize)
	}
	return x, nil
}

// maxAhead bounds the bytes allocated for an answer before any of it has been read, because the record may be wrong.
const maxAhead = 64 << 20

// Answer joins the parts of an answer, up to most bytes. Its record says that it has size bytes.
func Answer(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, size, most int64) ([]byte, error) {
	joined := make([]byte, 0, max(min(size, most, maxAhead), 0))
	err := EachPart(ctx, tx, account, id, func(_ uint32, part []byte) error {
		if room := most - int64(len(joined)); int64(len(part)) > room {
			joined = append(joined, part[:room]...)
			return kv.ErrEnough
		}
		joined = append(joined, part...)
		return nil
	})
	if err != nil && !errors.Is(err, kv.ErrEnough) {
		return nil, err
	}
	return joined, nil
}

// AnswerSize returns how many bytes of an answer are stored, whatever its record says.
func AnswerSize(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (size int64, err error) {
	return size, EachPart(ctx, tx, account, id, func(_ uint32, part []byte) error {
		size += int64(len(part))
		return nil
	})
}

// EachPart visits the decoded parts of an answer, with their numbers. A part is valid only during the call. Only one
// part is in memory at a time.
func EachPart(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID, visit func(number uint32, part []byte) error) error {
	part := buffer.Get(0)
	defer func() { buffer.Put(part) }()
	short, err := shortAnswer(tx, account, id)
	if err != nil {
		return err
	}
	if short != nil {
		if part, err = blob.AppendDecoded(part, short); err != nil {
			return err
		}
		return visit(0, part)
	}
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

// shortAnswer returns an answer that is kept in the record of its exchange, encoded; nil: it is in parts, or the record
// cannot be read.
func shortAnswer(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) ([]byte, error) {
	var in record.ExchangeSizes
	item, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = item.Value(func(stored []byte) error {
		if record.Decode(stored, &in) != nil {
			in.Part = nil
		}
		return nil
	})
	return in.Part, err
}

// Places returns the exchanges of the accounts in the window, and one more if there is one, in walk order.
func Places(tx *badger.Txn, accounts []kv.AccountNumber, w *kv.Window) []kv.ExchangeRef {
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

// Info reads the record of an exchange, with its session. The error is [badger.ErrKeyNotFound] if there is none.
func Info(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (*record.ExchangeInfo, error) {
	item, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
	if err != nil {
		return nil, err
	}
	info := new(record.ExchangeInfo)
	err = item.Value(func(stored []byte) error { return record.Decode(stored, info) })
	if err == nil && info.Outcome == record.OutcomeDamaged {
		err = ErrNoOutcome
	}
	if err != nil {
		return nil, fmt.Errorf("record of %s: %w", id, err)
	}
	info.Part = nil
	session, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceBelongs, account, id))
	if err == nil && len(session) == len(kv.SessionID{}) {
		info.Session = kv.SessionID(session).String()
	}
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return nil, err
	}
	return info, nil
}

// Latest returns an exchange's record as the writer knows it, nil if it is gone. An unreadable record is empty.
func Latest(g *commit.Group, account kv.AccountNumber, id kv.ExchangeID) (info *record.ExchangeInfo, readable bool) {
	value := g.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
	if value == nil {
		return nil, false
	}
	info = new(record.ExchangeInfo)
	if record.Decode(value, info) != nil {
		return new(record.ExchangeInfo), false
	}
	return info, true
}
