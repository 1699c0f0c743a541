package journal

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Entry reads the record of an exchange and its turn, which is nil if there is none.
func Entry(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (entry record.TimelineEntry, err error) {
	info, err := Info(tx, account, id)
	if err != nil {
		return entry, err
	}
	entry.Exchange = *info
	entry.Turn, err = Turn(tx, account, id)
	return entry, err
}

// Turn returns the turn of an exchange, nil if there is none.
func Turn(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (*record.Turn, error) {
	value, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceTurn, account, id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := record.DecodeTurn(value, id, TextSources(tx, account, id))
	if err != nil {
		return nil, err
	}
	conversation.Withhold(r.Messages) // it may have been digested before marks were heeded
	conversation.Withhold(r.Answer)
	return &r.Turn, nil
}

// TextSources returns a function that reads the base of a turn's text.
func TextSources(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) record.AppendSources {
	return func(dst []byte, of *record.TextBase) (source []byte, err error) {
		source = dst
		r := blob.Reader{From: blob.Stored{Tx: tx}, Account: account, Limit: record.MaxSource}
		if of.Source&record.FromRequest != 0 {
			skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, account, id))
			if err != nil {
				return nil, fmt.Errorf("skeleton of the request: %w", err)
			}
			if source, err = r.AppendBody(source, skeleton); err != nil {
				return nil, fmt.Errorf("request: %w", err)
			}
		}
		if of.Source&record.FromBlocks != 0 {
			if source, err = r.AppendBlocks(source, of.Blocks); err != nil {
				return nil, fmt.Errorf("request: %w", err)
			}
		}
		if of.Source&record.FromAnswer != 0 {
			if source, err = AppendFirstPart(source, tx, account, id); err != nil {
				return nil, fmt.Errorf("answer: %w", err)
			}
		}
		return source, nil
	}
}

// AppendFirstPart appends the first part of an answer, as blob.AppendStored returns it.
func AppendFirstPart(dst []byte, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) ([]byte, error) {
	if short, err := shortAnswer(tx, account, id); err != nil {
		return dst, err
	} else if short != nil {
		return blob.AppendStored(dst, short)
	}
	item, err := tx.Get(kv.PartKey(kv.SpaceResponse, account, id, 0))
	if err != nil {
		return dst, err
	}
	err = item.Value(func(value []byte) (err error) {
		dst, err = blob.AppendStored(dst, value)
		return err
	})
	return dst, err
}
