package record

import (
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A turn names the exchange that continues it, which is known later than everything else in it. So that id precedes the
// encoded record, which then need not be decoded, encoded and compressed a second time.

// The first byte of a turn.
const (
	EncodingTurn      = 4
	EncodingContinued = 5                        // this byte is followed by the id of the turn that continues it
	BehindID          = 1 + len(kv.ExchangeID{}) // offset of the record in that case
)

// The first byte of an encoded record whose text is a delta against the bytes of the exchange, besides those of
// [blob.Encode].
const encodingText = 6

// EncodeTurn encodes a turn with its text in the record.
func EncodeTurn(t *StoredTurn) []byte { return AppendTurn(nil, t, nil, 0) }

// AppendTurn encodes a turn, whose messages are those of its reading from index from on; text may be nil, or of later
// messages only. A turn that names its continuation has it in the record.
func AppendTurn(dst []byte, t *StoredTurn, text *TurnText, from int) []byte {
	if text != nil && text.first <= from && t.Continued == "" {
		return appendTurnText(append(dst, EncodingTurn, encodingText), t, text, from)
	}
	fields := Append(buffer.Get(textSize(t.Messages)+textSize(t.Answer)+4<<10), t)
	defer buffer.Put(fields)
	if t.Continued != "" {
		return blob.AppendEncoded(dst, fields)
	}
	return blob.AppendEncoded(append(dst, EncodingTurn), fields)
}

// DecodeTurn decodes a turn. sources reads the base of its text; nil: the text is not needed.
func DecodeTurn(value []byte, id kv.ExchangeID, sources AppendSources) (*StoredTurn, error) {
	continued := ""
	switch {
	case len(value) > 1 && value[0] == EncodingTurn:
		value = value[1:]
	case len(value) > BehindID && value[0] == EncodingContinued:
		continued = kv.ExchangeID(value[1:BehindID]).String()
		value = value[BehindID:]
	}
	t := new(StoredTurn)
	if len(value) > 1 && value[0] == encodingText {
		t.Exchange = id.String()
		if err := decodeTurnText(value[1:], t, sources); err != nil {
			return nil, err
		}
	} else {
		fields, err := blob.AppendDecoded(nil, value)
		if err != nil {
			return nil, err
		}
		if err := Decode(fields, t); err != nil {
			return nil, err
		}
	}
	if continued != "" {
		t.Continued = continued
	}
	return t, nil
}

// ContinuedBy returns the value of a turn that another one continues, from its encoded record.
func ContinuedBy(id kv.ExchangeID, record []byte) []byte {
	value := append(make([]byte, 0, BehindID+len(record)), EncodingContinued)
	return append(append(value, id[:]...), record...)
}

// ReadTurn reads a turn's record, and returns the histories that it has noted.
func ReadTurn(record []byte) (turn *Turn, histories [][]byte, err error) {
	t, err := DecodeTurn(record, kv.ExchangeID{}, WholeTurns)
	if err != nil {
		return nil, nil, err
	}
	for i := range t.Histories {
		histories = append(histories, t.Histories[i][:])
	}
	return &t.Turn, histories, nil
}

// WholeTurns is for turns that hold all of their text.
func WholeTurns([]byte, *TextBase) ([]byte, error) { return nil, errTurnText }
