package store

import (
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A turn names the exchange that continues it, which is known later than everything else in it. So that id precedes the
// encoded record, which then need not be decoded, encoded and compressed a second time.

// The first byte of a turn.
const (
	encodingTurn      = 4
	encodingContinued = 5 // this byte is followed by the id of the turn that continues it

	behindID = 1 + len(kv.ExchangeID{}) // offset of the record in that case
)

// The first byte of an encoded record whose text is a delta against the bytes of the exchange, besides those of
// [blob.Encode].
const encodingText = 6

// encodeTurn encodes a turn with its text in the record.
func encodeTurn(t *turnRecord) []byte { return appendTurn(nil, t, nil, 0) }

// appendTurn encodes a turn, whose messages are those of its reading from index from on; text may be nil, or of later
// messages only. A turn that names its continuation has it in the record.
func appendTurn(dst []byte, t *turnRecord, text *turnText, from int) []byte {
	if text != nil && text.first <= from && t.Continued == "" {
		return appendTurnText(append(dst, encodingTurn, encodingText), t, text, from)
	}
	fields := appendFields(buffer.Get(textSize(t.Messages)+textSize(t.Answer)+4<<10), t)
	defer buffer.Put(fields)
	if t.Continued != "" {
		return blob.AppendEncoded(dst, fields)
	}
	return blob.AppendEncoded(append(dst, encodingTurn), fields)
}

// decodeTurn decodes a turn. sources reads the base of its text; nil: the text is not needed.
func decodeTurn(value []byte, id kv.ExchangeID, sources appendSources) (*turnRecord, error) {
	continued := ""
	switch {
	case len(value) > 1 && value[0] == encodingTurn:
		value = value[1:]
	case len(value) > behindID && value[0] == encodingContinued:
		continued = kv.ExchangeID(value[1:behindID]).String()
		value = value[behindID:]
	}
	t := new(turnRecord)
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
		if err := decodeRecord(fields, t); err != nil {
			return nil, err
		}
	}
	if continued != "" {
		t.Continued = continued
	}
	return t, nil
}

// continueTurn makes turn the one that continues parent, or a branch if there is one already.
func continueTurn(in turns, parent kv.ExchangeID, turn *turnRecord, id kv.ExchangeID) {
	switch before := in.turn(parent); {
	case len(before) == 0:
	case before[0] == encodingTurn:
		in.putTurn(parent, continuedBy(id, before[1:]))
	default: // it has a continuation; a turn that has to be written again has its text in the record
		if r, err := decodeTurn(before, parent, nil); err == nil && r.Continued != turn.Exchange {
			turn.Branch = true
		}
	}
}

// continuedBy returns the value of a turn that another one continues, from its encoded record.
func continuedBy(id kv.ExchangeID, record []byte) []byte {
	value := append(make([]byte, 0, behindID+len(record)), encodingContinued)
	return append(append(value, id[:]...), record...)
}
