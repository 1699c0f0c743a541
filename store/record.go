package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/bytedance/sonic"
	"github.com/bytedance/sonic/encoder"
	"github.com/dgraph-io/badger/v4"
)

// A record is one version byte and JSON: records are few beside the bytes they describe, and JSON lets an outsider
// read them and a later version add members.
const recordVersion = 1

// Records are encoded and decoded as encoding/json does it, repairing text that is no UTF-8 included, in half to a third of
// the time. Strings are copied out of what is read: records are read from memory that is the database's.
const recordOptions = encoder.ValidateString | encoder.SortMapKeys

var recordJSON = sonic.Config{CopyString: true, ValidateString: true, CaseSensitive: true}.Froze()

// errRecord does not say what the library says, which quotes the record.
var errRecord = errors.New("the record is no JSON of the members it should have")

func encodeRecord(v any) ([]byte, error) {
	scratch := append(getBuffer(4<<10), recordVersion)
	defer func() { putBuffer(scratch) }()
	if err := encoder.EncodeInto(&scratch, v, recordOptions); err != nil {
		return nil, err
	}
	return bytes.Clone(scratch), nil
}

func decodeRecord(record []byte, v any) error {
	if len(record) == 0 {
		return errors.New("empty record")
	}
	if record[0] > recordVersion {
		return fmt.Errorf("record of version %d, this mneme reads up to %d: upgrade mneme", record[0], recordVersion)
	}
	if recordJSON.Unmarshal(record[1:], v) != nil {
		return errRecord
	}
	return nil
}

func getInfo(tx *badger.Txn, account accountNumber, id exchangeID) (*ExchangeInfo, error) {
	item, err := tx.Get(exchangeKey(spaceExchange, account, id))
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
	session, err := getValue(tx, exchangeKey(spaceBelongs, account, id))
	if err == nil && len(session) == len(sessionID{}) {
		info.Session = sessionID(session).String()
	}
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return nil, err
	}
	return info, nil
}
