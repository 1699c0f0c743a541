package kv

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
)

// A record is one byte, its version, and JSON or numbered fields. Exchanges, sessions and turns have fields, since they are
// written with every exchange; all others have JSON, and so have exchanges, sessions and turns of stores before format 2.
const (
	// RecordJSON is the version of records that [EncodeRecord] writes.
	RecordJSON = 1

	// RecordFields is the version of those of numbered fields.
	RecordFields = 2
)

// JSON is encoded and decoded as encoding/json does it, repairing text that is no UTF-8 included, in half to a third of
// the time. Strings are copied out of what is read: records are read from memory that is the database's.
const jsonOptions = encoder.ValidateString | encoder.SortMapKeys

var recordCodec = sonic.Config{CopyString: true, ValidateString: true, CaseSensitive: true}.Froze()

// ErrRecord does not say what the library says, which quotes the record.
var ErrRecord = errors.New("the record has not the members it should have")

// EncodeRecord gives a record as JSON.
func EncodeRecord(v any) ([]byte, error) {
	scratch := append(buffer.Get(4<<10), RecordJSON)
	defer func() { buffer.Put(scratch) }()
	if err := encoder.EncodeInto(&scratch, v, jsonOptions); err != nil {
		return nil, err
	}
	return bytes.Clone(scratch), nil
}

// DecodeRecord reads a record of JSON. One of fields is not for v, and so an [ErrRecord].
func DecodeRecord(record []byte, v any) error {
	if len(record) == 0 {
		return errors.New("empty record")
	}
	switch record[0] {
	case RecordJSON:
		if recordCodec.Unmarshal(record[1:], v) != nil {
			return ErrRecord
		}
		return nil
	case RecordFields:
		return ErrRecord
	}
	return fmt.Errorf("record of version %d, this mneme reads up to %d: upgrade mneme", record[0], RecordFields)
}
