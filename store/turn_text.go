package store

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// textSources returns a function that reads the base of a turn's text.
func textSources(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) record.AppendSources {
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
			if source, err = appendFirstPart(source, tx, account, id); err != nil {
				return nil, fmt.Errorf("answer: %w", err)
			}
		}
		return source, nil
	}
}

// appendFirstPart appends the first part of an answer, as blob.AppendStored returns it.
func appendFirstPart(dst []byte, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) ([]byte, error) {
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
