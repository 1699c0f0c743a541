package ship

import (
	"encoding/hex"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
)

// LogID names one log of a store. A store that begins its log again gives it a new one.
type LogID [16]byte

// String is the id in hexadecimal digits.
func (id LogID) String() string { return hex.EncodeToString(id[:]) }

// Tail is the id of the exchange that a number of a log stands for. Two histories of one log, as after one of them was set back
// to a backup, tell themselves apart by it. The zero Tail is that of a node which does not say.
type Tail [16]byte

// Frame is a stretch of a log.
type Frame struct {
	Node    uint16 // the number of the node that ships, unique in its cluster
	Log     LogID
	After   uint64 // number of the entry before the first; 0: none
	Last    uint64 // number of the last entry
	Tail    Tail   // exchange of the last entry
	Whole   bool   // no object is left out because it was shipped before
	Entries []Entry
}

// Entry is an exchange that has ended, as it is stored. What is not Account or Exchange is encoded as the format of the
// store has it.
type Entry struct {
	Account  string
	Exchange string   // its id
	Record   []byte   // of the exchange
	Session  []byte   // record of the session that it belongs to; nil: it belongs to none
	Skeleton []byte   // of the request
	Parts    [][]byte // of the answer, in order
	Objects  []Object // that the skeleton reaches and the receiver may not have
}

// Object is a block or a node.
type Object struct {
	Node  bool
	Hash  [32]byte // that it is stored under
	Value []byte
}

// Size is about how many bytes the entry takes in a frame.
func (e *Entry) Size() int {
	size := len(e.Account) + len(e.Exchange) + len(e.Record) + len(e.Session) + len(e.Skeleton)
	for _, part := range e.Parts {
		size += len(part)
	}
	for i := range e.Objects {
		size += len(e.Objects[i].Value) + len(e.Objects[i].Hash)
	}
	return size
}

// errMalformed is the error of what is signed and still not what it should be.
var errMalformed = errors.New("malformed")

// The numbers of an entry's fields, and of an object's. A number is never given to another field; the version of packets
// goes up when a reader has to know a new one.
const (
	fieldAccount  = 1
	fieldExchange = 2
	fieldRecord   = 3
	fieldSession  = 4
	fieldSkeleton = 5
	fieldPart     = 6
	fieldBlock    = 7 // 32 bytes of hash, then the value
	fieldNode     = 8 // likewise
)

// fieldEntry is the one field of a list of entries.
const fieldEntry = 1

// AppendEntries appends entries as [ReadEntries] reads them.
func AppendEntries(dst []byte, entries []Entry) []byte {
	var one []byte
	for i := range entries {
		one = entries[i].append(one[:0])
		dst = appendBytes(dst, fieldEntry, one)
	}
	return dst
}

func (e *Entry) append(dst []byte) []byte {
	dst = appendBytes(dst, fieldAccount, []byte(e.Account))
	dst = appendBytes(dst, fieldExchange, []byte(e.Exchange))
	dst = appendBytes(dst, fieldRecord, e.Record)
	if e.Session != nil {
		dst = appendBytes(dst, fieldSession, e.Session)
	}
	dst = appendBytes(dst, fieldSkeleton, e.Skeleton)
	for _, part := range e.Parts {
		dst = appendBytes(dst, fieldPart, part)
	}
	for i := range e.Objects {
		o, field := &e.Objects[i], protowire.Number(fieldBlock)
		if o.Node {
			field = fieldNode
		}
		dst = protowire.AppendTag(dst, field, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(len(o.Hash)+len(o.Value)))
		dst = append(append(dst, o.Hash[:]...), o.Value...)
	}
	return dst
}

func appendBytes(dst []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), value)
}

// ReadEntries reads what [AppendEntries] has written. The entries point into list.
func ReadEntries(list []byte) (entries []Entry, err error) {
	err = eachField(list, func(field protowire.Number, _ uint64, value []byte) error {
		if field != fieldEntry {
			return nil
		}
		var e Entry
		err := eachField(value, e.read)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

func (e *Entry) read(field protowire.Number, _ uint64, value []byte) error {
	switch field {
	case fieldAccount:
		e.Account = string(value)
	case fieldExchange:
		e.Exchange = string(value)
	case fieldRecord:
		e.Record = value
	case fieldSession:
		e.Session = value
	case fieldSkeleton:
		e.Skeleton = value
	case fieldPart:
		e.Parts = append(e.Parts, value)
	case fieldBlock, fieldNode:
		o := Object{Node: field == fieldNode}
		if len(value) < len(o.Hash) {
			return errMalformed
		}
		o.Hash, o.Value = [32]byte(value), value[len(o.Hash):]
		e.Objects = append(e.Objects, o)
	}
	return nil
}

// eachField opens a message of a kind and visits its fields.
func (k *Key) eachField(kind Kind, message []byte, visit func(field protowire.Number, number uint64, value []byte) error) error {
	body, err := k.Open(kind, message)
	if err != nil {
		return err
	}
	return eachField(body, visit)
}

// eachField visits the fields of a message. Those that are no numbers and no bytes are skipped.
func eachField(message []byte, visit func(field protowire.Number, number uint64, value []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errMalformed
		}
		message = message[n:]
		var (
			number uint64
			value  []byte
			err    error
		)
		switch kind {
		case protowire.VarintType:
			if number, n = protowire.ConsumeVarint(message); n >= 0 {
				err = visit(field, number, nil)
			}
		case protowire.BytesType:
			if value, n = protowire.ConsumeBytes(message); n >= 0 {
				err = visit(field, 0, value)
			}
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return errMalformed
		}
		if err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
