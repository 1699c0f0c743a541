package kv

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
)

// A record is one byte, its version, followed by JSON or numbered fields. Exchanges, sessions and turns use fields,
// since they are written with every exchange. All others use JSON.
const (
	// RecordJSON is the version of records that [EncodeRecord] writes.
	RecordJSON = 1

	// RecordFields is the version of records with numbered fields.
	RecordFields = 2
)

// JSON is encoded and decoded as by encoding/json, including the repair of invalid UTF-8, in a third to half of the
// time. Strings are copied out of a record, because its memory belongs to the database.
const jsonOptions = encoder.ValidateString | encoder.SortMapKeys

var recordCodec = sonic.Config{CopyString: true, ValidateString: true, CaseSensitive: true}.Froze()

// ErrRecord replaces the library's error, which quotes the record.
var ErrRecord = errors.New("the record does not have the expected members")

// EncodeRecord encodes a record as JSON.
func EncodeRecord(v any) ([]byte, error) {
	scratch := append(buffer.Get(4<<10), RecordJSON)
	defer func() { buffer.Put(scratch) }()
	if err := encoder.EncodeInto(&scratch, v, jsonOptions); err != nil {
		return nil, err
	}
	return bytes.Clone(scratch), nil
}

// DecodeRecord decodes a JSON record. A record with fields does not fit v and gives [ErrRecord].
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
	return fmt.Errorf("the record has version %d, and this mneme reads versions up to %d: upgrade mneme", record[0], RecordFields)
}
