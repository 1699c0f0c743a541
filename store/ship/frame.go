package ship

import (
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// LogID identifies a log of a store. A store that starts its log again gives it a new id.
type LogID [16]byte

// String returns the id in hexadecimal.
func (id LogID) String() string { return hex.EncodeToString(id[:]) }

// Tail is the id of the exchange with a certain number in a log. It distinguishes two histories of a log, as there are
// after one side was restored from a backup. The zero Tail comes from a node that does not report it.
type Tail [16]byte

// Frame is a range of a log.
type Frame struct {
	Node    uint16 // number of the shipping node, unique in its cluster
	Log     LogID
	After   uint64 // number of the entry before the first; 0: none
	Last    uint64 // number of the last entry
	Tail    Tail   // exchange of the last entry
	Whole   bool   // no object is omitted because it was shipped before
	Entries []Entry
}

// Entry is an ended exchange, as it is stored. All fields except Account and Exchange are encoded in the format of the
// store.
type Entry struct {
	Account  string
	Exchange string   // its id
	Record   []byte   // of the exchange
	Session  []byte   // record of its session; nil: it belongs to none
	Skeleton []byte   // of the request
	Parts    [][]byte // of the answer, in order
	Objects  []Object // reachable from the skeleton, and possibly missing at the receiver

	// Ahead is by how much the clock of the shipping node is ahead of the centre's; 0 also if it is unknown.
	Ahead time.Duration
}

// Object is a block or a node.
type Object struct {
	Node  bool
	Hash  [32]byte // that it is stored under
	Value []byte
}

// Size returns the approximate size of the entry in a frame, in bytes.
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

// errMalformed is returned for signed messages with invalid content.
var errMalformed = errors.New("malformed")

// Field numbers of an entry, and of an object. A number is never reused; the version of packets is increased when a
// reader must know a new field.
const (
	fieldAccount  = 1
	fieldExchange = 2
	fieldRecord   = 3
	fieldSession  = 4
	fieldSkeleton = 5
	fieldPart     = 6
	fieldBlock    = 7 // 32 bytes of hash, then the value
	fieldNode     = 8 // the same
	fieldAhead    = 9 // nanoseconds, as zigzag
)

// fieldEntry is the only field of a list of entries.
const fieldEntry = 1

// AppendEntries appends entries in the form that [ReadEntries] reads.
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
	if e.Ahead != 0 {
		dst = appendNumber(dst, fieldAhead, protowire.EncodeZigZag(int64(e.Ahead)))
	}
	return dst
}

func appendBytes(dst []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), value)
}

// ReadEntries decodes a list of [AppendEntries]. The entries point into list.
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

func (e *Entry) read(field protowire.Number, number uint64, value []byte) error {
	switch field {
	case fieldAhead:
		e.Ahead = time.Duration(protowire.DecodeZigZag(number))
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

// eachField visits the fields of a message that are varints or bytes. It skips all others.
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
