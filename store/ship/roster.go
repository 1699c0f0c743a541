package ship

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// NamedValue is something that nodes share under a name: an entry of a centre's roster ([KindRoster]), or the state of a
// model's reasoning ([KindReasoning]).
type NamedValue struct {
	Name  string
	Value []byte
}

// Beat says that the centre is there, and how far what it has given is.
type Beat struct {
	Revision uint64 // of the last change that it has given
	Time     time.Time
}

// Fields of named values, and of beats.
const (
	valueName  = 1
	valueValue = 2

	beatRevision = 1
	beatMillis   = 2
)

// Seal makes a message of a value, the same each time.
func (e *NamedValue) Seal(k *Key, kind Kind) []byte {
	body := appendBytes(nil, valueName, []byte(e.Name))
	return k.Seal(kind, appendBytes(body, valueValue, e.Value))
}

// OpenNamedValue reads what [NamedValue.Seal] has written. The value points into the message, and is not nil.
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

// Seal makes a message of a beat.
func (b *Beat) Seal(k *Key) []byte {
	body := appendNumber(nil, beatRevision, b.Revision)
	return k.Seal(KindBeat, appendNumber(body, beatMillis, uint64(b.Time.UnixMilli())))
}

// OpenBeat reads what [Beat.Seal] has written.
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
