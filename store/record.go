package store

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// encodeFields encodes a record of numbered fields.
func encodeFields(r fieldRecord) []byte {
	scratch := appendFields(buffer.Get(4<<10), r)
	record := bytes.Clone(scratch)
	buffer.Put(scratch)
	return record
}

func appendFields(dst []byte, r fieldRecord) []byte {
	w := fieldWriters.Get().(*fieldWriter)
	w.record = append(dst, kv.RecordFields)
	r.writeFields(w)
	dst, w.record = w.record, nil
	fieldWriters.Put(w)
	return dst
}

var fieldWriters = sync.Pool{New: func() any { return new(fieldWriter) }}

// newFieldWriter returns a pooled writer; neither it nor its bytes may be used after release.
func newFieldWriter(size int) *fieldWriter {
	w := fieldWriters.Get().(*fieldWriter)
	w.record = buffer.Get(size)
	return w
}

func (w *fieldWriter) release() {
	buffer.Put(w.record)
	w.record = nil
	fieldWriters.Put(w)
}

// decodeRecord reads a record of either kind.
func decodeRecord(record []byte, v any) error {
	target, ok := v.(fieldTarget)
	if !ok || len(record) == 0 || record[0] > kv.RecordFields {
		return kv.DecodeRecord(record, v)
	}
	if record[0] != kv.RecordFields {
		return kv.ErrRecord
	}
	return decodeFields(record[1:], target)
}

// decodeFields reads numbered fields.
func decodeFields(fields []byte, target fieldTarget) error {
	r := newFieldReader(fields)
	for r.next() {
		target.readField(&r)
	}
	if r.failed {
		return kv.ErrRecord
	}
	return nil
}

func getInfo(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) (*ExchangeInfo, error) {
	item, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
	if err != nil {
		return nil, err
	}
	info := new(ExchangeInfo)
	err = item.Value(func(record []byte) error { return decodeRecord(record, info) })
	if err == nil && info.Outcome == OutcomeDamaged {
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
