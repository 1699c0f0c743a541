package ship

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// NamedValue is a value that nodes share under a name: an entry of a centre's roster ([KindRoster]), or a model's
// reasoning state ([KindReasoning]).
type NamedValue struct {
	Name  string
	Value []byte
}

// Beat says that the centre is alive, and which revision of the roster it has published.
type Beat struct {
	Revision uint64 // of the last published change
	Time     time.Time
}

// Fields of named values, and of beats.
const (
	valueName  = 1
	valueValue = 2

	beatRevision = 1
	beatMillis   = 2
)

// Seal encodes and signs a value; the result is always the same.
func (e *NamedValue) Seal(k *Key, kind Kind) []byte {
	body := appendBytes(nil, valueName, []byte(e.Name))
	return k.Seal(kind, appendBytes(body, valueValue, e.Value))
}

// OpenNamedValue verifies and decodes a message of [NamedValue.Seal]. The value points into the message, and is not
// nil.
func OpenNamedValue(k *Key, kind Kind, message []byte) (e NamedValue, err error) {
	e.Value = []byte{}
	err = k.eachField(kind, message, func(field protowire.Number, _ uint64, value []byte) error {
		switch field {
		case valueName:
			e.Name = string(value)
		case valueValue:
			e.Value = value
		}
		return nil
	})
	return e, err
}

// Seal encodes and signs a beat.
func (b *Beat) Seal(k *Key) []byte {
	body := appendNumber(nil, beatRevision, b.Revision)
	return k.Seal(KindBeat, appendNumber(body, beatMillis, uint64(b.Time.UnixMilli())))
}

// OpenBeat verifies and decodes a message of [Beat.Seal].
func OpenBeat(k *Key, message []byte) (b Beat, err error) {
	err = k.eachField(KindBeat, message, func(field protowire.Number, number uint64, _ []byte) error {
		switch field {
		case beatRevision:
			b.Revision = number
		case beatMillis:
			b.Time = time.UnixMilli(int64(number))
		}
		return nil
	})
	return b, err
}
