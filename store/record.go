package store

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"
	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A record is one byte, its version, and JSON or numbered fields. Exchanges, sessions and turns have fields, since they are
// written with every exchange; all others have JSON, and so have exchanges, sessions and turns of stores before format 2.
const (
	recordJSON   = 1
	recordFields = 2
)

// JSON is encoded and decoded as encoding/json does it, repairing text that is no UTF-8 included, in half to a third of
// the time. Strings are copied out of what is read: records are read from memory that is the database's.
const jsonOptions = encoder.ValidateString | encoder.SortMapKeys

var recordCodec = sonic.Config{CopyString: true, ValidateString: true, CaseSensitive: true}.Froze()

// errRecord does not say what the library says, which quotes the record.
var errRecord = errors.New("the record has not the members it should have")

// encodeRecord gives a record as JSON.
func encodeRecord(v any) ([]byte, error) {
	scratch := append(getBuffer(4<<10), recordJSON)
	defer func() { putBuffer(scratch) }()
	if err := encoder.EncodeInto(&scratch, v, jsonOptions); err != nil {
		return nil, err
	}
	return bytes.Clone(scratch), nil
}

// encodeFields gives a record of numbered fields.
func encodeFields(r fieldRecord) []byte {
	scratch := appendFields(getBuffer(4<<10), r)
	record := bytes.Clone(scratch)
	putBuffer(scratch)
	return record
}

func appendFields(dst []byte, r fieldRecord) []byte {
	w := fieldWriters.Get().(*fieldWriter)
	w.record = append(dst, recordFields)
	r.writeFields(w)
	dst, w.record = w.record, nil
	fieldWriters.Put(w)
	return dst
}

var fieldWriters = sync.Pool{New: func() any { return new(fieldWriter) }}

// decodeRecord reads a record of either kind.
func decodeRecord(record []byte, v any) error {
	if len(record) == 0 {
		return errors.New("empty record")
	}
	switch record[0] {
	case recordJSON:
		if recordCodec.Unmarshal(record[1:], v) != nil {
			return errRecord
		}
		return nil
	case recordFields:
		target, ok := v.(fieldTarget)
		if !ok {
			return errRecord
		}
		r := newFieldReader(record[1:])
		for r.next() {
			target.readField(&r)
		}
		if r.failed {
			return errRecord
		}
		return nil
	}
	return fmt.Errorf("record of version %d, this mneme reads up to %d: upgrade mneme", record[0], recordFields)
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
